"""Follows the versions of a pipeline: the newest is the model, as soon as all of it is here."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from . import child
from .errors import BrokersError, NoVersionError
from .model import Classifier, Model, Version, version_of
from .parameters import configuration_file

_LOGGER = logging.getLogger("stagewise")
_SILENT = 2.0  # seconds after which follow says what it waits for
_FIRST_WAIT, _LAST_WAIT = 0.02, 1.0  # seconds between questions while there is no other version
_AGAIN = 10.0  # seconds in which a process that has begun anew may read its version


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
    configuration = {"name": name, "brokers": addresses, "serve": limits, **({"security": security} if security else {})}
    process = child.Child("--config", configuration_file(configuration), "--version", str(version))
    follower = Follower(process)
    try:
        if timeout > 0:
            follower._await(0, timeout, first=True)
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

    def __init__(self, process: child.Child) -> None:
        self._process = process
        self._starts = 0  # of the process, when it last had a version
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

    def _current(self) -> Version:
        if self._closed:
            return self.model._current()
        status = json.loads(self._process.ask("/status"))
        if not status["version"] and 0 < self._starts < self._process.starts:  # after a fork, Ctrl-C or a kill
            self._starts = self._process.starts
            with contextlib.suppress(TimeoutError):
                self._await(0, _AGAIN)
            status = self._asked()
        if not status["version"]:
            raise NoVersionError(f"there is no version to predict with: {status.get('error') or 'none was read yet'}")
        self._starts = self._process.starts
        if self._read is None or self._read.manifest["run"] != status["run"]:
            self._read = version_of(self._process)
        return self._read

    @property
    def model(self) -> Model:
        """The model of this moment. It is a NoVersionError if there is none."""
        if not self._closed:
            run = self._current().manifest["run"]
            if self._model is None or self._model.manifest["run"] != run:
                self._model = Model(bytes(self._process.ask("/file")))
        if self._model is None:
            raise NoVersionError("there was no version to predict with when the follower was closed")
        return self._model

    def wait(self, other_than: int = 0, timeout: float | None = None) -> int:
        """Waits until there is a version with another number than this, and returns its number.

        After timeout seconds it raises a TimeoutError that says what went wrong last.
        """
        return self._await(other_than, timeout)

    def _await(self, other_than: int, timeout: float | None, first: bool = False) -> int:
        """As wait. At first, it raises a BrokersError at once if the pipeline has no topics, and says what it waits for."""
        began, pause, told = time.monotonic(), _FIRST_WAIT, not first
        while True:
            status = self._asked()
            if status["version"] not in (0, other_than):
                return int(status["version"])
            waited, why = time.monotonic() - began, status.get("error", "none was read yet")
            if first and status["no_pipeline"]:
                raise BrokersError(why)
            if timeout is not None and waited >= timeout:
                raise TimeoutError(f"no version after {timeout:g} seconds: {why}")
            if not told and waited > _SILENT:
                _LOGGER.warning("there is no version to predict with yet: %s; waiting up to %g seconds", why, timeout)
                told = True
            time.sleep(pause if timeout is None else min(pause, timeout - waited))
            pause = min(2 * pause, _LAST_WAIT if "error" in status else 10 * _FIRST_WAIT)

    def _asked(self) -> dict[str, Any]:
        """Returns the status that the program has, or that of one that can't reach the brokers."""
        try:
            return dict(json.loads(self._process.ask("/status")))
        except BrokersError as reason:
            stale = f"there is no version: {reason}"
            nothing = {"version": 0, "run": "", "kind": "", "parent": "", "written": None, "age": 0.0, "silence": None, "no_pipeline": False}
            return {**nothing, "error": str(reason), "stale": stale, "unreachable": True}

    def status(self) -> Status:
        """Returns the status of this moment."""
        s = self._asked()
        of_brokers = s["version"] or s["no_pipeline"] or "unreachable" in s
        return Status(
            **{key: s[key] for key in ("version", "run", "kind", "parent", "age")},
            written=datetime.fromtimestamp(s["written"], UTC) if s["written"] else None,
            silence=s["silence"] if s["silence"] is not None else math.inf,
            error=(BrokersError if of_brokers else NoVersionError)(s["error"]) if "error" in s else None,
        )

    def stale(self) -> str | None:
        """Returns why the model should not be relied on; None if all is well. What to do about it is the caller's business."""
        return self._asked().get("stale")
