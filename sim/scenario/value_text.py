"""A value of a scenario in a line of text."""

import json


def value_text(value: object) -> str:
    """As it may stand in a scenario file or after `--set key=`: what is no word is JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)
