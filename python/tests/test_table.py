import unittest
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import scipy.sparse

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
        for kind in (polars.Categorical, polars.Enum(["green", "red", "blue"])):
            self.assert_features(polars.DataFrame(content).with_columns(polars.col("colour").cast(kind)))
        self.assert_features([{"length": length, "colour": colour} for length, colour in zip(LENGTHS, COLOURS, strict=True)])
        self.assert_features([{"colour": "red", "length": 1.5}, {"colour": "blue"}, {"length": "3", "colour": "green", "x": []}, {"length": 4}])
        self.assert_features(pa.table({"length": ["1.5", "NA", " 3", "4"], "colour": [" red", "blue", "green", "NaN"]}))

    def test_an_array_has_the_columns_in_their_order(self) -> None:
        self.assert_features(FEATURES)
        self.assert_features(np.array(FEATURES))
        self.assert_features(np.array(list(zip(LENGTHS, COLOURS, strict=True)), dtype=object))
        self.assert_features(pandas.DataFrame(FEATURES))
        flat = [None if np.isnan(v) else v for row in FEATURES for v in row]
        self.assert_features(pa.table({"label": list("abcd"), "features": pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), 4)}))

    def test_times_become_their_parts(self) -> None:
        columns = [{"name": "at.hour", "time": "hour"}, {"name": "at.weekday", "time": "weekday"}, {"name": "at.month", "time": "month"},
                   {"name": "at.age", "offset": -20758.5, "time": "age"}, "x"]
        model = linear(columns, width=5)
        layout = model._layout
        want = np.array([[9.5, 7, 11, 20758.5 - 20758.395833333332, 1], [np.nan] * 4 + [2], [23.5, 3, 12, 20758.5 + 1 / 48, 3]], dtype=np.float32)
        texts = ["2026-11-01 09:30", None, "1969-12-31T23:30:00.000Z"]
        stamps = pandas.to_datetime(pandas.Series(texts), format="ISO8601", utc=True)
        for at in (
            pa.array(texts), pa.array(["2026-11-01T09:30:00,0 UTC", "NA", " 1969-12-31 23:30"]),
            *(pa.array([1793525400 * per, None, -1800 * per], pa.timestamp(unit)) for unit, per in (("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9))),
            pa.array(stamps), pa.array(texts).dictionary_encode(),
        ):
            np.testing.assert_array_equal(layout.features(pa.table({"x": [1, 2, 3], "at": at})), want)
        for unit, at in (("s", pa.array([1793525400, None, -1800])), ("s", pa.array([1793525400.0, np.nan, -1800.0])),
                         ("us", pa.array([1793525400 * 10**6, None, -1800 * 10**6]))):
            numbers = linear([*({**c, "unit": unit} for c in columns[:4]), "x"], width=5)
            np.testing.assert_array_equal(numbers._layout.features(pa.table({"x": [1, 2, 3], "at": at})), want)
        with self.assertRaisesRegex(ValueError, "1793525400 is a number, but the model was trained on dates and times as text"):
            layout.features(pa.table({"x": [1], "at": [1793525400]}))
        np.testing.assert_array_equal(layout.features(pandas.DataFrame({"at": stamps, "x": [1, 2, 3]})), want)
        np.testing.assert_array_equal(layout.features(polars.from_arrow(pa.table({"at": pa.array(stamps), "x": [1, 2, 3]}))), want)
        np.testing.assert_array_equal(layout.features([{"at": text, "x": i + 1} for i, text in enumerate(texts)]), want)
        np.testing.assert_array_equal(layout.features([[text, i + 1] for i, text in enumerate(texts)]), want)
        self.assertEqual(list(model.feature_names_in_), ["at", "x"])
        self.assertEqual(layout.features(pa.table({"at": pa.array(["2026-11-01T11:30+02:00"]), "x": [1]}))[0, 0], 11.5)
        self.assertEqual(layout.features(pa.table({"at": pa.array([1793525400], pa.timestamp("s", "+02:00")), "x": [1]}))[0, 0], 11.5)
        for wrong in (["1/2/2026"], [True], pa.array([1], pa.duration("s")), ["2026-02-29"], ["2026-11-01T24:00"], [1e19], ["2026-11-01T09:30+24:00"]):
            with self.assertRaisesRegex(ValueError, "at"):
                layout.features(pa.table({"at": wrong, "x": [1]}))
        with self.assertRaisesRegex(ValueError, "older than the model"):
            linear([{"name": "at.second", "time": "second"}], width=1)

    def test_numbers_are_less_the_offset_of_their_column(self) -> None:
        offset, times = 1764000038912, [1764000038913, 1764000039000]
        layout = linear(["size", {"name": "time", "offset": offset}], width=2)._layout
        want = np.array([[5, 1], [6, 88]], dtype=np.float32)
        for rows in (
            pa.table({"time": times, "size": [5, 6]}),
            pandas.DataFrame({"time": times, "size": [5, 6]}),
            np.array([[5, times[0]], [6, times[1]]]),
            [[5, times[0]], [6.0, times[1]]],
            pa.table({"features": [[5.0, float(times[0])], [6.0, float(times[1])]]}),
        ):
            np.testing.assert_array_equal(layout.features(rows), want)

    def test_a_number_is_the_word_of_its_shortest_form(self) -> None:
        model = linear([{"name": "n", "categories": ["1", "2.5", "007", "true", "1.5e+06"]}], width=6)
        want = {"1": 0, "2.5": 1, "007": 2, "true": 3, "1.5e+06": 4, "other": 5}
        for values, words in (
            ([1, 1.0, 2.5, 7], ["1", "1", "2.5", "other"]),
            (["1", "1.0", " 1e0 ", "007"], ["1", "1", "other", "007"]),
            ([1, None, 1], ["1", None, "1"]),
            ([True, False], ["true", "other"]),
            (["True", "TRUE", "true", "1"], ["true", "true", "true", "1"]),
            ([1500000.5, 1.5e6], ["other", "other"]),
            (["+1", "2.50", "7"], ["other", "other", "other"]),
        ):
            expected = np.array([[np.nan] * 6 if word is None else np.eye(6)[want[word]] for word in words])
            objects = np.empty((len(values), 1), dtype=object)
            objects[:, 0] = values
            for rows in (
                pandas.DataFrame({"n": values}),
                pandas.DataFrame({"n": values}, dtype=object),
                polars.DataFrame({"n": values}, strict=False),
                pa.table({"n": values}),
                [{"n": value} for value in values],
                objects,
                [[value] for value in values],
            ):
                with self.subTest(f"{type(rows)} of {values}"):
                    np.testing.assert_array_equal(model._layout.features(rows), expected)

    def test_words_of_models_that_kept_other_spellings(self) -> None:
        for categories in (["0", "1"], ["False", "True"], ["FALSE", "TRUE"], ["false", "true"]):
            layout = linear([{"name": "n", "categories": categories}], width=3)._layout
            np.testing.assert_array_equal(layout.features(pandas.DataFrame({"n": [True, False]})), [[0, 1, 0], [1, 0, 0]])
        layout = linear([{"name": "n", "categories": ["1.0", "2.0"]}], width=3)._layout
        np.testing.assert_array_equal(layout.features([["1.0"], ["2.0"]]), [[1, 0, 0], [0, 1, 0]])

    def test_numbers_are_read_as_the_program_reads_them(self) -> None:
        layout = linear(["n"], width=1)._layout
        for text, number in (("1", 1), (" +2.5e1", 25), (".5", 0.5), ("5.", 5), ("007", 7), ("true", 1), ("False", 0), ("NA", np.nan), ("", np.nan)):
            np.testing.assert_array_equal(layout.features(pa.table({"n": [text]})), [[number]])
        for text in ("0x10", "1_000", "inf", "one", "1,5"):
            with self.assertRaisesRegex(ValueError, f"row 1, column 'n': '{text}' is not a number"):
                layout.features(pa.table({"n": ["1", text]}))

    def test_columns_that_nobody_needs_may_have_whatever_they_have(self) -> None:
        frame = pandas.DataFrame({"colour": COLOURS, "x": [object(), 1, "a", b"b"], "length": LENGTHS})
        self.assert_features(frame)
        self.assert_features(pandas.concat([frame, frame[["x"]]], axis=1))
        self.assert_features(polars.DataFrame({"colour": COLOURS, "x": [object()] * 4, "length": LENGTHS}))

    def test_values_that_are_masked_are_missing(self) -> None:
        rows = np.ma.masked_array([[1.0, 2, 3]], mask=[[False, True, False]])
        np.testing.assert_array_equal(linear()._layout.features(rows), [[1, np.nan, 3]])

    def test_errors_say_what_was_expected(self) -> None:
        series = pandas.Series({"length": 1.5, "colour": "red"})
        bad: list[tuple[Any, str]] = [
            (pa.table({"length": [1.0]}), "lacks columns that the model needs: colour; it has length"),
            (pa.table({"length": ["long"], "colour": ["red"]}), "row 0, column 'length': 'long' is not a number"),
            (pa.table({"length": [1.0], "colour": [[1.5]]}), r"column 'colour' of type list<.*>: expected words, numbers or booleans"),
            (pandas.DataFrame({"length": pandas.to_datetime(["2026-01-01"]), "colour": ["red"]}), r"column 'length' of type timestamp\[.*\]: expected numbers, such as seconds"),
            (pandas.DataFrame({"length": pandas.to_timedelta([1], "s"), "colour": ["red"]}), r"column 'length' of type duration\[.*\]: expected numbers"),
            (np.array([[1, 2, 3, 4]], dtype="timedelta64[s]"), "rows of type timedelta64"),
            (pandas.DataFrame({"length": [1.0, object()], "colour": ["red", "red"]}), "row 1, column 'length': <object .* is a object, expected a text, a number"),
            (pandas.DataFrame([[1.0, "red", 2.0]], columns=["length", "colour", "length"]), "the table has 2 columns 'length'"),
            (pa.table({"features": [[1.0, 2, 3, 4], [1.0]]}), "row 1, column 'features': a list of length 1, expected 4 features"),
            ([{"plan": "basic"}], "lacks columns that the model needs: length, colour; it has plan"),
            ([{"length": 1.0}, [1, 2]], "row 0 is a dict, others are lists of values"),
            ({"length": 1.5, "colour": "red"}, r"rows are a dict: expected a table, or a list of rows. \[row\] is a list of one row"),
            (series, r"rows are a Series: .* rows.to_frame\(\).T is a table of one row"),
            (pandas.Series([1.0, 2.0]), "rows are a Series"),
            (polars.Series([1.0, 2.0]), r"rows are a Series: .* rows.to_frame\(\).transpose\(\) is"),
            (polars.LazyFrame({"length": [1.0]}), r"rows.collect\(\) is a table"),
            (None, "rows are None: expected a table, or a list of rows"),
            ("red", "rows are 'red': expected a table"),
            ((row for row in [[1, 2]]), "rows are of type generator: expected a table"),
            (scipy.sparse.eye(4).tocsr(), r"a sparse matrix, but the model was trained on dense rows: rows.toarray\(\)"),
            ([[1, 2, 3]], "rows of 3 values, expected the 2 columns of the training, length, colour, or their 4 features"),
            ([1, 2, 3, 4], r"rows are a list of 4 values, and not of rows; \[rows\] is a list of one row"),
            (np.array([1, 2, 3, 4]), r"rows of shape \(4,\), expected two dimensions: rows.reshape\(1, -1\) is a table of one row"),
            ([object()], "row 0 is of type object: expected a dict, or a list of values"),
            ([{"length": 1e39, "colour": "red"}], "row 0, column 'length': 1e.39 is not a finite float32"),
            (pandas.DataFrame([[1.0, "red"]], columns=pandas.MultiIndex.from_tuples([("a", "length"), ("a", "colour")])), "a column named .'a', 'length'.: expected texts"),
            (pandas.DataFrame([[1.0, "red"]], columns=["length", 1]), "a column named 1: expected texts as names"),
            (np.zeros((2, 2, 2)), r"two dimensions: rows.reshape\(len\(rows\), -1\)"),
            ([], "rows are an empty list: expected a table, or a list of rows"),
            ([[1, 2, 3, 4], [1, 2]], "row 1 has 2 values, row 0 has 4"),
            ([[1, 2, 3, "four"]], "row 0, feature 3: 'four' is not a number"),
            (np.array([[1, 2, 3, 4j]]), "rows of type complex128: expected numbers or texts"),
            (np.zeros((1, 4), "M8[s]"), "rows of type datetime64.*: expected numbers, such as seconds"),
            ([[1, 2, 3, 1e39]], "row 0, feature 3: 1e\\+39 is not a finite float32"),
        ]
        for rows, message in bad:
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                self.model.predict(rows)
        with self.assertRaisesRegex(ValueError, "row 1, feature 2: a missing value, but the model was trained with examples.missing: error"):
            linear(missing="error").predict([[1, 2, 3], [1, 2, np.nan]])
        with self.assertRaisesRegex(ValueError, "row 1, column 'b': a missing value, but the model was trained with examples.missing: error"):
            linear(["a", "b"], width=2, missing="error").predict([{"a": 1, "b": 2}, {"a": 1}])
        np.testing.assert_array_equal(self.model._layout.features(series.to_frame().T), [[1.5, 0, 1, 0]])

    def test_no_rows(self) -> None:
        self.assertEqual(self.model.predict_proba(np.empty((0, 4))).shape, (0, 4))
        self.assertEqual(len(self.model.predict(pa.table({"length": pa.array([], pa.float64()), "colour": pa.array([], pa.utf8())}))), 0)
