import unittest

import numpy as np
import pyarrow as pa

from stagewise.mixed import MixedLayout
from stagewise.words import hash_of

_PLAN = {
    "missing": "mean",
    "input": {
        "text": "message",
        "word_columns": 64,
        "word_phrases": 1,
        "categorical": ["site", "ad"],
        "hash": {"columns": 16, "cross": [["site", "ad"]]},
    },
}


class Mixed(unittest.TestCase):
    def test_rows_are_numbers_then_words_then_hashes(self) -> None:
        layout = MixedLayout({"plan": _PLAN, "columns": ["age", "price"]})
        rows = layout.features(
            [
                {"age": 30, "price": 0, "site": "a", "ad": 7.0, "message": "Buy now, now"},
                {"age": None, "price": 2, "site": None, "ad": "x", "message": ""},
            ]
        )
        first = 2 + 64
        counts: dict[int, float] = {0: 30, 2 + hash_of(b"buy") % 64: 1, 2 + hash_of(b"now") % 64: 2}
        for text in (b"site\0a\0", b"ad\x007\0", b"site\0a\0ad\x007\0"):
            column = first + hash_of(text) % 16
            counts[column] = counts.get(column, 0) + 1
        self.assertEqual(dict(zip(rows[:1].columns, rows[:1].values, strict=True)), counts)
        self.assertEqual(list(rows[1:].columns), [0, 1, first + hash_of(b"ad\0x\0") % 16])
        np.testing.assert_array_equal(rows[1:].values, [np.nan, 2, 1])

    def test_what_is_no_row_says_so(self) -> None:
        layout = MixedLayout({"plan": _PLAN, "columns": ["age", "price"]})
        with self.assertRaisesRegex(ValueError, "lacks columns that the model needs: price, site, ad, message"):
            layout.features(pa.table({"age": [1]}))
        with self.assertRaisesRegex(ValueError, "rows without names of columns"):
            layout.features([[1, 2]])
