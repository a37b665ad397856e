"""The settings that a line of vLLM's log spells out, read without evaluating anything."""

import re
from typing import NamedTuple

_PAIR = re.compile(r"\s*(?:'(?P<quoted>\w+)'\s*:|(?P<bare>\w+)\s*=)\s*(?P<value>.*)", re.DOTALL)
_TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_INT = re.compile(r"-?[0-9]{1,18}")
_FLOAT = re.compile(r"-?[0-9]{1,18}\.[0-9]*(e-?[0-9]{1,3})?|-?[0-9]+e-?[0-9]{1,3}")
_WORDS = {"True": True, "False": False, "None": None}
_OPENING, _CLOSING = "([{", ")]}"

Value = str | int | float | bool | None


class Fields(NamedTuple):
    """values: by name, those that are plain. is_whole: false where the line ends too early."""

    values: dict[str, Value]
    is_whole: bool


def parse_fields(text: str, *, is_bracketed: bool) -> Fields:
    """`a=1, b='x', c=F(d=2)` or `'a': 1, 'b': {...}`, up to the bracket that closes it.

    What stands in brackets of its own has no name here. is_bracketed: the closing bracket must
    come; else the end of the line will do, unless a bracket or quote is open there.

    >>> parse_fields("a=1, b=F(c=2), d='x, y')", is_bracketed=True).values
    {'a': 1, 'd': 'x, y'}
    """
    pieces, is_closed, depth = _pieces(text)
    is_whole = is_closed or (not is_bracketed and depth == 0)
    values: dict[str, Value] = {}
    for piece in pieces if is_whole else pieces[:-1]:
        match = _PAIR.fullmatch(piece)
        if match is None:
            continue
        is_plain, value = _plain(match["value"].strip())
        if is_plain:
            values[match["quoted"] or match["bare"]] = value
    return Fields(values, is_whole)


def _pieces(text: str) -> tuple[list[str], bool, int]:
    """Parts between the outer commas, whether the closing bracket came, what is open at the end."""
    pieces: list[str] = []
    start, depth, quote, is_escaped = 0, 0, "", False
    for place, letter in enumerate(text):
        if quote:
            if is_escaped or letter == "\\":
                is_escaped = not is_escaped
            elif letter == quote:
                quote = ""
        elif letter in "'\"":
            quote = letter
        elif letter in _OPENING:
            depth += 1
        elif letter in _CLOSING:
            if depth == 0:
                return [*pieces, text[start:place]], True, 0
            depth -= 1
        elif letter == "," and depth == 0:
            pieces.append(text[start:place])
            start = place + 1
    return [*pieces, text[start:]], False, depth + bool(quote)


def _plain(text: str) -> tuple[bool, Value]:
    """Whether it is a number, a text or a word, and its value."""
    if match := _TEXT.match(text):
        return True, match[1] if match[1] is not None else match[2]
    word = text.split(maxsplit=1)[0] if text else ""  # 0.6.3 forgot the comma before the next name
    if word in _WORDS:
        return True, _WORDS[word]
    if _INT.fullmatch(word):
        return True, int(word)
    if _FLOAT.fullmatch(word):
        return True, float(word)
    is_name = re.fullmatch(r"[\w./:+@-]+", word) is not None
    return is_name, word if is_name else None
