"""Reads versions from the topics of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import links
from .errors import MISFITS, DamagedError
from .ledger import Ledger, Place, latest_ledger
from .log import Log
from .model import Model
from .preparation import NAMES
from .record import Collector, Message, Record
from .stage import Pass
from .tensors import Tensor, shaped

# How many messages at the end of `plans` are looked at first. A ledger is written after so many at most, usually.
_WINDOW = 256

_OF_VERSIONS = ("end", "ledger", "pin", "removal")  # the kinds of messages on `plans` that say which versions there are


class Versions:
    """The versions of the pipeline of that name."""

    def __init__(self, log: Log, name: str) -> None:
        self._log, self.plans, self._topic = log, f"{name}.plans", f"{name}.versions"

    def ledger(self) -> Ledger:
        """Reads what `plans` says now: the latest ledger on it, and what comes after what that covers. So it costs no more than that."""
        begin, end = self._log.bounds(self.plans)
        window = _WINDOW
        while True:
            first = max(begin, end - window)
            messages = [m for m in self._log.read(self.plans, first, end) if m.kind in _OF_VERSIONS]
            written = latest_ledger(messages)
            if written is not None or first == begin:
                break
            window *= 8
        ledger = Ledger(written)
        for message in self._log.read(self.plans, max(begin, ledger.next), first):
            ledger.add(message)
        for message in messages:
            if written is None or message.offset >= written["before"]:
                ledger.add(message)
        ledger.next = end
        return ledger

    def model(self, place: Place, before: Model | None) -> tuple[Model, float]:
        """Reads the version at a place, and when it was written. The model may share random draws with the one before it."""
        version = _Version(place)
        for message in self._log.read(self._topic, place.first, place.end):
            version.add(message)
        try:
            return version.model(before), version.written
        except DamagedError:
            pass
        # A message that was written twice may stand behind the place of the version, and compaction keeps the last copy.
        for message in self._log.read(self._topic, *self._log.bounds(self._topic)):
            version.add(message)
        return version.model(before), version.written


class _Version:
    """What was read of a version."""

    def __init__(self, place: Place) -> None:
        self._place, self._collector = place, Collector()
        self._manifest: Mapping[str, Any] | None = None
        self._records: dict[str, Record] = {}  # by their digests
        self.written = 0.0

    def add(self, message: Message) -> None:
        if message.run != self._place.run or message.value is None:
            return
        try:
            if message.kind == "manifest":
                if manifest := self._collector.document(message):
                    self._manifest, self.written = manifest, message.written
            elif message.digest not in self._records and (record := self._collector.record(message)):
                self._records[message.digest] = record
        except MISFITS:
            pass  # another copy may follow; if not, the version lacks it

    def model(self, before: Model | None) -> Model:
        try:
            if self._manifest is None:
                raise self._gone("its manifest is")
            manifest = self._manifest
            survey = self._record(manifest["prepare"], "the survey's result is")
            preparation = {name: tensor for name, tensor in survey.tensors.items() if name.split("/")[0] in NAMES}
            passes = [self._passes(stage) for stage in range(len(manifest["blocks"]))]
            structures = [self._structure(stage) for stage in range(len(manifest["blocks"]))]
            return Model(manifest, preparation, passes, before, structures)
        except DamagedError as reason:
            raise DamagedError(f"version {self._place.version}: {reason}") from reason
        except MISFITS as reason:
            raise DamagedError(f"version {self._place.version} has a damaged manifest: {reason!r}") from reason

    def _structure(self, stage: int) -> Mapping[str, Tensor]:
        """Returns the tensors of the trees of a stage; none: it has no trees."""
        assert self._manifest is not None
        digest = self._manifest["blocks"][stage].get("structure")
        return self._record(digest, f"the trees of stage {stage} are").tensors if digest else {}

    def _passes(self, stage: int) -> list[Pass]:
        """Returns the passes of a stage that count."""
        assert self._manifest is not None
        final = self._record(self._manifest["blocks"][stage]["digest"], f"the weights of stage {stage} are")
        if not links.named(self._manifest["plan"]["stages"][stage]["link"]).learnt:
            return [Pass(shaped(final.tensors, "W", -1, -1))]
        # A learnt link needs the records before the final one too. Each names the one before it as its parent.
        chain, record = [], self._records.get(self._manifest["blocks"][stage]["digest"])
        while record is not None and (record.kind, record.stage) == ("weights", stage):
            chain.append(record)
            record = self._records.get(record.parent)
        passes: list[Pass] = []
        for record in reversed(chain):
            if "W" in record.tensors:
                passes.append(Pass(shaped(record.tensors, "W", -1, -1)))
            if "calibration" in record.tensors and passes:
                passes[-1] = Pass(passes[-1].weights, shaped(record.tensors, "calibration", -1, -1))
        return passes[: int(final.notes.get("links", 0))]

    def _record(self, digest: str, what: str) -> Record:
        if digest not in self._records:
            raise self._gone(what)
        return self._records[digest]

    def _gone(self, what: str) -> DamagedError:
        return DamagedError(f"{what} not on the topic, or damaged")
