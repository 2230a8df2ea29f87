"""The topics of a pipeline in memory, and who writes versions to them, as a solver does."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from stagewise.errors import BrokersError, NoTopicError
from stagewise.record import Message, _digest_of
from stagewise.tensors import Tensor, digest_of
from stagewise.trees import STRUCTURE

from .models import LABELS, plan_of, preparation_of

PLANS, VERSIONS = "p.plans", "p.versions"


class Topics:
    """A log that may fail, and who writes versions with random weights to it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.messages: dict[str, list[Message]] = {PLANS: [], VERSIONS: []}
        self.failure = ""  # why the brokers do not answer; "": they do
        self.reads: list[tuple[str, int, int]] = []
        self.place: dict[int, dict[str, Any]] = {}  # of each version

    def append(self, topic: str, *messages: Message) -> int:
        """Appends messages, and returns the offset of the first."""
        with self.changed:
            there = self.messages[topic]
            first = there[-1].offset + 1 if there else 0
            there += [Message(first + i, m.headers, m.value, m.written) for i, m in enumerate(messages)]
            self.changed.notify_all()
            return first

    def publish(
        self,
        number: int,
        link: str = "softmax",
        withheld: bool = False,
        damage: Callable[[Message], Message] = lambda message: message,
        trees: int = 0,
    ) -> None:
        """Writes a version of two stages, perhaps of so many trees, and of two passes each if the link is learnt, and then the end of its run."""
        random, run, k = np.random.default_rng(number), f"run{number}", len(LABELS)
        plan, tensors = plan_of([link, link]), preparation_of()
        if trees:
            tensors["bins"], tensors["edges"] = np.array([[1, 1]] * 3, dtype=np.float32), np.zeros(3, dtype=np.float32)
        messages = record("prepare", run, -1, 0, "plan", {**tensors, "covered": ["text"]})
        content: list[Tensor] = []
        blocks: list[dict[str, Any]] = []
        parent = messages[0].digest
        for stage in range(2):
            learnt = link == "calibrated"
            blocks.append({"stage": stage})
            if trees:
                plan["stages"][stage]["features"] = {"kind": "trees", "size": 2 * trees, "leaves": 2}
                structure = _stumps(random, trees)
                messages += record("structure", run, stage, 0, messages[0].digest, structure)
                blocks[-1]["structure"] = messages[-1].digest
                content += structure.values()
            for visit in range(4 if learnt else 1):
                name, rows = ("calibration", 3 * k) if visit % 2 else ("W", 2 * trees or k)
                weights = random.normal(size=(rows, k)).astype(np.float32)
                if visit < 2:  # the second pass does not count
                    content.append(weights)
                notes = {"final": str(visit), "links": str(int(learnt))} if visit == (3 if learnt else 0) else {}
                messages += record("weights", run, stage, visit, parent, {name: weights}, notes)
                parent = messages[-1].digest
            blocks[-1]["digest"] = parent
        content += tensors.values()
        manifest = {"name": "p", "version": number, "run": run, "plan": plan, "prepare": messages[0].digest, "blocks": blocks}
        manifest["weights_digest"] = digest_of(content)
        messages += document("manifest", run, manifest)
        first = self.append(VERSIONS, *map(damage, messages))
        self.place[number] = {"run": run, "version": number, "from": first, "to": first + len(messages), "withheld": withheld}
        self.end(number)

    def end(self, number: int) -> None:
        self.say("end", {"run": self.place[number]["run"], "state": "done", "version": self.place[number]})

    def pin(self, number: int) -> None:
        """Pins a version; 0 pins none."""
        self.say("pin", {"run": f"run{number}" if number else "", "version": number})

    def remove(self, number: int) -> None:
        self.say("removal", {"run": f"run{number}", "version": number})

    def say(self, kind: str, content: Any) -> None:
        self.append(PLANS, Message(0, (("kind", kind),), json.dumps(content).encode()))

    def write_ledger(self, **content: Any) -> None:
        before = self.messages[PLANS][-1].offset + 1
        self.append(PLANS, *document("ledger", "", {"before": before, "versions": list(self.place.values()), **content}))


def _stumps(random: np.random.Generator, trees: int) -> dict[str, Tensor]:
    """Returns trees with a node each, which compares a number with 0."""
    values = ([1] * trees, [0, 1, 2], [], random.integers(3, size=trees), [1] * trees, [0] * trees)
    return {name: np.array(v, dtype=np.float32) for name, v in zip(STRUCTURE, values, strict=True)}


class Reader:
    """What a follower has of the log: the interface of stagewise.log.Log."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def bounds(self, topic: str) -> tuple[int, int]:
        with self._topics.changed:
            self._check()
            if topic not in self._topics.messages:
                raise NoTopicError(f"topic {topic} does not exist")
            messages = self._topics.messages[topic]
            return (messages[0].offset, messages[-1].offset + 1) if messages else (0, 0)

    def read(self, topic: str, first: int, end: int) -> Iterator[Message]:
        with self._topics.changed:
            self._check()
            self._topics.reads.append((topic, first, end))
            found = [m for m in self._topics.messages[topic] if first <= m.offset < end]
        yield from found

    def follow(self, topic: str, offset: int) -> None:
        self._followed, self._offset = topic, offset

    def appended(self, timeout: float) -> Message | None:
        def following() -> Message | None:
            self._check()
            return next((m for m in self._topics.messages[self._followed] if m.offset >= self._offset), None)

        with self._topics.changed:
            message = self._topics.changed.wait_for(following, timeout)
            if message is not None:
                self._offset = message.offset + 1
            return message

    def silence(self) -> str:
        return self._topics.failure

    def end(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _check(self) -> None:
        if self._topics.failure:
            raise BrokersError(self._topics.failure)


def record(
    kind: str, run: str, stage: int, visit: int, parent: str, tensors: dict[str, Tensor], notes: dict[str, str] | None = None
) -> list[Message]:
    """Returns the messages of a record, one for each tensor."""
    notes = notes or {}
    identity = {"kind": kind, "run": run, "stage": stage, "visit": visit, "partition": 0, "parent": parent}
    tail = (("notes", str(len(notes))), *notes.items())
    digest = _digest_of(Message(0, (*((k, str(v)) for k, v in identity.items()), *tail), None), tensors)
    messages = []
    for i, (name, tensor) in enumerate(tensors.items()):
        headers = {**identity, "chunk": i, "chunks": len(tensors), "digest": digest}
        messages.append(Message(0, (*((k, str(v)) for k, v in headers.items()), *tail), _chunk(name, tensor), 1e9))
    return messages


def _chunk(name: str, tensor: Tensor) -> bytes:
    text = isinstance(tensor, list)
    columns = {
        "tensor": pa.array([name]),
        "shape": pa.array([[len(tensor)] if text else list(tensor.shape)], pa.list_(pa.int64())),
        "offset": pa.array([0], pa.int64()),
        "values": pa.array([[] if text else tensor.ravel()], pa.list_(pa.float32())),
        "text": pa.array([tensor if text else []], pa.list_(pa.utf8())),
    }
    batch, out = pa.record_batch(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(out.getvalue())


def document(kind: str, run: str, content: Any) -> list[Message]:
    """Returns the messages of a document, which is cut in two."""
    whole = json.dumps(content).encode()
    parts, messages = (whole[:50], whole[50:]), []
    for i, part in enumerate(parts):
        headers = {"kind": kind, "run": run, "chunk": i, "chunks": len(parts), "digest": hashlib.sha256(whole).hexdigest()}
        messages.append(Message(0, tuple((k, str(v)) for k, v in headers.items()), part, 1e9))
    return messages
