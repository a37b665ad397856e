"""How many tokens a text has, by a tokenizer from a file (extra `tokenizers`)."""

from collections.abc import Callable
from pathlib import Path

from sim.errors import UserError
from workloads.checks import cut, shown
from workloads.errors import WorkloadError
from workloads.files import read_bytes

_EXPECTED = "a tokenizer.json of Hugging Face or a tokenizer.model of SentencePiece"


def token_counter(path: str | Path) -> Callable[[str], int]:
    """Counts the tokens of a text, without special ones before or after it.

    The file is known by its content: JSON is of the library `tokenizers`, anything else of
    `sentencepiece`.

    Raises WorkloadError for a file that cannot be read, and UserError for one that is no tokenizer
    or whose library is not installed; what is returned raises WorkloadError for a text that the
    tokenizer cannot take.
    """
    data = read_bytes(path)
    is_json = data.lstrip().startswith((b"{", b"["))
    try:
        num_tokens = _hugging_face(data) if is_json else _sentencepiece(data)
    except ImportError as error:
        raise UserError(
            f"{path}: needs the library {error.name}; pip install 'kvsim[tokenizers]' brings it"
        ) from None
    except Exception as error:  # the libraries raise no class of their own
        raise UserError(f"{path}: no tokenizer ({_reason(error)}), expected {_EXPECTED}") from None

    def count(text: str) -> int:
        try:
            return num_tokens(_unicode(text))
        except Exception as error:  # such as a word that it has not, and no token for those
            raise WorkloadError(f"{path}: cannot take {shown(text)}: {_reason(error)}") from None

    return count


def _hugging_face(data: bytes) -> Callable[[str], int]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(data.decode("utf-8"))
    tokenizer.no_truncation()  # the file may say either
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _sentencepiece(data: bytes) -> Callable[[str], int]:
    from sentencepiece import SentencePieceProcessor

    tokenizer = SentencePieceProcessor(model_proto=data)
    if not data or not tokenizer.get_piece_size():
        raise ValueError("it has no pieces")
    return lambda text: len(tokenizer.encode(text, add_bos=False, add_eos=False))


def _reason(error: Exception) -> str:
    return cut(" ".join(str(error).split()), 100)


def _unicode(text: str) -> str:
    """The text, with a mark for each half of a character that JSON may hold alone."""
    return text.encode("utf-8", "replace").decode("utf-8")
