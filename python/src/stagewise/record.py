"""Records and documents, put together from the messages that they were cut into: see schemas/FORMAT.md."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import DamagedError
from .tensors import Tensor, assemble, little_endian, open_stream

Headers = tuple[tuple[str, str], ...]

_MOST_CHUNKS = 10_000


@dataclass(frozen=True)
class Message:
    """A message of a topic, with its place."""

    offset: int
    headers: Headers
    value: bytes | None  # None: a tombstone
    written: float = 0  # when, in seconds since 1970, by the clock of who wrote it

    def get(self, name: str) -> str:
        """Returns the first header of that name; "" if there is none."""
        return next((value for key, value in self.headers if key == name), "")

    def number(self, name: str) -> int:
        try:
            return int(self.get(name))
        except ValueError:
            raise DamagedError(f"header {name} is {self.get(name)!r}, expected a whole number") from None

    @property
    def kind(self) -> str:
        return self.get("kind")

    @property
    def run(self) -> str:
        return self.get("run")

    @property
    def digest(self) -> str:
        return self.get("digest")

    def notes(self) -> Headers:
        """Returns the notes of a record. They are its last headers."""
        for i, (key, value) in enumerate(self.headers):
            if key == "notes":
                return self.headers[i + 1 : i + 1 + int(value)] if value.isdigit() else ()
        return ()

    def json(self) -> Any:
        """Returns the content of a message that is JSON."""
        return _decoded(self.value or b"")


@dataclass(frozen=True)
class Record:
    """Named tensors with an identity."""

    kind: str
    stage: int
    parent: str  # digest of the record that this one was computed from
    notes: Mapping[str, str]
    tensors: Mapping[str, Tensor]


class Collector:
    """Puts messages together, in whatever order they come.

    It keeps what is incomplete, so it must only be given what is of use: the messages of one run, or of one kind.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, ...], dict[int, bytes]] = {}

    def whole(self, message: Message) -> list[bytes] | None:
        """Returns the values of all chunks in their order, once the last of them is here; until then None."""
        chunk, chunks = message.number("chunk"), message.number("chunks")
        if not 0 <= chunk < chunks <= _MOST_CHUNKS:
            raise DamagedError(f"chunk {chunk} of {chunks}, expected at most {_MOST_CHUNKS} chunks, numbered from 0")
        key = tuple(message.get(name) for name in ("kind", "run", "stage", "visit", "partition", "parent", "digest", "chunks"))
        values = self._open.setdefault(key, {})
        values[chunk] = message.value or b""
        if len(values) < chunks:
            return None
        del self._open[key]
        return [values[i] for i in range(chunks)]

    def document(self, message: Message) -> Any:
        """Returns the JSON of a document, once its last message is here; until then None."""
        values = self.whole(message)
        if values is None:
            return None
        content = b"".join(values)
        _must_match("a document", hashlib.sha256(content).hexdigest(), message.digest)
        return _decoded(content)

    def record(self, message: Message) -> Record | None:
        """Returns a record, once its last message is here; until then None."""
        values = self.whole(message)
        if values is None:
            return None
        tensors = assemble(open_stream(value) for value in values)
        _must_match("a record", _digest_of(message, tensors), message.digest)
        return Record(message.kind, message.number("stage"), message.get("parent"), dict(message.notes()), tensors)


def _decoded(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as reason:
        raise DamagedError(f"expected JSON: {reason}") from reason


def _must_match(what: str, digest: str, claimed: str) -> None:
    if digest != claimed:
        raise DamagedError(f"{what} has digest {digest[:12]}, its header says {claimed[:12]!r}")


def _digest_of(message: Message, tensors: Mapping[str, Tensor]) -> str:
    """Returns the digest of a record: see "Digests" in schemas/FORMAT.md."""
    digest, notes = hashlib.sha256(), message.notes()

    def add_numbers(*numbers: int) -> None:
        for number in numbers:
            digest.update(number.to_bytes(8, "little", signed=True))

    def add_texts(texts: Iterable[str]) -> None:
        for text in texts:
            content = text.encode()
            add_numbers(len(content))
            digest.update(content)

    add_texts([message.kind, message.run, message.get("parent")])
    add_numbers(message.number("stage"), message.number("visit"), message.number("partition"), len(notes))
    for note in notes:
        add_texts(note)
    add_numbers(len(tensors))
    for name, tensor in tensors.items():
        shape = [len(tensor)] if isinstance(tensor, list) else list(tensor.shape)
        add_texts([name])
        add_numbers(len(shape), *shape)
        if isinstance(tensor, list):
            add_numbers(0, len(tensor))
            add_texts(tensor)
        else:
            add_numbers(tensor.size, 0)
            digest.update(little_endian(tensor))
    return digest.hexdigest()
