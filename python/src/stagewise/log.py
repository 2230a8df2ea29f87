"""Reads topics of one partition from Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .errors import BrokersError, NoTopicError
from .record import Message

_ANSWER = 5.0  # seconds that brokers have for an answer
_ATTEMPT = 0.5  # seconds of the first attempt at a question; after each the library says what is wrong

# What to look at if somebody accepts connections, and closes them without an answer, of which the library says nothing.
_UNKNOWN = "no reason is known; check that these are ports of brokers, not of KRaft controllers, and that settings have the security.protocol of brokers"


class Log:
    """The topics of a cluster. Only one thread may use it."""

    def __init__(self, brokers: str | Sequence[str], name: str, settings: Mapping[str, Any]) -> None:
        try:
            import confluent_kafka
        except ImportError as reason:
            raise ImportError("following versions needs confluent-kafka: pip install 'stagewise[kafka]'") from reason
        self._kafka = confluent_kafka
        self._brokers = brokers if isinstance(brokers, str) else ",".join(brokers)
        self._answered = self._closing = False
        self._settings = {
            "bootstrap.servers": self._brokers,
            "group.id": f"{name}.follow",  # the library wants one; nothing joins it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "queued.max.messages.kbytes": 16 << 10,
            "fetch.error.backoff.ms": 100,
            "reconnect.backoff.max.ms": 2000,
            "log_level": 2,  # what it would log comes to _note too
            "error_cb": self._note,
            **settings,
        }
        self._trouble = ""  # what the library has said last
        # A connection has one answer at a time. Who reads ranges must not wait for what is appended.
        try:
            self._reader: Any = confluent_kafka.Consumer({**self._settings, "fetch.wait.max.ms": 10})
            self._follower: Any = confluent_kafka.Consumer(self._settings)
        except confluent_kafka.KafkaException as reason:
            raise ValueError(f"settings: {_text(reason.args[0])}") from reason

    def _note(self, error: Any) -> None:
        if error.code() != self._kafka.KafkaError._ALL_BROKERS_DOWN or not self._trouble:  # which says less than what came before
            self._trouble = _text(error)

    def silence(self) -> str:
        """Returns that no broker has answered yet, and why if that is known; "" if one has. Any thread may call it."""
        if self._answered:
            return ""
        return f"brokers {self._brokers} do not answer: {self._trouble or _UNKNOWN}"

    def _failed(self, topic: str, why: str) -> BrokersError:
        self._reader.poll(0)  # calls _note, if there is something to say
        trouble, self._trouble = self._trouble, ""
        return BrokersError(f"topic {topic}: {why}" + (f": {trouble}" if trouble else ""))

    def end(self) -> None:
        """Makes questions that are under way end soon. Any thread may call it."""
        self._closing = True

    def close(self) -> None:
        for consumer in (self._reader, self._follower):
            consumer.close()

    def bounds(self, topic: str) -> tuple[int, int]:
        """Returns the first offset of a topic, and the one after the last."""
        deadline, attempt = time.monotonic() + _ANSWER, _ATTEMPT
        while True:
            try:
                first, end = self._reader.get_watermark_offsets(self._kafka.TopicPartition(topic, 0), timeout=attempt)
                self._answered = True
                return int(first), int(end)
            except self._kafka.KafkaException as reason:
                error, cause = reason.args[0], reason
            errors = self._kafka.KafkaError
            if error.code() in (errors._UNKNOWN_PARTITION, errors.UNKNOWN_TOPIC_OR_PART):
                self._answered = True
                raise NoTopicError(
                    f"topic {topic} does not exist, or the user may not read it: run stagewise train first, or check name and brokers"
                ) from cause
            if error.code() not in (errors._ALL_BROKERS_DOWN, errors._RESOLVE, errors._TIMED_OUT, errors._TRANSPORT):
                raise self._failed(topic, _text(error)) from cause
            self._reader.poll(0)  # calls _note, if there is something to say
            attempt = min(2 * attempt, deadline - time.monotonic())  # brokers may be far away
            if self._closing or attempt <= 0:
                if silence := self.silence():
                    raise BrokersError(silence) from cause
                raise self._failed(topic, _text(error)) from cause

    def read(self, topic: str, first: int, end: int) -> Iterator[Message]:
        """Yields the messages with offsets from first (included) to end (excluded) that the topic has."""
        if first >= end:
            return
        self._reader.assign([self._kafka.TopicPartition(topic, 0, first)])
        try:
            while (message := self._reader.poll(_ANSWER)) is not None:
                if self._ends(topic, message) and message.offset() < end:
                    continue  # the topic had more when its bounds were read: a broker that fails has said so
                if message.error() is not None or message.offset() >= end:
                    return
                yield _message(message)
                if message.offset() == end - 1:
                    return
            raise self._failed(topic, f"no answer for {_ANSWER:g} seconds")
        finally:
            self._reader.unassign()

    def follow(self, topic: str, offset: int) -> None:
        """Makes `appended` return what is at an offset and after it."""
        self._follower.assign([self._kafka.TopicPartition(topic, 0, offset)])
        self._followed = topic

    def appended(self, timeout: float) -> Message | None:
        """Returns the next message of the topic that is followed; None if there is none for so many seconds."""
        message = self._follower.poll(timeout)
        if message is None or self._ends(self._followed, message):
            return None
        return _message(message)

    def _ends(self, topic: str, message: Any) -> bool:
        """Reports whether a topic has ended, for now."""
        if message.error() is None:
            return False
        if message.error().code() == self._kafka.KafkaError._PARTITION_EOF:
            return True
        raise self._failed(topic, _text(message.error()))


def _message(message: Any) -> Message:
    headers = tuple((key, (value or b"").decode(errors="replace")) for key, value in message.headers() or ())
    return Message(message.offset(), headers, message.value(), message.timestamp()[1] / 1000)


def _text(error: Any) -> str:
    return f"{error.str()} ({error.name()})"
