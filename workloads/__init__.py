"""What a simulated system is asked to do: request content, arrivals, lengths and traces."""

from workloads.arrivals import Arrivals, ClosedLoop, ConstantRate, Gamma, Poisson, Weibull
from workloads.beams import BeamModel
from workloads.classes import RequestClass, classified
from workloads.content import AnswerTokens, Segment, SegmentPrompt, content_token_ids
from workloads.durations import (
    Durations,
    EmpiricalTimes,
    ExponentialTime,
    FixedTime,
    LogNormalTime,
    empirical_times_from_file,
)
from workloads.errors import WorkloadError
from workloads.lengths import (
    Empirical,
    Exponential,
    Fixed,
    Lengths,
    LogNormal,
    Uniform,
    empirical_from_file,
)
from workloads.limits import OutputLimits, output_limits
from workloads.mixing import Part, mixed, overlaid
from workloads.prefixes import MOST_DOCUMENTS, Documents, SharedPrefix
from workloads.readers import FORMATS, read_trace
from workloads.replay import workload_from_trace
from workloads.resampled import SharingRows, read_sharing_rows, resampled, sharing_rows_csv
from workloads.sessions import Sessions
from workloads.shaping import Shape
from workloads.sharing_rows import sharing_rows
from workloads.source import Source, read_source
from workloads.streams import stream
from workloads.synthetic import synthetic
from workloads.trace import Trace, trace_of_workload
from workloads.varying import Bursts, Diurnal
from workloads.windows import Windows
from workloads.workload import Workload

__all__ = [
    "FORMATS",
    "MOST_DOCUMENTS",
    "AnswerTokens",
    "Arrivals",
    "BeamModel",
    "Bursts",
    "ClosedLoop",
    "ConstantRate",
    "Diurnal",
    "Documents",
    "Durations",
    "Empirical",
    "EmpiricalTimes",
    "Exponential",
    "ExponentialTime",
    "Fixed",
    "FixedTime",
    "Gamma",
    "Lengths",
    "LogNormal",
    "LogNormalTime",
    "OutputLimits",
    "Part",
    "Poisson",
    "RequestClass",
    "Segment",
    "SegmentPrompt",
    "Sessions",
    "Shape",
    "SharedPrefix",
    "SharingRows",
    "Source",
    "Trace",
    "Uniform",
    "Weibull",
    "Windows",
    "Workload",
    "WorkloadError",
    "classified",
    "content_token_ids",
    "empirical_from_file",
    "empirical_times_from_file",
    "mixed",
    "output_limits",
    "overlaid",
    "read_sharing_rows",
    "read_source",
    "read_trace",
    "resampled",
    "sharing_rows",
    "sharing_rows_csv",
    "stream",
    "synthetic",
    "trace_of_workload",
    "workload_from_trace",
]
