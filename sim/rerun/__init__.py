"""A run of a run folder once more, step by step, for somebody to watch."""

from sim.rerun.rerun import Chosen, choose, watch
from sim.rerun.window import Window, WindowOver, parse_window

__all__ = ["Chosen", "Window", "WindowOver", "choose", "parse_window", "watch"]
