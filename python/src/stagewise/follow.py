"""Follows the versions of a pipeline: the newest is the model, as soon as all of it is here."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from .classifier import Classifier, Labels, Predictions
from .errors import BrokersError, DamagedError, NoTopicError, NoVersionError
from .ledger import LATEST, Ledger
from .log import Log
from .model import Model
from .record import Message
from .task import Task
from .versions import Versions

_LOGGER = logging.getLogger("stagewise")
_SILENT = 2.0  # seconds after which follow says what it waits for
_FIRST_RETRY, _LAST_RETRY = 0.25, 10.0  # seconds between attempts to reach brokers
_LAST_REREAD = 60.0  # seconds between attempts to read a version that is damaged: each may read the whole topic
_LONGEST_CHECK = 10.0  # seconds between questions to the brokers which version is current
_POLL = 0.2  # seconds after which the thread sees that it shall end


@dataclass(frozen=True)
class Status:
    """What a follower has, and how well it knows that this is what it should have."""

    version: int  # its number; 0: there is none
    run: str  # id of the run that made it
    kind: str  # "full", or "update" if it goes on from its parent
    parent: str  # id of the run of the version before it in its chain; "": there is none
    written: datetime | None  # when, by the clock of who wrote it; None: it is not known
    age: float  # seconds since it was written
    silence: float  # seconds since the brokers were asked that said last that this is the version to have; infinite if they never did
    error: Exception | None  # what went wrong last; None: nothing, or all went well since


def follow(
    brokers: str | Sequence[str],
    name: str,
    *,
    version: int | str = LATEST,
    timeout: float = 60,
    max_silence: float = 60,
    max_age: float | None = None,
    settings: Mapping[str, Any] | None = None,
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

    settings are further ones of librdkafka, such as those of TLS and logins.
    """
    if not name or not brokers:
        raise ValueError("follow needs the addresses of brokers, and the name of a pipeline")
    if not isinstance(brokers, str) and not (isinstance(brokers, Sequence) and all(isinstance(b, str) and b for b in brokers)):
        raise ValueError(f"brokers {brokers!r}: expected host:port, or a list of them")
    for address in brokers.split(",") if isinstance(brokers, str) else brokers:
        if "://" in address or not re.fullmatch(r".+:\d+", address.strip()):
            raise ValueError(f"brokers {brokers!r}: expected host:port, unlike {address!r}")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        raise ValueError(f"name {name!r}: expected the name of a pipeline, of letters, digits, points, dashes and underscores")
    follower = Follower(Log(brokers, name, settings or {}), name, str(version), max_silence, max_age)
    if timeout > 0:
        notice = threading.Timer(_SILENT, follower._tell, (timeout,))
        notice.start()
        try:
            follower._await(0, timeout, topics=True)
        except BaseException:
            follower.close()
            raise
        finally:
            notice.cancel()
    return follower


