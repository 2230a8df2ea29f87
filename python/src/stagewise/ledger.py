"""Which versions a pipeline has, and which of them subscribers get: what its topic `plans` says."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from .errors import MISFITS, NoVersionError
from .record import Collector, Message

LATEST = "latest"  # the version that is pinned, or else the newest that is offered


@dataclass(frozen=True)
class Place:
    """Where on the topic `versions` the messages of a version are. Messages of others may stand between them."""

    run: str
    version: int
    first: int  # the first offset
    end: int  # the offset after the last
    withheld: bool  # subscribers get it only by its number or its run, or while it is pinned


class Ledger:
    """The versions of a pipeline, as of an offset."""

    def __init__(self, written: Mapping[str, Any] | None = None) -> None:
        """Begins with what a ledger on the topic says; None: with nothing."""
        written = written or {}
        self._versions = {place["version"]: _place(place) for place in written.get("versions") or []}
        self._pinned = str(written.get("pinned", ""))
        self._complete_to = int(written.get("highest", 0))  # versions up to here that are not listed were removed
        self._removed: set[str] = set()
        self.next = int(written.get("before", 0))  # the offset after the last message that was added

    def add(self, message: Message) -> None:
        """Takes the next message of the topic. One that is damaged changes nothing."""
        self.next = message.offset + 1
        if message.value is None:
            return
        try:
            self._take(message)
        except MISFITS:
            pass  # the writers of this topic read it too, and say so

    def _take(self, message: Message) -> None:
        if message.kind == "end" and (version := message.json().get("version")):
            place = _place(version)
            if place.version > self._complete_to and place.run not in self._removed:
                self._versions.setdefault(place.version, place)  # if another run has made this number, this one does not count
        elif message.kind == "removal":
            run = str(message.json()["run"])
            self._removed.add(run)
            self._versions = {number: place for number, place in self._versions.items() if place.run != run}
        elif message.kind == "pin":
            self._pinned = str(message.json()["run"])

    def has(self, run: str) -> bool:
        """Whether the version of a run was finished, and not removed."""
        return any(place.run == run for place in self._versions.values())

    def find(self, version: str, passed_over: Container[str] = ()) -> Place:
        """Returns where a version is, given its number, the id of its run, or LATEST. Those of runs that are passed over do not count."""
        places = [self._versions[number] for number in sorted(self._versions) if self._versions[number].run not in passed_over]
        if version == LATEST:
            offered = [place for place in places if not place.withheld]
            found = [place for place in places if place.run == self._pinned] or offered[-1:]
        else:
            found = [place for place in places if version in (place.run, str(place.version))]
        if found:
            return found[0]
        if not places:
            raise NoVersionError("the pipeline has no finished version yet")
        if version == LATEST:
            raise NoVersionError(f"none of the pipeline's {len(places)} versions is offered: name one by its number, or pin one")
        raise NoVersionError(f"the pipeline has {len(places)} versions, but not version {version!r}")


def latest_ledger(messages: list[Message]) -> Mapping[str, Any] | None:
    """Returns the ledger among the messages that is complete last."""
    collector, latest = Collector(), None
    for message in messages:
        if message.kind != "ledger" or message.value is None:
            continue
        try:
            ledger = collector.document(message)
            if ledger is None:
                continue
            Ledger(ledger)
            # One that covers what comes after itself was written by somebody who has read messages that were lost since.
            if ledger["before"] <= message.offset and (latest is None or ledger["before"] >= latest["before"]):
                latest = ledger
        except MISFITS:
            continue
    return latest


def _place(content: Mapping[str, Any]) -> Place:
    return Place(str(content["run"]), int(content["version"]), int(content["from"]), int(content["to"]), bool(content.get("withheld")))
