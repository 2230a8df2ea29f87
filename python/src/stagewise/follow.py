"""Follows the versions of a pipeline: the newest is the model, as soon as all of it is here."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from . import child
from .errors import BrokersError, NoVersionError
from .model import Classifier, Model, Version, version_of

_LOGGER = logging.getLogger("stagewise")
_SILENT = 2.0  # seconds after which follow says what it waits for
_FIRST_WAIT, _LAST_WAIT = 0.02, 1.0  # seconds between questions while there is no other version


@dataclass(frozen=True)
class Status:
    """What a follower has, and how well it knows that this is what it should have."""

    version: int  # its number; 0: there is none
    run: str  # id of the run that made it
    kind: str  # "full", or "update" if it goes on from its parent
    parent: str  # id of the run of the version before it in its chain; "": there is none
    written: datetime | None  # when, by the clock of who wrote it; None: it is not known
    age: float  # seconds since it was written
    silence: float  # seconds since the brokers last confirmed the version; infinite if they never did
    error: Exception | None  # the last error; None: nothing, or all went well since


def follow(
    brokers: str | Sequence[str],
    name: str,
    *,
    version: int | str = "latest",
    timeout: float = 60,
    max_silence: float = 60,
    max_age: float | None = None,
    security: Mapping[str, Any] | None = None,
) -> Follower:
    """Follows the versions of the pipeline of that name, and returns when there is a model.

    brokers are host:port addresses of a Kafka cluster, or of an embedded broker that listens.

    version is a number or the id of a run, to follow only that; by default it is the version that is pinned, or else the newest that is
    offered.

    If the pipeline has no topics, follow raises a ConnectionError that names the missing one. If there is no model after timeout seconds,
    it raises a TimeoutError that says why. With 0 it returns at once, even if there are no topics yet, and predictions raise a
    NoVersionError until there is a model.

    max_silence and max_age are when `Follower.stale` says so: seconds without an answer of the brokers, and since the version was
    written (None: never).

    security is that section of the configuration (docs/security.md).
    """
    addresses = [address.strip() for address in brokers.split(",")] if isinstance(brokers, str) else list(brokers)
    if not name or not all(addresses) or not addresses:
        raise ValueError("follow needs the addresses of brokers, and the name of a pipeline")
    limits = {"max_silence": f"{max_silence}s", "max_age": f"{max_age or 0}s"}
    configuration = {"name": name, "brokers": addresses, "serve": limits, **({"security": dict(security)} if security else {})}
    process = child.Child("--config", json.dumps(configuration).encode(), "--version", str(version))
    follower = Follower(process, max_silence)
    try:
        if timeout > 0:
            follower._await(0, timeout, topics=True)
        else:
            follower.status()
    except BaseException:
        process.close()
        raise
    return follower


class Follower(Classifier):
    """Predicts with the model of this moment. `follow` makes followers.

    A version becomes the model when all of it is here, all digests match and its random draws are made. Nobody waits for that, and
    predictions that are under way go on with the version before it. While brokers do not answer, the model stays. A version that was
    removed does not stay: the one that takes its place is the model, or none.

    Two calls may be of two versions. Take `model` once, if they must not: it never changes.
    """

    def __init__(self, process: child.Child, max_silence: float) -> None:
        self._process, self._max_silence = process, max_silence
        self._read: Version | None = None
        self._model: Model | None = None
        self._closed = False

    def close(self) -> None:
        """Stops following. The model stays. A second close does nothing."""
        if not self._closed:
            try:
                self._model = self.model
            except (NoVersionError, BrokersError):
                self._model = None
            self._closed = True
            self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def _child(self) -> child.Child:
        return self._last._child if self._closed else self._process

    @property
    def _last(self) -> Model:
        if self._model is None:
            raise NoVersionError("there was no version to predict with when the follower was closed")
        return self._model

    def _current(self) -> Version:
        if self._closed:
            return self._last._current()
        status = json.loads(self._process.ask("/status"))
        if not status["version"]:
            raise NoVersionError(f"there is no version to predict with: {status.get('error') or 'none was read yet'}")
        if self._read is None or self._read.manifest["run"] != status["run"]:
            self._read = version_of(self._process, status)
        return self._read

    @property
    def model(self) -> Model:
        """The model of this moment. It is a NoVersionError if there is none."""
        if self._closed:
            return self._last
        run = self._current().manifest["run"]
        if self._model is None or self._model.manifest["run"] != run:
            self._model = Model(bytes(self._process.ask("/file")))
        return self._model

    def wait(self, other_than: int = 0, timeout: float | None = None) -> int:
        """Waits until there is a version with another number than this, and returns its number.

        After timeout seconds it raises a TimeoutError that says what went wrong last.
        """
        return self._await(other_than, timeout)

    def _await(self, other_than: int, timeout: float | None, topics: bool = False) -> int:
        """As wait. With topics it raises a BrokersError at once if the pipeline has none."""
        began, pause, told, never = time.monotonic(), _FIRST_WAIT, not topics, threading.Event()
        while True:
            status, raw = self._asked()
            if status.version not in (0, other_than):
                return status.version
            if topics and raw.get("no_pipeline"):
                raise BrokersError(str(status.error))
            waited, why = time.monotonic() - began, status.error or "none was read yet"
            if timeout is not None and waited >= timeout:
                raise TimeoutError(f"no version after {timeout:g} seconds: {why}")
            if not told and waited > _SILENT:
                _LOGGER.warning("there is no version to predict with yet: %s; waiting up to %g seconds", why, timeout)
                told = True
            never.wait(pause if timeout is None else min(pause, timeout - waited))
            pause = min(2 * pause, _LAST_WAIT if status.error else 10 * _FIRST_WAIT)

    def status(self) -> Status:
        """Returns the status of this moment."""
        return self._asked()[0]

    def _asked(self) -> tuple[Status, Mapping[str, Any]]:
        try:
            s = json.loads(self._process.ask("/status"))
        except BrokersError as reason:
            return Status(0, "", "", "", None, 0, float("inf"), reason), {}
        error = None if "error" not in s else (BrokersError if s["no_pipeline"] or s["version"] else NoVersionError)(s["error"])
        written = datetime.fromtimestamp(s["written"], UTC) if s["written"] > 0 else None
        silence = s["silence"] if s["silence"] < 1e9 else float("inf")
        return Status(s["version"], s["run"], s["kind"], s["parent"], written, s["age"], silence, error), s

    def stale(self) -> str | None:
        """Returns why the model should not be relied on; None if all is well. What to do about it is the caller's business."""
        status, raw = self._asked()
        return raw.get("stale") if raw else f"there is no version: {status.error}"
