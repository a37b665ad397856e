"""A value of a scenario in a line of text."""

import json
from typing import Any


def value_text(value: object) -> str:
    """As it may stand in a scenario file or after `--set key=`: what is no word is JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=_plain)


def _plain(value: Any) -> Any:
    """A scalar of NumPy is a number; whatever else there may be is a word."""
    return value.item() if hasattr(value, "item") else str(value)
