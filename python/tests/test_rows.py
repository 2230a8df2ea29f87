"""Rows of every kind that Python has reach the program as what they are."""

import json
import pathlib
import tempfile
import unittest
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import scipy.sparse

import stagewise
from stagewise import StagewiseClassifier

from . import program

CASES = pathlib.Path(__file__).parents[2] / "cmd" / "stagewise" / "testdata" / "values.json"
COLUMNS = [{"features": {"kind": "columns"}}]
LENGTHS, COLOURS = [1.5, None, 3.0, 4.0], ["red", "blue", "green", None]
CONTENT = {"colour": COLOURS, "other": ["x"] * 4, "length": LENGTHS}
FEATURES = [[1.5, 0, 0, 1, 0], [np.nan, 1, 0, 0, 0], [3, 0, 1, 0, 0], [4, *[np.nan] * 4]]


def fitted(missing: str | None = None) -> stagewise.Model:
    frame = pandas.DataFrame({"length": LENGTHS * 15, "colour": COLOURS * 15})
    frame = frame.fillna({"length": 0, "colour": "red"}) if missing else frame
    return StagewiseClassifier(stages=COLUMNS, missing=missing).fit(frame, list("abca") * 15).model_


class Tables(unittest.TestCase):
    model: stagewise.Model

    @classmethod
    def setUpClass(cls) -> None:
        cls.model = fitted()
        cls.want = cls.model.predict_proba(pa.table(CONTENT))

    def test_columns_are_found_by_name(self) -> None:
        frame = pandas.DataFrame(CONTENT)
        whatever = frame.assign(x=[object(), 1, "a", b"b"])
        for rows in (
            pa.RecordBatch.from_pydict(CONTENT),
            frame,
            frame.astype({"colour": "category"}),
            polars.DataFrame(CONTENT),
            *(polars.DataFrame(CONTENT).with_columns(polars.col("colour").cast(kind)) for kind in (polars.Categorical, polars.Enum(["green", "red", "blue"]))),
            [{"length": length, "colour": colour} for length, colour in zip(LENGTHS, COLOURS, strict=True)],
            [{"colour": "red", "length": 1.5}, {"colour": "blue"}, {"length": "3", "colour": "green", "x": []}, {"length": 4}],
            pa.table({"length": ["1.5", "NA", " 3", "4"], "colour": [" red", "blue", "green", "NaN"]}),
            whatever,
            pandas.concat([whatever, whatever[["x"]]], axis=1),
            polars.DataFrame({**CONTENT, "x": [object()] * 4}),
        ):
            with self.subTest(type(rows)):
                np.testing.assert_array_equal(self.model.predict_proba(rows), self.want)

    def test_an_array_has_the_columns_in_their_order(self) -> None:
        flat = [None if np.isnan(v) else v for row in FEATURES for v in row]
        for rows in (
            FEATURES,
            np.array(FEATURES),
            pandas.DataFrame(FEATURES),
            np.ma.masked_invalid(np.array(FEATURES)),
            np.array(list(zip(LENGTHS, COLOURS, strict=True)), dtype=object),
            [list(row) for row in zip(LENGTHS, COLOURS, strict=True)],
            pa.table({"label": list("abcd"), "features": pa.FixedSizeListArray.from_arrays(pa.array(flat, pa.float32()), 5)}),
        ):
            np.testing.assert_array_equal(self.model.predict_proba(rows), self.want)

    def test_durations_are_seconds(self) -> None:
        rows = pandas.DataFrame({"length": pandas.to_timedelta(LENGTHS, "s"), "colour": COLOURS})
        np.testing.assert_array_equal(self.model.predict_proba(rows), self.want)

    def test_no_rows(self) -> None:
        self.assertEqual(self.model.predict_proba(np.empty((0, 5))).shape, (0, 3))
        self.assertEqual(len(self.model.predict(pa.table({"length": pa.array([], pa.float64()), "colour": pa.array([], pa.utf8())}))), 0)

    def test_a_path_is_within_a_column(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/rows.jsonl", "w") as file:
                for i in range(60):
                    file.write(json.dumps({"user": {"age": i % 7}, "label": "yes" if i % 7 > 3 else "no"}) + "\n")
            examples = {"train": ["rows.jsonl"], "columns": {"use": ["user.age"]}}
            model = stagewise.load(program.train(folder, "m", examples=examples, stages=COLUMNS))
        want = model.predict_proba([[5.0], [1.0]])
        self.assertNotEqual(*want[:, 0])
        for rows in (pa.table({"user": [{"age": 5}, {"age": 1}]}), [{"user": {"age": 5}}, {"user": {"age": 1}}], pandas.DataFrame({"user.age": [5, 1]})):
            np.testing.assert_array_equal(model.predict_proba(rows), want)

    def test_errors_say_what_was_expected(self) -> None:
        series = pandas.Series({"length": 1.5, "colour": "red"})
        bad: list[tuple[Any, str]] = [
            (pa.table({"length": [1.0]}), 'missing columns that the model needs: "colour"'),
            (pa.table({"length": ["long"], "colour": ["red"]}), 'column "length": row 0: "long" is not a number'),
            (pa.table({"length": [1.0], "colour": [[1.5]]}), r'column "colour": a list of numbers'),
            (pandas.DataFrame({"length": pandas.to_datetime(["2026-01-01"]), "colour": ["red"]}), r'column "length": type timestamp'),
            (np.array([[1, 2, 3, 4]], dtype="timedelta64[s]"), "rows of type timedelta64"),
            (pandas.DataFrame({"length": [1.0, object()], "colour": ["red", "red"]}), "row 1, column 'length': <object .* is a object, expected a text, a number"),
            (pandas.DataFrame([[1.0, "red", 2.0]], columns=["length", "colour", "length"]), "the table has 2 columns 'length'"),
            (pa.table({"features": [[1.0, 2, 3, 4, 5], [1.0]]}), 'column "features": row 1: .*5'),
            ([{"plan": "basic"}], "none of the columns that the model needs: length, colour; it has plan"),
            ([{"length": 1.0}, [1, 2]], "rows of 1, 2 values: expected as many in each row"),
            ({"length": 1.5, "colour": "red"}, r"rows are a dict: expected a table, or a list of rows. \[row\] is a list of one row"),
            (series, r"rows are a Series: .* rows.to_frame\(\).T is a table of one row"),
            (polars.Series([1.0, 2.0]), r"rows are a Series: .* rows.to_frame\(\).transpose\(\) is"),
            (polars.LazyFrame({"length": [1.0]}), r"rows.collect\(\) is a table"),
            (None, "rows are None: expected a table, or a list of rows"),
            ("red", "rows are 'red': expected a table"),
            ((row for row in [[1, 2]]), "rows are of type generator: expected a table"),
            (scipy.sparse.eye(4).tocsr(), r"a sparse matrix, but the model was trained on dense rows: rows.toarray\(\)"),
            ([[1, 2, 3]], "rows of 3 values, expected the 2 columns of the training, length, colour, or their 5 features"),
            ([1, 2, 3, 4], r"rows of shape \(4,\), expected two dimensions: \[rows\] is a list of one row"),
            (np.array([1, 2, 3, 4]), r"rows of shape \(4,\), expected two dimensions: \[rows\] is a list of one row"),
            ([object()], r"rows of shape \(1,\), expected two dimensions"),
            ([{"length": 1e39, "colour": "red"}], 'column "length": row 0: 1e.39 is not a finite float32'),
            (pandas.DataFrame([[1.0, "red"]], columns=pandas.MultiIndex.from_tuples([("a", "length"), ("a", "colour")])), "a column named .'a', 'length'.: expected texts"),
            (pandas.DataFrame([[1.0, "red"]], columns=["length", 1]), "a column named 1: expected texts as names"),
            (np.zeros((2, 2, 2)), r"two dimensions: rows.reshape\(len\(rows\), -1\)"),
            ([], r"rows of shape \(0,\)"),
            ([[1, 2, 3, 4], [1, 2]], "rows of 2, 4 values: expected as many in each row"),
            (np.array([[1, 2, 3, 4j]]), "rows of type complex128: expected numbers or texts"),
            ([[1, 2, 3, 4, 1e39]], "row 0: 1e.39 is not a finite float32"),
        ]
        for rows, message in bad:
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                self.model.predict(rows)
        with self.assertRaisesRegex(ValueError, 'column "length": row 1: a missing value: the model was trained with examples.missing: error'):
            fitted("error").predict(pa.table({"length": [1, None], "colour": ["red", "blue"]}))
        np.testing.assert_array_equal(self.model.predict_proba(series.to_frame().T), self.want[:1])


class Texts(unittest.TestCase):
    def test_texts(self) -> None:
        texts, labels = ["good fine", "bad poor", "good", "bad"] * 10, list("pnpn") * 10
        model = StagewiseClassifier(stages=COLUMNS).fit(texts, labels).model_
        content = {"other": range(40), "text": texts}
        want = model.predict_proba(texts)
        for rows in (
            pandas.DataFrame(content), polars.DataFrame(content), pa.table(content), [{"text": text} for text in texts],
            pandas.Series(texts), polars.Series(texts), pa.array(texts), np.array(texts), tuple(texts),
        ):
            np.testing.assert_array_equal(model.predict_proba(rows), want)
        for wrong, message in (
            (["one", 2], "row 1: 2 is no text"), (polars.DataFrame({"body": ["one"]}), "none of the columns that the model needs: text; it has body"),
            (None, "rows are None"), ("a text", "rows are 'a text': expected a table"), (["one", "\ud800"], "surrogates not allowed"),
        ):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                model.predict(wrong)


class Values(unittest.TestCase):
    def test_only_the_program_has_rules_of_values(self) -> None:
        for file in pathlib.Path(stagewise.__file__).parent.glob("*.py"):
            code = file.read_text()
            for rule in ('"NA"', '"nan"', '"True"', "input.missing", "fromisoformat", "strptime", "hashlib", "_kafka", "float(text", "softmax"):
                if (file.name, rule) != ("mlflow.py", "fromisoformat"):  # the time of a version
                    self.assertNotIn(rule, code, file.name)

    def test_values(self) -> None:
        """The cases of the ways in (docs/values.md) have the predictions that the program has of a CSV, or are refused."""
        usual = {"size": 3.5, "paid": 1.0, "code": "2", "sent": "true", "colour": "red", "day": "2026-11-02 09:30"}
        cases = json.loads(CASES.read_text())
        with tempfile.TemporaryDirectory() as folder:
            orders(200).to_csv(f"{folder}/orders.csv", index=False)
            pandas.DataFrame([{**usual, "paid": 1, **case.get("want", {})} for case in cases]).to_csv(f"{folder}/wanted.csv", index=False)
            examples = {
                "train": ["orders.csv"], "label": "kind", "categorical": ["code", "sent", "colour"], "missing": "mean",
                "times": {"day": {"parts": ["hour", "weekday"], "unit": "s"}}, "missing_values": ["NA", "NaN", "-999", "1900-01-01", "0.7"],
            }
            model = stagewise.load(program.train(folder, "orders", examples=examples, prepare={"scale": "standard"}, stages=COLUMNS))
            program.run(folder, "predict", "--model", "orders.model", "-i", "wanted.csv", "-o", "predicted.csv")
            wanted = pandas.read_csv(f"{folder}/predicted.csv").iloc[:, 1:].to_numpy(np.float32)
        for case, want in zip(cases, wanted, strict=True):
            row = {name: value for name, value in {**usual, **case.get("row", {})}.items() if name != case.get("absent")}
            with self.subTest(case["name"]):
                if "python" in case.get("not_in", []):
                    continue
                if case.get("refused") or "python" in case.get("refused_by", []):
                    with self.assertRaises(ValueError):
                        model.predict_proba(pandas.DataFrame([row]))
                else:
                    np.testing.assert_array_equal(model.predict_proba(pandas.DataFrame([row]))[0], want)


def orders(rows: int) -> pandas.DataFrame:
    """Returns a table of numbers, booleans, words and times, some of which are missing."""
    i = np.arange(rows)
    return pandas.DataFrame({
        "size": np.where(i % 11 == 3, "NA", (i % 7).astype(str)), "paid": np.where(i // 3 % 2, "False", "True"), "code": 1 + i // 2 % 3,
        "sent": np.where(i // 5 % 2, "False", "True"), "colour": np.array(["red", "grün", "blue"])[i % 3],
        "day": [f"2026-11-{1 + k % 14:02} {k % 6 * 4:02}:30" for k in i], "kind": np.array(["stop", "go", "wait"])[(i + i // 2) % 3],
    })
