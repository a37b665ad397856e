"""What prompts share that are given as token ids: the tokens with which they begin alike."""

from collections.abc import Sequence
from itertools import count, groupby

from workloads.content import Segment


def shared_beginnings(prompts: Sequence[list[int]]) -> list[list[Segment]]:
    """Segments of each prompt, none empty: cut where prompts that began alike part.

    [1, 2, 3], [1, 2, 4, 5] and [1, 2] are [(0, 2), (1, 1)], [(0, 2), (2, 2)] and [(0, 2)]. A prompt
    has at most one segment more than there are such places on its way.
    """
    contents: list[list[Segment]] = [[] for _ in prompts]
    content_ids = count()
    order = sorted(range(len(prompts)), key=lambda i: prompts[i])
    alike = [(order, 0)] if order else []  # (prompts in order, how many tokens are dealt with)
    while alike:
        group, begin = alike.pop()
        # In order, what the first and the last have in common, all have.
        end = _num_common(prompts[group[0]], prompts[group[-1]], begin)
        if end > begin:
            segment = (next(content_ids), end - begin)
            for i in group:
                contents[i].append(segment)
        longer = (i for i in group if len(prompts[i]) > end)
        parts = [list(part) for _, part in groupby(longer, key=lambda i: prompts[i][end])]
        alike += ((part, end) for part in reversed(parts))
    return contents


def _num_common(a: list[int], b: list[int], begin: int) -> int:
    """How many first tokens are equal, where `begin` are known to be."""
    stop = min(len(a), len(b))
    return next((k for k in range(begin, stop) if a[k] != b[k]), stop)
