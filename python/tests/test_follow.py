import socket
import unittest
import unittest.mock
from collections.abc import Callable
from typing import Any

import numpy as np

from stagewise.errors import NoTopicError, NoVersionError
from stagewise.follow import Follower, Status, follow
from stagewise.ledger import LATEST, Ledger
from stagewise.record import Message
from stagewise.versions import Versions

from .models import LABELS
from .topics import PLANS, VERSIONS, Reader, Topics, document

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

    def test_trees(self) -> None:
        follower = self.follow()
        for number, link in enumerate(("identity", "softmax", "calibrated"), 1):
            self.topics.publish(number, link, trees=2 + number)
            self.await_version(follower, number)
            probabilities = follower.predict_proba(ROWS)
            np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
            np.testing.assert_array_equal(probabilities, follower.predict_proba(3 * ROWS))  # on the same sides of 0
            self.assertGreater(len(np.unique(probabilities, axis=0)), 1)

        def without_trees(message: Message) -> Message:
            return Message(0, (("kind", "structure"),), b"") if message.kind == "structure" else message

        self.topics.publish(4, trees=3, damage=without_trees)
        status = self.await_status(follower, lambda s: s.error is not None)
        self.assertRegex(str(status.error), "version 4: the trees of stage 0 are not on the topic, or damaged")
        self.assertEqual(status.version, 3)

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

    def test_the_newest_version_that_is_whole_is_the_model(self) -> None:
        """Also for who begins, and when the model is removed: those that are damaged are passed over."""

        def cut(message: Message) -> Message:
            return Message(0, message.headers, (message.value or b"")[:99])

        for number in (1, 2):
            self.topics.publish(number)
        for number in (3, 4):
            self.topics.publish(number, damage=cut)
        follower = self.follow()
        status = self.await_version(follower, 2)
        self.assertIn("version 4: ", str(self.await_status(follower, lambda s: s.error is not None).error))
        self.assertEqual(status.run, "run2")
        self.topics.remove(2)
        self.await_version(follower, 1)
        self.topics.remove(1)
        self.await_version(follower, 0)
        with self.assertRaisesRegex(NoVersionError, "no version to predict with: version 4: "):
            follower.predict(ROWS)
        self.topics.publish(5)
        self.assertIsNone(self.await_version(follower, 5).error)

    def test_no_number_on_a_topic_ends_anything(self) -> None:
        odd = [float("nan"), float("inf"), -1, 10**400, "2", None, True, [], {}]
        self.topics.publish(1)
        follower = self.follow()
        self.await_version(follower, 1)
        place = self.topics.place[1]
        for value in odd:
            for field in ("run", "version", "from", "to", "withheld"):
                if (field, value) not in (("run", "2"), ("withheld", True), ("version", "2")):
                    self.topics.say("end", {"run": "odd", "version": {**place, "run": "odd", "version": 2, field: value}} if field != "withheld" else value)
            for kind in ("pin", "removal", "end"):
                self.topics.say(kind, value)
            self.topics.say("removal", {"run": value})
            for field in ("before", "versions", "highest"):
                self.topics.append(PLANS, *document("ledger", "", {"before": 0, "versions": [], field: value}))
        self.topics.pin(0)
        self.topics.publish(3)
        for each in (follower, self.follow()):
            self.await_version(each, 3)

    def test_a_manifest_with_odd_numbers_is_damaged(self) -> None:
        self.topics.publish(1)
        for number, (field, value) in enumerate((("version", float("nan")), ("blocks", float("inf")), ("plan", []), ("weights_digest", 0), ("version", 10**400)), 2):

            def odd(message: Message, field: str = field, value: Any = value) -> Message:
                return message if message.kind != "manifest" else next(manifests)

            content = {"name": "p", "version": number, "run": f"run{number}", "plan": {}, "prepare": "", "blocks": [], field: value}
            manifests = iter(document("manifest", f"run{number}", content))
            self.topics.publish(number, damage=odd)
        follower = self.follow()
        self.await_version(follower, 1)
        self.assertIn("version 6", str(self.await_status(follower, lambda s: s.error is not None).error))

    def test_removals_that_are_said_again_change_nothing(self) -> None:
        follower = self.follow()
        for number in range(1, 6):
            self.topics.publish(number)
            self.await_version(follower, number)
            for _ in range(3):
                self.topics.remove(number)
            self.await_version(follower, 0)
            self.assertIn("there is no version", follower.stale() or "")
            with self.assertRaisesRegex(NoVersionError, "no finished version yet"):
                follower.predict_proba(ROWS)

    def test_times_that_no_calendar_has(self) -> None:
        for written in (-0.001, 0.0, 1e18, float("inf"), float("nan")):
            self.topics = Topics()
            self.topics.publish(1, damage=lambda m, written=written: Message(0, m.headers, m.value, written))  # type: ignore[misc]
            self.assertIsNone(self.await_version(self.follow(), 1).written)

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
        self.assertRegex(follower.stale() or "", r"version 1 not confirmed by brokers for .* s \(limit 0.04 s\): no broker answers")
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

    def test_a_pipeline_without_topics(self) -> None:
        """Who names one that is not there learns it at once. Who does not wait for a model may be started before the topics are there."""
        self.topics.messages = {}
        with unittest.mock.patch.dict(follow.__globals__, {"Log": lambda *_: Reader(self.topics)}):
            with self.assertRaisesRegex(NoTopicError, "topic p.plans does not exist"):
                follow("localhost:9092", "p", timeout=PATIENCE)
            early = follow("localhost:9092", "p", timeout=0)
            self.addCleanup(early.close)
            self.await_status(early, lambda s: isinstance(s.error, NoTopicError))
            with self.topics.changed:
                self.topics.messages = {PLANS: [], VERSIONS: []}
            with self.assertRaisesRegex(TimeoutError, "no version after 0.01 seconds: .*no finished version yet"):
                follow("localhost:9092", "p", timeout=0.01)
            self.topics.publish(1)
            self.await_version(early, 1)
            with follow("localhost:9092", "p", timeout=PATIENCE) as late:
                self.assertEqual(late.version, 1)

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
        wrong: list[tuple[Any, Any, dict[str, Any], str]] = [
            ("", "p", {}, "needs the addresses of brokers, and the name of a pipeline"),
            ([], "p", {}, "needs the addresses of brokers, and the name of a pipeline"),
            ("localhost:9092", "", {}, "needs the addresses of brokers, and the name of a pipeline"),
            (9092, "p", {}, "brokers 9092: expected host:port, or a list of them"),
            (["localhost:9092", None], "p", {}, "brokers .*None.: expected host:port"),
            (["http://localhost:9092"], "p", {}, "expected host:port, unlike 'http://localhost:9092'"),
            ("localhost:9092,other", "p", {}, "expected host:port, unlike 'other'"),
            ("localhost:9092", "localhost:9092", {}, "name 'localhost:9092': expected the name of a pipeline"),
            ("localhost:9092", "p", {"settings": {"depth": 3}}, 'settings: No such configuration property: "depth"'),
        ]
        for brokers, name, others, message in wrong:
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                follow(brokers, name, **others)

    def test_brokers_that_do_not_answer_are_named(self) -> None:
        with socket.socket() as closed:  # which nobody listens on
            closed.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{closed.getsockname()[1]}"
            with self.assertRaisesRegex(TimeoutError, f"no version after 0.01 seconds: brokers {address} do not answer"):
                follow(address, "p", timeout=0.01)
            with (
                self.assertRaisesRegex(TimeoutError, f"no version after 2 seconds: brokers {address} do not answer: .*refused"),
                self.assertLogs("stagewise", "WARNING") as said,
                unittest.mock.patch.dict(follow.__globals__, {"_SILENT": 0.5}),
            ):
                follow([address], "p", timeout=2)
            self.assertRegex(said.output[0], f"no version to predict with yet: brokers {address} do not answer: .*; waiting up to 2 seconds")
