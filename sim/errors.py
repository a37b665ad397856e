"""What the command line reports in one line, with exit status 2 and no traceback."""


class UserError(Exception):
    """A mistake of the user: the message says where, what came and what was expected."""


class InterruptedRun(Exception):  # noqa: N818, no mistake
    """Ctrl-C; the message says what was kept."""