class Follower(Classifier):
    """Predicts with the model of this moment. `follow` makes followers.

    A version becomes the model when all of it is here, all digests match and its random draws are made. Nobody waits for that, and
    predictions that are under way go on with the version before it. Memory is that of the version, and of the next one while it is
    read. While brokers do not answer, the model stays. A version that was removed does not stay: the one that takes its place is the
    model, or none.

    Two calls may be of two versions. Take `model` once, if they must not: it never changes.
    """

    def __init__(self, log: Log, name: str, version: str, max_silence: float, max_age: float | None) -> None:
        self._log, self._versions, self._wanted = log, Versions(log, name), version
        self._max_silence, self._max_age = max_silence, max_age
        self._check_every = min(max_silence / 4, _LONGEST_CHECK)
        self._changed = threading.Condition()  # guards the fields below
        self._model: Model | None = None
        self._written = 0.0
        self._confirmed = float("-inf")
        self._error: Exception | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stagewise follows {name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stops following, and returns when that is done. The model stays. A second close does nothing."""
        self._closing.set()
        self._log.end()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def model(self) -> Model:
        """The model of this moment. It is a NoVersionError if there is none."""
        model, error = self._model, self._error
        if model is None:
            raise NoVersionError(f"there is no version to predict with: {self._why(error)}")
        return model

    @property
    def version(self) -> int:
        return self.model.version

    @property
    def classes_(self) -> Labels:
        return self.model.classes_

    @property
    def n_features_in_(self) -> int:
        return self.model.n_features_in_

    @property
    def task(self) -> Task:
        return self.model.task

    @property
    def targets_(self) -> npt.NDArray[np.str_]:
        return self.model.targets_

    def predict(self, X: Any) -> Predictions:
        return self.model.predict(X)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:
        return self.model.predict_proba(X)

    def wait(self, other_than: int = 0, timeout: float | None = None) -> int:
        """Waits until there is a version with another number than this, and returns its number.

        After timeout seconds it raises a TimeoutError that says what went wrong last.
        """
        return self._await(other_than, timeout)

    def _await(self, other_than: int, timeout: float | None, topics: bool = False) -> int:
        """As wait. With topics it raises a NoTopicError at once if the pipeline has none."""

        def missing() -> NoTopicError | None:
            return self._error if topics and isinstance(self._error, NoTopicError) else None

        def over() -> bool:
            return missing() is not None or (self._model is not None and self._model.version != other_than)

        with self._changed:
            if not self._changed.wait_for(over, timeout):
                raise TimeoutError(f"no version after {timeout:g} seconds: {self._why(self._error)}")
            if error := missing():
                raise error
            return self.model.version

    def _tell(self, timeout: float) -> None:
        _LOGGER.warning("there is no version to predict with yet: %s; waiting up to %g seconds", self._why(self._error), timeout)

    def _why(self, error: Exception | None) -> str:
        """Returns why there is no version, or no other, given what went wrong last."""
        return str(error or self._log.silence() or "none was read yet")

    def status(self) -> Status:
        """Returns the status of this moment."""
        with self._changed:
            model, now = self._model, time.time()
            silence = time.monotonic() - self._confirmed
            if model is None:
                return Status(0, "", "", "", None, 0, silence, self._error)
            chain = model.manifest["plan"].get("chain") or {}
            return Status(
                version=model.version,
                run=model.run,
                kind="update" if chain.get("update") else "full",
                parent=(chain.get("parent") or {}).get("run", ""),
                written=_time(self._written),
                age=now - self._written,
                silence=silence,
                error=self._error,
            )

    def stale(self) -> str | None:
        """Returns why the model should not be relied on; None if all is well. What to do about it is the caller's business."""
        s = self.status()
        why = f": {s.error}" if s.error else ""
        if s.version == 0:
            return f"there is no version{why}"
        if s.silence > self._max_silence:
            return f"version {s.version} not confirmed by brokers for {s.silence:.1f} s (limit {self._max_silence:g} s){why}"
        if self._max_age is not None and s.age > self._max_age:
            return f"version {s.version} is {s.age:.1f} s old, expected at most {self._max_age:g} s"
        return None

    def _run(self) -> None:
        """Follows until the end."""
        wait = _FIRST_RETRY
        while not self._closing.is_set():
            began = time.monotonic()
            try:
                self._follow()
            except Exception as error:  # whatever it is, the model stays, and the next attempt may go well
                self._say(error)
            if time.monotonic() - began > _LAST_RETRY:
                wait = _FIRST_RETRY
            self._closing.wait(wait)
            wait = min(2 * wait, _LAST_RETRY)
        self._log.close()

    def _follow(self) -> None:
        """Reads what `plans` says, and goes on with what is written there, until an error or the end.

        At intervals it reads all that counts anew. So it finds out that brokers still answer, and what went by during an absence:
        tombstones do not stay for ever, and a version that is not listed is dropped.
        """
        ledger: Ledger | None = None
        reread = _FIRST_RETRY
        while not self._closing.is_set():
            asked = time.monotonic()
            fresh = self._versions.ledger()
            if ledger is None:
                self._log.follow(self._versions.plans, fresh.next)
            elif fresh.next < ledger.next:
                raise BrokersError(f"topic {self._versions.plans} was recreated, or has lost messages")
            ledger = fresh
            damaged = self._settle(ledger, {}, asked)
            if damaged:
                due, reread = time.monotonic() + reread, min(2 * reread, _LAST_REREAD)
            else:
                self._confirm(asked)
                due, reread = asked + self._check_every, _FIRST_RETRY
            while (message := self._next(due)) is not None:
                if message.offset >= ledger.next:
                    ledger.add(message)
                    damaged = self._settle(ledger, damaged)

    def _next(self, due: float) -> Message | None:
        """Returns the next message of `plans`; None if none has come when it is due to ask the brokers again, or to end."""
        while not self._closing.is_set() and (left := due - time.monotonic()) > 0:
            if (message := self._log.appended(min(left, _POLL))) is not None:
                return message
        return None

    def _settle(self, ledger: Ledger, damaged: Mapping[str, DamagedError], asked: float | None = None) -> dict[str, DamagedError]:
        """Makes the version that the ledger says the model, or if that is not whole the next that is.

        It returns why versions can't be read, by the ids of their runs. damaged are those that were not readable before, which are left alone.
        asked is when the brokers were asked what the ledger says; None: they were not.
        """
        passed_over: dict[str, DamagedError] = {}
        before = self._model
        while True:
            try:
                place = ledger.find(self._wanted, passed_over)
                if place.run in damaged:
                    raise damaged[place.run]
                if before is None or before.run != place.run:
                    self._offer(*self._versions.model(place, before), None, asked)
            except NoVersionError as missing:
                if not passed_over or before is None or not ledger.has(before.run):
                    self._offer(None, 0, missing, asked)
            except DamagedError as error:
                passed_over[place.run] = error
                continue
            break
        self._say(next(iter(passed_over.values()), None if self._model else self._error))
        return passed_over

    def _offer(self, model: Model | None, written: float, error: Exception | None, asked: float | None) -> None:
        with self._changed:
            self._model, self._written, self._error = model, written, error
            if asked is not None:
                self._confirmed = asked
            self._changed.notify_all()

    def _confirm(self, asked: float) -> None:
        with self._changed:
            self._confirmed = asked
            self._changed.notify_all()

    def _say(self, error: Exception | None) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()


def _time(seconds: float) -> datetime | None:
    """Returns a time that a message says; None if it says none, or one that no calendar has."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds > 0 else None
    except (OSError, OverflowError, ValueError):
        return None
