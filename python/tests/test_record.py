import json
import pathlib
import unittest

import numpy as np

from stagewise.errors import DamagedError
from stagewise.record import Collector, Message

GOLDENS = pathlib.Path(__file__).parents[2] / "schemas" / "testdata"


def golden(name: str, suffix: str) -> Message:
    headers = json.loads((GOLDENS / f"{name}.headers.json").read_text())["Headers"]
    return Message(0, tuple((h["Key"], h["Value"]) for h in headers), (GOLDENS / f"{name}.{suffix}").read_bytes())


class Records(unittest.TestCase):
    def test_records_that_the_program_writes(self) -> None:
        for name in ("prepare", "prepare-chain", "weights", "weights-calibration", "weights-ridge"):
            with self.subTest(name):
                record = Collector().record(golden(name, "arrow"))
                assert record is not None
                self.assertIn("W" if name in ("weights", "weights-ridge") else "labels" if "prepare" in name else "calibration", record.tensors)
        weights = Collector().record(golden("weights", "arrow"))
        assert weights is not None
        self.assertEqual((weights.kind, weights.stage, weights.notes["final"]), ("weights", 0, "1"))

    def test_documents_that_the_program_writes(self) -> None:
        for name in ("manifest", "ledger"):
            document = Collector().document(golden(name, "json"))
            self.assertIn("version" if name == "manifest" else "versions", document)

    def test_no_bit_may_be_another(self) -> None:
        message = golden("weights", "arrow")
        assert message.value is not None
        whole = Collector().record(message)
        assert whole is not None
        for at in range(len(message.value)):
            damaged = message.value[:at] + bytes([message.value[at] ^ 1]) + message.value[at + 1 :]
            try:
                record = Collector().record(Message(0, message.headers, damaged))
            except DamagedError:
                continue
            assert record is not None  # the bit is one that nobody reads
            np.testing.assert_array_equal(record.tensors["W"], whole.tensors["W"])

    def test_chunks_that_can_not_be(self) -> None:
        for chunk, chunks in (("0", "0"), ("2", "2"), ("-1", "1"), ("0", "10001"), ("x", "1")):
            with self.assertRaises(DamagedError):
                Collector().whole(Message(0, (("chunk", chunk), ("chunks", chunks)), b""))
