"""Takes pictures of the pool of a replica as a run goes by."""

from engine.engine_base import EngineBase
from engine.kv_manager import KVUsage
from engine.step import Step
from sim.blocks.frame import Beginning, Frame, beginning, frame_of
from sim.rerun import Window, WindowOver
from sim.watched import DoneStep, Watcher

REPLICA = 0  # the one whose pool is shown


class _Pool(Watcher):
    """Looks at the pool with every step."""

    def __init__(self) -> None:
        self._begun: Beginning | None = None

    def began(self, replica: int, engine: EngineBase, step: Step, start_ns: int) -> None:
        """See Watcher."""
        if replica == REPLICA:
            self._begun = beginning(engine, start_ns, step.index)

    def ran(self, replica: int, engine: EngineBase, done: DoneStep) -> None:
        """See Watcher."""
        if replica == REPLICA:
            assert self._begun
            self.look(engine, self._begun, done.end_ns, done.usage)

    def look(self, engine: EngineBase, begun: Beginning, end_ns: int, usage: KVUsage) -> None:
        """A step is over, and its tokens are not taken yet. usage: the ledger meanwhile."""


class Telling(_Pool):
    """The moment that tells most.

    That with most blocks shared, of equals with most held, of equals with most slots that hold
    nothing.
    """

    def __init__(self, window: Window) -> None:
        super().__init__()
        self._window = window
        self._best = (-1, 0, 0)
        self.frame: Frame | None = None

    def look(self, engine: EngineBase, begun: Beginning, end_ns: int, usage: KVUsage) -> None:
        """See _Pool."""
        if not self._window.has(begun.start_ns, end_ns):
            return
        num_empty = usage.tail + usage.reserved + usage.over_reserved
        kv = engine.kv
        score = (kv.num_shared_blocks, -kv.num_free_blocks, num_empty)
        if score > self._best or self.frame is None:
            self._best = score
            self.frame = frame_of(engine, begun)

    @property
    def why(self) -> str:
        """What is special about the moment."""
        if self._best[0] > 0:
            return "when most blocks are shared"
        return "when most blocks are held, with most empty slots in them"


class AtTime(_Pool):
    """The step that is computed at a time, or the next one."""

    def __init__(self, time_ns: int) -> None:
        super().__init__()
        self._time_ns = time_ns
        self.frame: Frame | None = None

    def look(self, engine: EngineBase, begun: Beginning, end_ns: int, usage: KVUsage) -> None:
        """See _Pool."""
        if end_ns > self._time_ns:
            self.frame = frame_of(engine, begun)
            raise WindowOver


class Film(_Pool):
    """Frames of a window, at most so many: every step, or every second, every fourth ..."""

    def __init__(self, window: Window, most_frames: int) -> None:
        super().__init__()
        self._window = window
        self._most_frames = most_frames
        self._num_seen = 0
        self.stride = 1
        self.frames: list[Frame] = []

    def look(self, engine: EngineBase, begun: Beginning, end_ns: int, usage: KVUsage) -> None:
        """See _Pool."""
        if not self._window.has(begun.start_ns, end_ns):
            return
        if self._num_seen % self.stride == 0:
            self.frames.append(frame_of(engine, begun))
        self._num_seen += 1
        if len(self.frames) > self._most_frames:
            self.frames = self.frames[::2]
            self.stride *= 2
