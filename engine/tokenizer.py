r"""Byte tokenizer: token ids 0 to 255 are the bytes of the UTF-8 text, 256 ends a text.

>>> encode("hé")
[104, 195, 169]
>>> printable(decode([104, 10, 27]))
'h\\n\\x1b'
"""

import codecs

EOS = 256
VOCAB_SIZE = 257


def encode(text: str) -> list[int]:
    """Token ids of any text; `decode` gives the text back, and so it does with its own.

    Raises UnicodeEncodeError for a lone surrogate that `decode` does not make: that is no text.
    """
    return list(text.encode("utf-8", "surrogateescape"))


def decode(token_ids: list[int]) -> str:
    """Text of any token ids; EOS is left out, bytes that are not UTF-8 become lone surrogates."""
    return bytes(t for t in token_ids if t != EOS).decode("utf-8", "surrogateescape")


def printable(text: str) -> str:
    r"""`text` with escapes for what could move a cursor or fail to print, and `\\` for `\`.

    No text looks like the escape of another.
    """
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(c if c.isprintable() and c != "\\" else _escape(c) for c in text)


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, as `decode` keeps it
        return f"\\x{code - 0xDC00:02x}"
    if 0x80 <= code <= 0xFF:  # which unicode_escape would write as if it were such a byte
        return f"\\u{code:04x}"
    return char.encode("unicode_escape").decode("ascii")


class TextStream:
    """Printable text of tokens that come one at a time.

    A character of several bytes appears with its last byte.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def push(self, token_id: int, *, last: bool = False) -> str:
        """Text that this token completes, `last` flushing what is left of a broken character."""
        data = b"" if token_id == EOS else bytes((token_id,))
        return printable(self._decoder.decode(data, final=last))
