import unittest
from collections.abc import Callable
from typing import Any

import numpy as np

from stagewise.errors import NoVersionError
from stagewise.follow import Follower, Status, follow
from stagewise.ledger import LATEST, Ledger
from stagewise.record import Message
from stagewise.versions import Versions

from .models import LABELS
from .topics import PLANS, VERSIONS, Reader, Topics

ROWS = np.random.default_rng(1).normal(size=(20, len(LABELS)))
PATIENCE = 60  # seconds that something may take which takes milliseconds


class Following(unittest.TestCase):
    def setUp(self) -> None:
        self.topics = Topics()

    def follow(self, version: str = LATEST, max_silence: float = 60, max_age: float | None = None) -> Follower:
        follower = Follower(Reader(self.topics), "p", version, max_silence, max_age)  # type: ignore[arg-type]
        self.addCleanup(follower.close)
        return follower

    def await_status(self, follower: Follower, expected: Callable[[Status], bool]) -> Status:
        with follower._changed:
            if not follower._changed.wait_for(lambda: expected(follower.status()), PATIENCE):
                self.fail(f"the status is {follower.status()}")
        return follower.status()

    def await_version(self, follower: Follower, version: int) -> Status:
        return self.await_status(follower, lambda s: s.version == version)

    def test_versions_pins_and_removals(self) -> None:
        follower = self.follow()
        with self.assertRaisesRegex(NoVersionError, "there is no version to predict with"):
            follower.predict(ROWS)
        self.await_status(follower, lambda s: "no finished version yet" in str(s.error))
        for number in (1, 2):
            self.topics.publish(number)
            self.await_version(follower, number)
        self.topics.publish(3, withheld=True)
        self.topics.pin(1)
        self.await_version(follower, 1)
        self.topics.publish(4)
        self.topics.pin(3)
        self.await_version(follower, 3)
        self.topics.pin(0)
        self.await_version(follower, 4)
        model = follower.model
        self.topics.remove(4)
        self.await_version(follower, 2)
        self.topics.end(4)  # an end that was written again
        self.topics.remove(2)
        self.topics.remove(1)
        self.await_status(follower, lambda s: "none of the pipeline's 1 versions is offered" in str(s.error))
        self.assertIn("there is no version: none of", follower.stale() or "")
        self.assertEqual(model.predict_proba(ROWS).shape, (20, 3))  # a model that somebody has taken stays

    def test_every_link(self) -> None:
        follower = self.follow()
        for number, link in enumerate(("identity", "softmax", "calibrated"), 1):
            self.topics.publish(number, link)
            self.await_version(follower, number)
            np.testing.assert_allclose(follower.predict_proba(ROWS).sum(axis=1), 1, atol=1e-5)
            self.assertEqual(list(follower.classes_), LABELS)
            self.assertEqual((follower.version, follower.n_features_in_), (number, 3))

    def test_one_version(self) -> None:
        by_number, by_run = self.follow("2"), self.follow("run2")
        self.topics.publish(1)
        self.await_status(by_number, lambda s: "1 versions, but not version '2'" in str(s.error))
        self.topics.publish(2)
        self.topics.publish(3)
        for follower in (by_number, by_run):
            self.await_version(follower, 2)

    def test_damaged_versions_are_not_the_model(self) -> None:
        damages: dict[str, Callable[[bytes], bytes | None]] = {
            "cut off": lambda value: value[: len(value) // 2],
            "other bits": lambda value: value[: len(value) // 2] + bytes(byte ^ 1 for byte in value[len(value) // 2 :]),
            "none at all": lambda value: None,
        }
        for name, damage in damages.items():
            for kind in ("prepare", "weights", "manifest"):
                with self.subTest(f"{kind}: {name}"):
                    self.topics = Topics()
                    self.topics.publish(1)
                    follower = self.follow()
                    self.await_version(follower, 1)

                    def damaged(message: Message, kind: str = kind, damage: Any = damage) -> Message:
                        return Message(0, message.headers, damage(message.value) if message.kind == kind else message.value)

                    self.topics.publish(2, damage=damaged)
                    status = self.await_status(follower, lambda s: s.error is not None)
                    self.assertIn("version 2", str(status.error))
                    self.assertEqual(follower.version, 1)
                    self.topics.publish(3)
                    self.assertIsNone(self.await_version(follower, 3).error)

    def test_messages_that_were_written_again_may_be_anywhere(self) -> None:
        self.topics.publish(1, "calibrated")
        with self.topics.changed:
            moved = [m for m in self.topics.messages[VERSIONS] if m.offset % 2]
            self.topics.messages[VERSIONS] = [m for m in self.topics.messages[VERSIONS] if not m.offset % 2]
        self.topics.append(VERSIONS, Message(0, (("kind", "weights"), ("run", "other")), b"x"), *moved)
        self.await_version(self.follow(), 1)

    def test_the_start_costs_what_comes_after_the_latest_ledger(self) -> None:
        for number in range(1, 40):
            self.topics.publish(number)
        for _ in range(10_000):
            self.topics.say("plan", {})
        self.topics.write_ledger(highest=39)
        self.topics.publish(40)
        self.await_version(self.follow(), 40)
        place = self.topics.place[40]
        self.assertEqual(self.topics.reads[-1], (VERSIONS, place["from"], place["to"]))
        self.assertTrue(all(end - first <= 300 for topic, first, end in self.topics.reads if topic == PLANS), self.topics.reads)

    def test_ledgers_far_back(self) -> None:
        self.topics.publish(1)
        self.topics.write_ledger(highest=1)
        for _ in range(5000):
            self.topics.say("plan", {})
        self.topics.append(PLANS, Message(0, (("kind", "ledger"), ("chunk", "0"), ("chunks", "2"), ("digest", "x")), b"{"))
        ledger = Versions(Reader(self.topics), "p").ledger()  # type: ignore[arg-type]
        self.assertEqual((ledger.find(LATEST).version, ledger.next), (1, 5004))

    def test_the_first_run_that_made_a_number_counts(self) -> None:
        ledger = Ledger({"before": 0, "versions": [], "highest": 2})
        for i, (run, number) in enumerate((("gone", 2), ("first", 3), ("second", 3))):
            place = {"run": run, "version": number, "from": 0, "to": 1}
            content = f'{{"version": {str(place).replace(chr(39), chr(34))}}}'.encode()
            ledger.add(Message(i, (("kind", "end"),), content))
        for damaged in (b"", b"[]", b'{"version": 7}', b'{"version": {"run": 1}}'):
            ledger.add(Message(9, (("kind", "end"),), damaged))
        self.assertEqual((ledger.find(LATEST).run, ledger.next), ("first", 10))
        with self.assertRaisesRegex(NoVersionError, "1 versions, but not version '2'"):
            ledger.find("2")

    def test_trouble_with_brokers(self) -> None:
        self.topics.publish(1)
        follower = self.follow(max_silence=0.04)
        self.await_version(follower, 1)
        with self.topics.changed:
            self.topics.failure = "no broker answers"
        self.await_status(follower, lambda s: s.silence > 0.04 and s.error is not None)
        self.assertRegex(follower.stale() or "", "whether version 1 is .* unknown for .*, expected at most 0.04 s: no broker answers")
        self.assertEqual(follower.version, 1)
        with self.topics.changed:
            self.topics.failure = ""
        self.topics.publish(2)
        self.assertIsNone(self.await_version(follower, 2).error)

    def test_what_was_missed_is_found(self) -> None:
        """A version is gone whose removal can't be seen any more: the next ledger does not list it."""
        self.topics.publish(1)
        follower = self.follow(max_silence=0.04)
        self.await_version(follower, 1)
        self.topics.write_ledger(versions=[], highest=7)
        self.await_version(follower, 0)
        self.topics.publish(8)
        self.await_version(follower, 8)

    def test_topics_that_are_made_anew(self) -> None:
        self.topics.publish(1)
        self.topics.publish(2)
        follower = self.follow(max_silence=0.04)
        self.await_version(follower, 2)
        with self.topics.changed:
            self.topics.messages = {PLANS: [], VERSIONS: []}
        self.topics.publish(1)
        self.await_version(follower, 1)

    def test_age(self) -> None:
        self.topics.publish(1)
        follower = self.follow(max_age=60)
        status = self.await_version(follower, 1)
        self.assertEqual((status.kind, status.parent, status.written.timestamp() if status.written else 0), ("full", "", 1e9))
        self.assertRegex(follower.stale() or "", "version 1 is .* s old, expected at most 60 s")

    def test_close(self) -> None:
        self.topics.publish(1)
        with self.follow() as follower:
            self.assertEqual(follower.wait(timeout=PATIENCE), 1)
            with self.assertRaisesRegex(TimeoutError, "no version after 0.01 seconds"):
                follower.wait(other_than=1, timeout=0.01)
        follower.close()
        self.assertFalse(follower._thread.is_alive())
        self.assertEqual(follower.version, 1)  # the model stays

    def test_wrong_arguments(self) -> None:
        for brokers, name in (("", "p"), ([], "p"), ("localhost:9092", "")):
            with self.assertRaisesRegex(ValueError, "needs the addresses of brokers, and the name of a pipeline"):
                follow(brokers, name)
