"""What a sequence is called where somebody reads of it."""

from engine.sequence import Sequence


def name_of(seq: Sequence) -> str:
    """The number of its request; with that of the output where there are several."""
    number = str(seq.request.request_id)
    return f"{number}.{seq.index}" if seq.group else number
