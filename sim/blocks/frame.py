"""The pool at one moment, as a picture shows it."""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from engine.engine_base import EngineBase
from engine.kv_manager import KVUsage
from engine.sequence import Sequence
from sim.sequence_name import name_of

MOST_CELLS = 4096  # more cannot be told apart


class Cell(NamedTuple):
    """A block, or several neighbours.

    holders: who holds it, by name; of several blocks, as most of
        those are that somebody holds.
    num_live: of num_slots, those that hold computed tokens. rest: the ledger's class of the others,
        or of most of them.
    """

    holders: tuple[str, ...]
    num_live: int
    num_slots: int
    rest: str


@dataclass(frozen=True)
class Frame:
    """The pool while a step is computed.

    step: its number; None: between steps. cells: by block id. per_cell: blocks that each cell
        stands for, the last one for as many as are left.
    num_held, num_shared, num_cached: blocks that somebody holds, that several do, and that keep
        their content though nobody does.
    usage: the ledger, in slots. running, waiting: by name, in order, as the step began.
    """

    start_ns: int
    step: int | None
    cells: tuple[Cell, ...]
    per_cell: int
    num_blocks: int
    num_held: int
    num_shared: int
    num_cached: int
    usage: KVUsage
    running: tuple[str, ...]
    waiting: tuple[str, ...]


class Beginning(NamedTuple):
    """A step as it begins: who runs and who waits. Others may come before it ends."""

    start_ns: int
    step: int | None
    running: tuple[Sequence, ...]
    waiting: tuple[Sequence, ...]

    @property
    def head(self) -> Sequence | None:
        """Who is admitted next."""
        return self.waiting[0] if self.waiting else None


def beginning(engine: EngineBase, start_ns: int, step: int | None) -> Beginning:
    """Of a step that begins now."""
    scheduler = engine.scheduler
    return Beginning(start_ns, step, tuple(scheduler.running), tuple(scheduler.waiting))


def frame_of(engine: EngineBase, begun: Beginning) -> Frame:
    """The pool of an engine now, while the step that has begun is computed."""
    states = engine.snapshot(begun.head)
    block_size = engine.config.block_size
    per_cell = -(-len(states) // MOST_CELLS)
    names = {seq: name_of(seq) for state in states for seq in state.holders}
    cells = [
        Cell(tuple(names[seq] for seq in s.holders), s.num_live, block_size, s.rest) for s in states
    ]
    return Frame(
        begun.start_ns,
        begun.step,
        tuple(folded(cells, per_cell)),
        per_cell,
        len(states),
        num_held=sum(bool(state.holders) for state in states),
        num_shared=sum(len(state.holders) > 1 for state in states),
        num_cached=sum(state.rest == "cached" for state in states),
        usage=engine.kv.usage(begun.head),
        running=tuple(map(name_of, begun.running)),
        waiting=tuple(map(name_of, begun.waiting)),
    )


def folded(cells: list[Cell], per_cell: int) -> list[Cell]:
    """So many neighbours in one cell each."""
    if per_cell == 1:
        return cells
    return [_joined(cells[i : i + per_cell]) for i in range(0, len(cells), per_cell)]


def _joined(cells: list[Cell]) -> Cell:
    rests: Counter[str] = Counter()
    for cell in cells:
        rests[cell.rest] += cell.num_slots - cell.num_live
    held = Counter(cell.holders for cell in cells if cell.holders)
    return Cell(
        holders=held.most_common(1)[0][0] if held else (),
        num_live=sum(cell.num_live for cell in cells),
        num_slots=sum(cell.num_slots for cell in cells),
        rest=rests.most_common(1)[0][0],
    )
