"""Conversations with their text: ShareGPT's JSON, or `messages` as of OpenAI's interface.

A JSON list (or JSON lines) of objects with `conversations`, a list of {"from": "human" or "gpt",
"value": text}, or `messages`, a list of {"role": "user" or "assistant", "content": text}. The text
counts in UTF-8 bytes, a token each, as in the toy LM, unless a tokenizer is given. Real ones make
fewer tokens of it, of English about a quarter.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workloads.checks import problem
from workloads.content import Segment
from workloads.errors import WorkloadError
from workloads.files import bad_file
from workloads.readers.counts import note_rows
from workloads.readers.jsonl_table import json_items, read_jsonl
from workloads.source import Source
from workloads.trace import Rows, Trace, trace_from_rows
from workloads.workload import int64_column

_FORMS = {"conversations": ("from", "value"), "messages": ("role", "content")}
_ASKING = ("human", "user")
_TOOLS = ("tool", "function", "observation")
_ANSWERING = ("gpt", "assistant", "chatgpt", "bing", "bard")

Message = tuple[str, int]  # who, num_tokens


@dataclass
class _Turns:
    """Requests as they are found; a content id for every message."""

    lines: list[int] = field(default_factory=list)
    contents: list[tuple[Segment, ...]] = field(default_factory=list)
    answers: list[Segment] = field(default_factory=list)
    previous: list[int] = field(default_factory=list)
    num_contents: int = 0

    def add(self, line: int, messages: list[Message]) -> bool:
        """Add the turns of a conversation; whether there are any."""
        said: list[Segment] = []
        last_who, last_turn = "", -1
        for who, num_tokens in messages:
            segment = (self.num_contents, num_tokens)
            self.num_contents += 1
            if who in _ANSWERING and last_who in (*_ASKING, *_TOOLS):
                self.lines.append(line)
                self.contents.append(tuple(said))
                self.answers.append(segment)
                self.previous.append(last_turn)
                last_turn = len(self.previous) - 1
            said.append(segment)
            last_who = who
        return last_turn >= 0


def recognises(source: Source) -> bool:
    """Whether the first object has `conversations` or `messages`."""
    return bool(set(_FORMS) & source.keys)


def read(source: Source, count_tokens: Callable[[str], int] | None = None) -> Trace:
    """Read the conversations: each is a session, each answer to a human or a tool one of its turns.

    A prompt is all that was said before, system and other messages included, so turns share it;
    the next turn is sent as soon as one is answered (think time 0). There are no times. Empty
    messages, and conversations without an answer to a human or a tool, are left out and counted.

    count_tokens: of each message; None: its bytes, as a note says. What a chat template writes
    between messages is not counted.

    Raises WorkloadError for what is not such JSON (item counted from 1, or line, and what is wrong
    of the first ten), and where no conversation is left.
    """
    turns, problems, num_empty = _Turns(), list[str](), 0
    is_left_out: list[bool] = []
    items = _items(source)
    counted = "conversation" if source.is_list else "line"
    for number, item in items:
        try:
            messages = list(_messages(item, f"{counted} {number}", count_tokens or _num_bytes))
        except WorkloadError as error:
            problems.append(str(error))
            continue
        spoken = [message for message in messages if message[1]]
        num_empty += len(messages) - len(spoken)
        is_left_out.append(not turns.add(number, spoken))
    if problems:
        raise bad_file(source.name, problems)
    notes = [] if count_tokens else ["text counted in bytes, a token each"]
    notes.append("conversations have no arrival times")
    if num_empty:
        notes.append(
            "1 empty message left out" if num_empty == 1 else f"{num_empty} empty messages left out"
        )
    numbers = [number for number, _ in items]
    notes += note_rows(
        np.array(is_left_out, dtype=np.bool_),
        numbers,
        "without an answer to a human or a tool left out",
        noun="conversation",
        counted=counted,
    )
    if not turns.lines:
        raise WorkloadError(
            f"{source.name}: no answer to a human or a tool in {len(items)} conversations"
        )
    rows = Rows(
        time_ns=None,
        prompt_tokens=int64_column([sum(n for _, n in content) for content in turns.contents]),
        output_tokens=int64_column([num_tokens for _, num_tokens in turns.answers]),
        lines=turns.lines,
        contents=turns.contents,
        previous=int64_column(turns.previous),
        think_time_ns=int64_column([0] * len(turns.lines)),
        answer_ids=int64_column([content_id for content_id, _ in turns.answers]),
        counted=counted,
    )
    return trace_from_rows(rows, format="conversations", notes=tuple(notes))


def _items(source: Source) -> list[tuple[int, Any]]:
    return list(json_items(source)) if source.is_list else list(read_jsonl(source, {}))


def _num_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _text_of(part: dict[str, Any]) -> str:
    """Of a part of a message that is text; of an image, say, none."""
    text = part.get("text")
    return text if isinstance(text, str) else ""


def _messages(item: Any, where: str, count_tokens: Callable[[str], int]) -> Iterator[Message]:
    """Raises WorkloadError for the first thing wrong."""
    form = next((form for form in _FORMS if isinstance(item, dict) and form in item), None)
    if form is None or not isinstance(item[form], list):
        raise WorkloadError(problem(where, item, "an object with a list `conversations`"))
    who_key, text_key = _FORMS[form]
    for number, message in enumerate(item[form], start=1):
        who, text = None, None
        if isinstance(message, dict):
            who, text = message.get(who_key), message.get(text_key, "")
        text = "" if text is None else text  # an assistant's call of a tool has no content
        if isinstance(text, list) and all(
            isinstance(part, dict) for part in text
        ):  # of parts, such as texts and images
            text = "".join(_text_of(part) for part in text)
        if not (isinstance(who, str) and isinstance(text, str)):
            expected = f"an object with texts `{who_key}` and `{text_key}`"
            raise WorkloadError(problem(f"{where}, message {number}", message, expected))
        try:
            yield who, count_tokens(text)
        except WorkloadError as error:
            raise WorkloadError(f"{where}, message {number}: {error}") from error
