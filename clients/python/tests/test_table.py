import unittest
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa

from .models import linear

COLUMNS = ["length", {"name": "colour", "categories": ["blue", "red"]}]  # four features
LENGTHS, COLOURS = [1.5, None, 3.0, 4.0], ["red", "blue", "green", None]
FEATURES = [[1.5, 0, 1, 0], [np.nan, 1, 0, 0], [3, 0, 0, 1], [4, np.nan, np.nan, np.nan]]


class Tables(unittest.TestCase):
    def setUp(self) -> None:
        self.model = linear(COLUMNS, width=4)

    def assert_features(self, rows: Any) -> None:
        np.testing.assert_array_equal(self.model._layout.features(rows), np.array(FEATURES, dtype=np.float32))

    def test_columns_are_found_by_name(self) -> None:
        content = {"colour": COLOURS, "other": ["x"] * 4, "length": LENGTHS}
        self.assert_features(pa.table(content))
        self.assert_features(pa.RecordBatch.from_pydict(content))
        self.assert_features(pandas.DataFrame(content))
        self.assert_features(pandas.DataFrame(content).astype({"colour": "category"}))
        self.assert_features(polars.DataFrame(content))
        self.assert_features(pa.table({"length": ["1.5", "NA", " 3", "4"], "colour": [" red", "blue", "green", "NaN"]}))

    def test_an_array_has_the_columns_in_their_order(self) -> None:
        self.assert_features(FEATURES)
        self.assert_features(np.array(FEATURES))
        self.assert_features(np.array(list(zip(LENGTHS, COLOURS, strict=True)), dtype=object))
        self.assert_features(pandas.DataFrame(FEATURES))
        flat = [None if np.isnan(v) else v for row in FEATURES for v in row]
        self.assert_features(pa.table({"label": list("abcd"), "features": pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), 4)}))

    def test_numbers_may_be_words(self) -> None:
        model = linear([{"name": "n", "categories": ["1", "2"]}], width=3)
        for values in ([2, 1, 7], ["2", "1", "7"]):
            np.testing.assert_array_equal(model._layout.features(pandas.DataFrame({"n": values})), [[0, 1, 0], [1, 0, 0], [0, 0, 1]])
        np.testing.assert_array_equal(model._layout.features(pandas.DataFrame({"n": [2, None]}))[0], [0, 1, 0])

    def test_errors_say_what_was_expected(self) -> None:
        bad: list[tuple[Any, str]] = [
            (pa.table({"length": [1.0]}), "lacks columns that the model needs: colour; it has length"),
            (pa.table({"length": ["long"], "colour": ["red"]}), "column 'length': expected numbers"),
            (pa.table({"length": [1.0], "colour": [1.5]}), "column 'colour': expected words or whole numbers"),
            ([[1, 2]], "rows of 2 features, expected 4, or a table of the 2 columns of the training"),
            ([1, 2, 3, 4], "expected two dimensions"),
            ([[1, 2, 3, 1e39]], "row 0, feature 3: 1e\\+39 is not a finite float32"),
        ]
        for rows, message in bad:
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                self.model.predict(rows)
        with self.assertRaisesRegex(ValueError, "row 1, feature 2: a missing value, but the model was trained with examples.missing: error"):
            linear(missing="error").predict([[1, 2, 3], [1, 2, np.nan]])

    def test_no_rows(self) -> None:
        self.assertEqual(self.model.predict_proba(np.empty((0, 4))).shape, (0, 4))
        self.assertEqual(len(self.model.predict(pa.table({"length": pa.array([], pa.float64()), "colour": pa.array([], pa.utf8())}))), 0)
