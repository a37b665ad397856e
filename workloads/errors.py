"""The error of this package."""


class WorkloadError(ValueError):
    """A user's mistake in a workload.

    The message is one line: where (file, line, column or field), what came, what was expected.
    """
