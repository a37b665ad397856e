"""Tokens of texts, counted by tokenizers made here with the libraries themselves."""

import builtins
import io
import json

import pandas as pd
import pytest

from sim import sources
from sim.errors import UserError
from sim.token_counts import token_counter
from workloads.errors import WorkloadError

LINES = [
    "hello world, how are you",
    "the cat sat on the mat",
    "a byte pair is merged where it is common",
    "  spaces  and\nlines, too",
]
TEXTS = [*LINES, "", " ", "naïve 東京 \U0001f600", "<s> is no beginning here</s>", "hello " * 500]


def chats(*texts: str) -> str:
    """A human asks each text and is answered with the whole of it again."""
    messages = [[("human", text), ("gpt", f"{text}!")] for text in texts]
    return json.dumps(
        [
            {"conversations": [{"from": who, "value": text} for who, text in conversation]}
            for conversation in messages
        ]
    )


@pytest.fixture(scope="module")
def hugging_face():
    """A tokenizer of byte pairs that puts special tokens around a text, cuts it and pads it."""
    library = pytest.importorskip(
        "tokenizers", reason="the extra `tokenizers` is not installed (make extras)"
    )
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = library.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.post_processor = library.processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    return tokenizer


@pytest.fixture(scope="module")
def sentencepiece():
    library = pytest.importorskip(
        "sentencepiece", reason="the extra `tokenizers` is not installed (make extras)"
    )
    model = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 20),
        model_writer=model,
        vocab_size=290,
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return library.SentencePieceProcessor(model_proto=model.getvalue()), model.getvalue()


@pytest.mark.parametrize("is_cut", [False, True])
def test_tokenizer_json_counts_as_the_library(hugging_face, tmp_path, is_cut):
    """Also where the file asks to cut and to pad, as those of embedding models do."""
    expected = [len(hugging_face.encode(text).ids) - 2 for text in TEXTS]
    text = hugging_face.to_str()
    if is_cut:
        other = type(hugging_face).from_str(text)
        other.enable_truncation(8)
        other.enable_padding(length=16)
        text = other.to_str()
    path = tmp_path / "any name"
    path.write_text(text, "utf-8")
    count = token_counter(path)
    assert [count(text) for text in TEXTS] == expected
    assert expected[-1] > 500 > expected[0] > 1


def test_tokenizer_model_counts_as_the_library(sentencepiece, tmp_path):
    library, model = sentencepiece
    (tmp_path / "tokenizer.model").write_bytes(model)
    count = token_counter(tmp_path / "tokenizer.model")
    assert [count(text) for text in TEXTS] == [len(library.encode(text)) for text in TEXTS]


def test_half_a_character_counts_as_one_mark(hugging_face, sentencepiece, tmp_path):
    """JSON may hold it, but no tokenizer takes it."""
    for data in (hugging_face.to_str().encode(), sentencepiece[1]):
        (tmp_path / "file").write_bytes(data)
        count = token_counter(tmp_path / "file")
        assert count("a \ud83d b") == count("a ? b")


