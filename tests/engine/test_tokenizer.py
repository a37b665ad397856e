"""Text to tokens and back, and out to a terminal that must not be upset."""

import random
import unicodedata

import pytest

from engine.tokenizer import EOS, VOCAB_SIZE, TextStream, decode, encode, printable

ALL_TEXT = "".join(map(chr, range(0x110000)))
UNPRINTABLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # Unicode general categories


def stream_pieces(token_ids: list[int]) -> list[str]:
    stream = TextStream()
    last = len(token_ids) - 1
    return [stream.push(token, last=i == last) for i, token in enumerate(token_ids)]


def test_known_encoding():
    """Token ids are the bytes of UTF-8: é is C3 A9, the euro sign E2 82 AC."""
    assert encode("aé€") == [0x61, 0xC3, 0xA9, 0xE2, 0x82, 0xAC]


@pytest.mark.parametrize("seed", range(5))
def test_random_unicode_round_trips(seed):
    rng = random.Random(seed)
    text = "".join(c for c in rng.choices(ALL_TEXT, k=500) if not "\ud800" <= c <= "\udfff")
    assert decode(encode(text)) == text


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_round_trip(seed):
    """Broken characters too: what `decode` makes of any bytes is encoded as the same bytes."""
    tokens = random.Random(seed).choices(range(EOS), k=100)
    assert encode(decode(tokens)) == tokens


def test_every_pair_of_bytes_round_trips():
    pairs = [[first, second] for first in range(EOS) for second in range(EOS)]
    assert [pair for pair in pairs if encode(decode(pair)) != pair] == []


@pytest.mark.parametrize("text", ["\ud800", "a\udc7f", "\udd00b", "\ud83d\ude00"])
def test_surrogate_that_is_no_broken_byte_is_no_text(text):
    with pytest.raises(UnicodeEncodeError):
        encode(text)


def test_every_token_id_decodes():
    """No id is an error, wherever it stands: a model may say anything."""
    for token in range(VOCAB_SIZE):
        decode([token])
        decode([0xE2, token, 0x82])


def test_end_of_text_has_no_text():
    assert decode([104, EOS, 105, EOS]) == "hi"


def test_broken_bytes_are_told_apart():
    """Two different broken outputs do not look the same."""
    assert len({printable(decode([byte])) for byte in range(128, 256)}) == 128


def test_printable_has_no_control_or_format_character():
    """Over all code points, whatever could move a cursor or not print comes out escaped."""
    categories = {unicodedata.category(c) for c in set(printable(ALL_TEXT))}
    assert not categories & UNPRINTABLE


def test_printable_leaves_ordinary_text_alone():
    text = "Grüße, 世界 😀 a/b"
    assert printable(text) == text


def test_no_character_looks_like_the_escape_of_another():
    """A backslash, a control character and a broken byte of the same number are told apart."""
    assert [printable(text) for text in ("\\x80", "\x80", "\udc80")] == [
        "\\\\x80",
        "\\u0080",
        "\\x80",
    ]
    assert len({printable(char) for char in ALL_TEXT}) == len(ALL_TEXT)


@pytest.mark.parametrize("seed", range(5))
def test_stream_of_text_gives_the_text(seed):
    """Pieces joined are the printable whole, characters of one to four bytes mixed."""
    rng = random.Random(seed)
    text = "".join(rng.choices("ab\\\n\x1b\xe9\u20ac\u4e16\U0001f600\u202e", k=50))
    assert "".join(stream_pieces(encode(text))) == printable(text)


@pytest.mark.parametrize("seed", range(20))
def test_stream_of_any_tokens_gives_the_decoded_whole(seed):
    """Random bytes with EOS among them, broken characters included."""
    rng = random.Random(seed)
    starts = [0x61, 0xC3, 0xE2, 0xED, 0xF0, EOS]
    tokens = rng.choices([*range(VOCAB_SIZE), *starts * 9, *range(0x80, 0xC0)], k=60)
    assert "".join(stream_pieces(tokens)) == printable(decode(tokens))


def test_stream_completes_a_character_with_its_last_byte():
    assert stream_pieces(encode("hé!")) == ["h", "", "é", "!"]


def test_stream_flushes_a_broken_character_at_the_end():
    assert stream_pieces([0x68, 0xE2, 0x82, EOS]) == ["h", "", "", "\\xe2\\x82"]


def test_streams_do_not_share_state():
    one, other = TextStream(), TextStream()
    one.push(0xC3)
    assert (other.push(0x61), one.push(0xA9)) == ("a", "é")
