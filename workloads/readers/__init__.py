"""One module a trace format; each reader returns a `Trace`."""

from workloads.readers.azure import read_azure_csv

__all__ = ["read_azure_csv"]