@pytest.mark.parametrize(
    "data",
    [b"{", b"{}", b"[]", b'{"model": {"type": "BPE"}}', b"", b"\0\1\2", b"hello", b"\xff\xfe{"],
)
def test_files_that_are_no_tokenizer(tmp_path, data):
    for name in ("tokenizers", "sentencepiece"):
        pytest.importorskip(name, reason="the extra `tokenizers` is not installed (make extras)")
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        token_counter(path)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{path}: no tokenizer (")
    assert line.endswith(
        "), expected a tokenizer.json of Hugging Face or a tokenizer.model of SentencePiece"
    )


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(WorkloadError, match="none: cannot be read: No such file"):
        token_counter(tmp_path / "none")
    (tmp_path / "pointer").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(WorkloadError, match="pointer: is a pointer of Git LFS"):
        token_counter(tmp_path / "pointer")


def test_a_word_that_a_tokenizer_has_not(tmp_path):
    library = pytest.importorskip(
        "tokenizers", reason="the extra `tokenizers` is not installed (make extras)"
    )
    words = library.Tokenizer(library.models.WordLevel({"hello": 0}, unk_token="[UNK]"))
    (tmp_path / "words.json").write_text(words.to_str())
    count = token_counter(tmp_path / "words.json")
    assert count("hello") == 1
    with pytest.raises(WorkloadError, match=r"words\.json: cannot take 'world': WordLevel error"):
        count("world")


@pytest.mark.parametrize(("data", "name"), [(b"{}", "tokenizers"), (b"\0", "sentencepiece")])
def test_libraries_that_are_not_installed(tmp_path, monkeypatch, data, name):
    whole_import = builtins.__import__

    def without(module, *args, **kwargs):
        if module == name:
            raise ModuleNotFoundError(name=name)
        return whole_import(module, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(UserError) as caught:
        token_counter(tmp_path / "file")
    expected = f"file: needs the library {name}; pip install 'kvsim[tokenizers]' brings it"
    assert str(caught.value).endswith(expected)


def test_trace_of_conversations_in_tokens(kvsim, hugging_face):
    (kvsim.folder / "chats.json").write_text(chats(*LINES))
    (kvsim.folder / "tokenizer.json").write_text(hugging_face.to_str(), "utf-8")
    done = kvsim("trace", "chats.json", "--tokenizer", "tokenizer.json", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    counts = [len(hugging_face.encode(text).ids) - 2 for text in LINES]
    assert found["prompt_tokens"]["total"] == sum(counts)
    in_bytes = json.loads(kvsim("trace", "chats.json", "--json").stdout)
    assert in_bytes["prompt_tokens"]["total"] == sum(map(len, LINES))


def test_a_tokenizer_for_lengths_is_a_mistake(kvsim, hugging_face):
    (kvsim.folder / "own.csv").write_text("arrival_s,prompt_tokens,output_tokens\n0,1,2\n")
    (kvsim.folder / "tokenizer.json").write_text(hugging_face.to_str(), "utf-8")
    done = kvsim("trace", "own.csv", "--tokenizer", "tokenizer.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "kvsim: own.csv: got a tokenizer with the format kvsim, which has no text to count; "
        "expected conversations\n"
    )


@pytest.mark.slow
def test_scenario_with_a_tokenizer_beside_it(kvsim, hugging_face):
    """Found from elsewhere too; another tokenizer of the same name is another run."""
    folder = kvsim.folder / "inputs"
    folder.mkdir()
    (folder / "chats.json").write_text(chats(*LINES))
    (folder / "tokenizer.json").write_text(hugging_face.to_str(), "utf-8")
    (folder / "chats.yaml").write_text(
        "name: chats\nlatency: {kind: constant, step_time_s: 0.01}\n"
        "workload:\n"
        "  {trace: chats.json, tokenizer: tokenizer.json, arrivals: {constant: {rate: 9}}}\n"
    )
    counts = [len(hugging_face.encode(text).ids) - 2 for text in LINES]
    for _ in range(2):
        done = kvsim("run", "inputs/chats.yaml")
        assert done.returncode == 0, done.stderr
    (first,) = kvsim.left()
    requests = pd.read_csv(kvsim.folder / "runs" / first / "requests.csv")
    assert requests["prompt_tokens"].tolist() == counts
    bytewise = json.loads(hugging_face.to_str())
    bytewise["model"]["merges"] = []
    (folder / "tokenizer.json").write_text(json.dumps(bytewise), "utf-8")
    kvsim("run", "inputs/chats.yaml")
    (second,) = set(kvsim.left()) - {first}
    requests = pd.read_csv(kvsim.folder / "runs" / second / "requests.csv")
    assert requests["prompt_tokens"].tolist() == [len(text) for text in LINES]


def test_a_tokenizer_without_a_trace_is_a_mistake(kvsim):
    done = kvsim("run", "small.yaml", "--set", "workload.tokenizer=t.json")
    assert done.returncode == 2
    assert "tokenizer: got one without a trace, expected none" in done.stderr


def test_texts_are_counted_once_until_a_file_changes(
    hugging_face, new_scenario, tmp_path, monkeypatch
):
    """A plan makes many runs of one trace; another tokenizer, or trace, is read again."""
    asked: list[str] = []
    kept = sources.w.read_trace
    monkeypatch.setattr(
        sources.w, "read_trace", lambda source, *rest: asked.append("") or kept(source, *rest)
    )
    trace, tokenizer = tmp_path / "chats.json", tmp_path / "tokenizer.json"
    trace.write_text(chats(*LINES))
    tokenizer.write_text(hugging_face.to_str(), "utf-8")
    files = {"trace": str(trace), "tokenizer": str(tokenizer)}
    scenario = new_scenario(workload={**files, "arrivals": {"constant": {"rate": 9}}})

    def tokens() -> list[int]:
        return sources.build_workload(scenario).prompt_tokens.tolist()

    counts = [len(hugging_face.encode(text).ids) - 2 for text in LINES]
    assert tokens() == tokens() == counts
    assert len(asked) == 1
    trace.write_text(chats(*LINES[:2]))
    assert tokens() == counts[:2]
    bytewise = json.loads(hugging_face.to_str())
    bytewise["model"]["merges"] = []
    tokenizer.write_text(json.dumps(bytewise), "utf-8")
    assert tokens() == [len(text) for text in LINES[:2]]
    assert len(asked) == 3
