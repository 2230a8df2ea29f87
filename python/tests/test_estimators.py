"""The estimators: what they take, what they predict, and what they say of wrong input. The program must be on the PATH."""

import contextlib
import math
import os
import pickle
import pty
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas
import polars
import pyarrow as pa
import scipy.sparse
from sklearn.base import clone
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import stagewise
from stagewise import StagewiseClassifier, StagewiseMultiLabelClassifier, StagewiseRegressor

STAGES = [{"features": {"size": 64}}]


def flowers(rows: int = 300) -> tuple[pandas.DataFrame, np.ndarray]:
    """Returns a table with every type of column, and labels that depend on a category and a boolean."""
    r = np.random.default_rng(1)
    frame = pandas.DataFrame({
        "width": r.normal(size=rows), "colour": pandas.Categorical(r.choice(["red", "green", "blue"], rows)),
        "place": r.choice(["hill", "shore"], rows), "wild": r.random(rows) > 0.5, "petals": r.integers(0, 5, rows),
        "code": pandas.Categorical(r.choice([7, 10, 200], rows)),
    })
    frame.loc[::7, "width"] = np.nan
    frame.loc[::11, "colour"] = None
    return frame, np.where((frame.colour == "red").to_numpy() ^ frame.wild.to_numpy(), "yes", "no")


class Inputs(unittest.TestCase):
    def test_tables(self) -> None:
        frame, labels = flowers()
        categories = StagewiseClassifier(stages=STAGES).fit(frame, labels).model_.manifest["columns"]
        self.assertEqual([c["name"] for c in categories if not isinstance(c, str) and c.get("categories")], ["colour", "place", "code"])
        frame = frame.drop(columns="code")  # a category of numbers is one of pandas alone
        want = None
        for rows in (frame, polars.from_pandas(frame), pa.Table.from_pandas(frame), frame.to_dict("records")):
            model = StagewiseClassifier(stages=STAGES, prepare={"scale": "standard"}).fit(rows, labels)
            got = model.predict_proba(frame)
            want = got if want is None else want
            np.testing.assert_allclose(got, want, atol=1e-6)
        self.assertEqual(StagewiseClassifier(stages=STAGES).fit(frame, labels).feature_names_in_.tolist(), frame.columns.tolist())

    def test_arrays(self) -> None:
        X, y = load_iris(return_X_y=True)
        want = StagewiseClassifier().fit(X, y).predict_proba(X)
        for rows in (X.tolist(), X.astype(object), scipy.sparse.csr_array(X)):
            np.testing.assert_allclose(StagewiseClassifier().fit(rows, y).predict_proba(X), want, atol=1e-6)
        masked, filled = (StagewiseClassifier(stages=STAGES).fit(rows, y) for rows in (np.ma.masked_greater(X, 5), np.where(X > 5, np.nan, X)))
        np.testing.assert_array_equal(masked.predict_proba(np.ma.masked_greater(X, 5)), filled.predict_proba(np.where(X > 5, np.nan, X)))
        holes, named = np.where(X > 5, np.nan, X), list("abcd")
        plain = StagewiseClassifier(stages=STAGES).fit(holes, y, X_val=pandas.DataFrame(holes[::2], columns=named), y_val=y[::2])
        self.assertEqual(plain.report_.errors.loc["test", "rows"], 75)
        for rows in (pandas.DataFrame(holes), pandas.DataFrame(holes, columns=named), pa.table(list(holes.T), names=named)):
            with warnings.catch_warnings(action="ignore"):  # the names are not those of the training, which has none
                np.testing.assert_array_equal(plain.predict_proba(rows), plain.predict_proba(holes))
        wide = np.random.default_rng(1).normal(size=(200, 300))
        target = (wide[:, 0] > 0).astype(int)
        for dtype in (np.float32, np.float64):
            model = StagewiseClassifier(stages=STAGES).fit(wide.astype(dtype), target)
            self.assertEqual((model.n_features_in_, model.model_.n_features_in_), (300, 300))

    def test_categorical(self) -> None:
        X, y = load_iris(return_X_y=True)
        rows = np.column_stack([y, X[:, 0]])
        for categorical in ([0], ["x0"], [True, False]):
            model = StagewiseClassifier(stages=STAGES, categorical=categorical).fit(rows, y)
            self.assertEqual(model.model_.manifest["columns"][0]["categories"], ["0", "1", "2"])
        with self.assertRaisesRegex(ValueError, "categorical: 'x9': expected one of the columns x0, x1"):
            StagewiseClassifier(categorical=["x9"]).fit(rows, y)

    def test_sparse_and_texts(self) -> None:
        rows = scipy.sparse.random(300, 2000, 0.02, format="csr", random_state=0)
        y = (np.asarray(rows[:, :50].sum(axis=1)).ravel() > 0.5).astype(int)
        model = StagewiseClassifier().fit(rows, y)
        self.assertGreater(model.score(rows, y), 0.9)
        np.testing.assert_array_equal(model.predict(rows.toarray()), model.predict(rows))
        texts, labels = ["good fine nice"] * 30 + ["bad awful poor"] * 30, ["p"] * 30 + ["n"] * 30
        for given in (texts, np.array(texts), pandas.Series(texts), pa.array(texts)):
            self.assertEqual(StagewiseClassifier().fit(given, labels).predict(["fine", "bad poor"]).tolist(), ["p", "n"])

    def test_labels(self) -> None:
        X, y = load_iris(return_X_y=True)
        for kinds in ([10, 2, -1], ["10", "9", "a"], [1.0, 2.0, 0.0], ["007", "7", "07"], ["NA", "", " x"]):
            labels = np.array(kinds)[y]
            model = StagewiseClassifier().fit(X, labels, X_val=X[::3], y_val=labels[::3])
            self.assertGreater(model.report_.errors.loc["test", "rows"], 40)
            self.assertEqual(model.classes_.tolist(), np.unique(labels).tolist())
            self.assertEqual(model.classes_.dtype, labels.dtype)
            self.assertEqual(model.predict(X).dtype, labels.dtype)
            self.assertGreater(model.score(X, labels), 0.95)
        names = np.array(["a", "b", "c"])[y]
        for given, classes in (
            (pandas.Categorical(names), ["a", "b", "c"]), (pandas.Series(y, dtype="Int64"), [0, 1, 2]), (polars.Series(names.tolist()), ["a", "b", "c"]),
            (pa.array(names.tolist()), ["a", "b", "c"]), (names.tolist(), ["a", "b", "c"]), (pandas.Series(names, name="x1"), ["a", "b", "c"]),
        ):
            model = StagewiseClassifier(stages=STAGES).fit(X, given)
            self.assertEqual((model.classes_.tolist(), type(model.classes_.tolist()[0])), (classes, type(classes[0])))
        booleans = y == 0
        self.assertEqual(StagewiseClassifier().fit(X, booleans).predict(X[:1]).tolist(), [True])

    def test_types_that_arrow_lacks(self) -> None:
        """Numbers are numbers in every order of bytes and width."""
        X, y = load_iris(return_X_y=True)
        frame = pandas.DataFrame(np.rint(10 * X), columns=list("abcd"))
        model = StagewiseClassifier(stages=STAGES, prepare={"scale": "standard"})
        want = model.fit(frame, y).predict_proba(frame)
        for dtype in (">f8", ">f4", ">i4", ">u2", "<i8", "longdouble", np.dtype("longdouble").newbyteorder(">")):
            given = frame.astype(dtype) if np.dtype(dtype).itemsize <= 8 else pandas.DataFrame({name: frame[name].to_numpy().astype(dtype) for name in frame})
            labels = y.astype(dtype)
            self.assertEqual(model.fit(given, labels).model_.manifest["columns"], list("abcd"), dtype)
            np.testing.assert_allclose(model.predict_proba(given), want, atol=1e-5)
            np.testing.assert_allclose(model.predict_proba(frame), want, atol=1e-5)
            self.assertEqual(model.classes_.tolist(), [0, 1, 2])
            np.testing.assert_allclose(model.fit(given.to_numpy().astype(dtype), labels).predict_proba(np.rint(10 * X)), want, atol=1e-5)
        objects = pandas.DataFrame({"a": [Fraction(1, 2), 1] * 75, "b": [Decimal("1.5"), 2.5] * 75, "c": [2**63, -1] * 75, "d": X[:, 2].astype(object)})
        self.assertEqual(model.fit(objects, y).model_.manifest["columns"], list("abcd"))

    def test_intervals(self) -> None:
        frame, labels = flowers()
        for column in (pandas.cut(frame.petals, 3), pandas.cut(frame.petals, 3).array.astype("interval"), pandas.qcut(frame.width, 3)):
            rows = frame.assign(part=column)
            model = StagewiseClassifier(stages=STAGES).fit(rows, labels)
            words = {c["name"]: c.get("categories") for c in model.model_.manifest["columns"] if not isinstance(c, str)}["part"]
            self.assertEqual(sorted(words), sorted(str(part) for part in pandas.Series(column).dropna().unique()))
            self.assertEqual(model.predict(rows).shape, labels.shape)

    def test_labels_of_any_character(self) -> None:
        X, y = load_iris(return_X_y=True)
        for word in ("\U0001f600", "\U00020bb7\u91ce", "\U0001f469\u200d\U0001f4bb", "a\u2028b", "\\ud83d\\ude00", '"', "\uffff"):
            labels = np.array([word, "b", "c"])[y]
            frame = pandas.DataFrame(X, columns=["a", word, "c", "d"])
            model = StagewiseClassifier(stages=STAGES, prepare={"scale": "standard"}, class_weight={word: 2})
            self.assertGreater(model.fit(frame, labels).score(frame, labels), 0.9)
            self.assertGreater(clone(model).partial_fit(frame, labels).score(frame, labels), 0.9)
            self.assertEqual((set(model.classes_), list(model.feature_names_in_)), ({word, "b", "c"}, list(frame.columns)))
        lists = [["\U0001f600"] if label else ["a", "b"] for label in y]
        several = StagewiseMultiLabelClassifier(stages=[{"features": {"size": 64}, "link": "logistic"}]).fit(X, lists)
        self.assertEqual(several.classes_.tolist(), ["a", "b", "\U0001f600"])

    def test_sparse_labels_in_any_order(self) -> None:
        X, y = load_iris(return_X_y=True)
        labels = np.stack([y == 1, y < 2], axis=1).astype(int)
        rows, columns = labels.nonzero()
        order = np.random.default_rng(1).permutation(len(rows))
        shuffled = scipy.sparse.coo_array((np.ones(len(rows), dtype=int), (rows[order], columns[order])), shape=labels.shape)
        model = StagewiseClassifier(stages=[{"features": {"size": 64}, "link": "logistic"}])
        np.testing.assert_array_equal(clone(model).fit(X, shuffled).predict(X), model.fit(X, labels).predict(X))

    def test_class_weight(self) -> None:
        X, y = load_iris(return_X_y=True)
        plain = StagewiseClassifier(stages=STAGES)
        for labels, given in (
            (y, {1: 20}), (y, {1.0: 20.0}), (y, {np.float64(1): 20}), (y, {np.int8(1): np.int8(20)}), (y, {"1": 20}), (y.astype(float), {1: 20}),
            (y.astype("float32"), {1.0: 20}), (np.array([" a", "b ", ""])[y], {"b ": 20}), (np.array(["0", "1", "x"])[y], {"1": 20}),
            (y == 1, {True: 20}), (y == 1, {1: 20}), ((y == 1).astype(int), {True: 20, False: 1}),
        ):
            weighted = clone(plain).set_params(class_weight=given)
            place = np.unique(labels).tolist().index(labels[50])
            rise = weighted.fit(X, labels).predict_proba(X)[:, place].mean() - plain.fit(X, labels).predict_proba(X)[:, place].mean()
            self.assertGreater(rise, 0.01, given)
            self.assertEqual(clone(weighted).partial_fit(X, labels).classes_.tolist(), np.unique(labels).tolist()) if labels[0] != " a" else None
        for given in ({7: 2}, {"x": 2}, {True: 2, 3: 1}):
            with self.assertRaisesRegex(ValueError, "class_weight: .*: expected one of the labels 0, 1, 2$"):
                StagewiseClassifier(stages=STAGES, class_weight=given).fit(X, y)

    def test_several_labels(self) -> None:
        frame, labels = flowers()
        given = np.column_stack([labels == "yes", frame.wild, frame.petals > 2]).astype(int)
        for estimator in (StagewiseMultiLabelClassifier, StagewiseClassifier):
            model = estimator(stages=[{"features": {"size": 512}}], prepare={"scale": "standard"}).fit(frame, given)
            self.assertGreater((model.predict(frame) == given).mean(), 0.9)
            self.assertEqual(model.predict_proba(frame).shape, given.shape)
        lists = [[name for name, has in zip("abc", row, strict=True) if has] for row in given]
        model = StagewiseMultiLabelClassifier(prepare={"scale": "standard"}).fit(frame, lists)
        self.assertEqual(model.classes_.tolist(), ["a", "b", "c"])
        self.assertGreater(np.mean([got == want for got, want in zip(model.labels_of(frame), lists, strict=True)]), 0.5)

    def test_numbers(self) -> None:
        frame, _ = flowers()
        y = 2.0 * frame.petals + frame.wild + 1e9
        model = StagewiseRegressor().fit(frame, y)
        self.assertGreater(model.score(frame, y), 0.99)
        both = pandas.DataFrame({"a": y, "b": -y})
        self.assertEqual(StagewiseRegressor().fit(frame, both).predict(frame).shape, (len(frame), 2))

    def test_sample_weight(self) -> None:
        X, y = load_iris(return_X_y=True)
        weights = np.where(y == 2, 0.0, 1.0)
        self.assertEqual(set(StagewiseClassifier().fit(X, y, weights).predict(X)), {0, 1})



class Refusals(unittest.TestCase):
    def test_sentences_of_the_program(self) -> None:
        X, y = load_iris(return_X_y=True)
        for parameters, sentence in (
            ({"stages": [{"features": {"sise": 3}}]}, "stages.0.features.sise: 3: expected a known key; did you mean size?"),
            ({"prepare": {"scale": "big"}}, 'prepare.scale: "big": expected'),
            ({"settings": {"examples.colour": 1}}, "examples.colour: 1: expected one of the keys"),
            ({"holdout": 2}, "examples.holdout: 2: expected"),
        ):
            with self.assertRaisesRegex(ValueError, "^" + sentence.replace(".", r"\.").replace("?", r"\?")):
                StagewiseClassifier(**parameters).fit(X, y)
        dates = pandas.DataFrame({"t": pandas.date_range("2020-01-01", periods=50)})
        with self.assertRaisesRegex(ValueError, r'^column "t": type timestamp.* with settings\["examples.columns.drop"\]'):
            StagewiseClassifier().fit(dates, [0, 1] * 25)

    def test_values_that_need_a_decision(self) -> None:
        """The error says what the values are, and what to type."""
        frame, labels = flowers()
        long, codes = [10**25 + i for i in range(len(frame))], np.arange(len(frame)) % 3
        as_text, beyond, series = r"astype\(str\)", "int64 does not hold.*astype", r"rows are a Series: .* rows.to_frame\(\).T is a table of one row"
        fitted = StagewiseClassifier(stages=STAGES).fit(frame, labels)
        for do, sentence in (
            (lambda: fitted.fit(frame.assign(id=long), labels), r"'id' has integers of more than 64 bits: astype\(float\) .* astype\(str\)"),
            (lambda: fitted.fit(frame.assign(part=pandas.cut(frame.petals, 3).astype(object)), labels), f"Interval, expected .*{as_text}"),
            (lambda: fitted.fit(frame.assign(z=1j * frame.petals), labels), f"complex, expected .*{as_text}"),
            (lambda: fitted.fit(frame, pandas.cut(frame.petals, 3)), f"labels of type Interval: y.{as_text}"),
            (lambda: fitted.fit(frame, [10**25 + int(code) for code in codes]), beyond),
            (lambda: fitted.fit(frame, codes.astype(np.uint64) + 2**63), beyond),
            (lambda: fitted.fit(frame, np.where(codes, "a", None)), "missing labels"),
            (lambda: fitted.fit(frame, np.array([1, "a"] * 150, dtype=object)), f"labels of type int, str: y.{as_text}"),
            (lambda: fitted.fit(frame[[]], labels), r"0 feature\(s\)"),
            (lambda: fitted.fit(frame.petals, labels), series),
            (lambda: fitted.predict(frame.iloc[0]), series),
            (lambda: fitted.predict(polars.Series([1.0, 2.0])), r"rows.to_frame\(\).transpose\(\) is a table of one row"),
        ):
            with self.subTest(sentence), self.assertRaisesRegex(ValueError, sentence):
                do()

    def test_brokers_that_are_down(self) -> None:
        X, y = load_iris(return_X_y=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = "127.0.0.1:%d" % free.getsockname()[1]
        for brokers, cause in (([address], "connection refused"), ([address, "127.0.0.1:1"], "connection refused"), (["nowhere.invalid:9092"], "nowhere.invalid")):
            model = StagewiseClassifier(stages=STAGES, name="flowers", brokers=brokers)
            for learn in (model.fit, model.update):
                with self.assertRaisesRegex(ConnectionError, f"^reach Kafka at {', '.join(brokers)}: dial tcp.*{cause}") as raised:
                    learn(X, y)
                self.assertIsInstance(raised.exception, stagewise.BrokersError)

    def test_parameters_of_others(self) -> None:
        for estimator in (StagewiseClassifier, StagewiseMultiLabelClassifier, StagewiseRegressor):
            for name, sentence in (("random_state", "set seed"), ("n_jobs", "GOMAXPROCS"), ("n_estimators", "set repeat in stages"), ("learning_rate", "set rate")):
                with self.assertRaisesRegex(TypeError, f"{estimator.__name__} has no parameter {name}: .*{sentence}"):
                    estimator(**{name: 1})

    def test_interrupt(self) -> None:
        """Ctrl-C ends the program, and leaves no folder."""
        X = np.random.default_rng(1).normal(size=(20_000, 50))
        with tempfile.TemporaryDirectory() as folder:
            before, tempfile.tempdir = tempfile.tempdir, folder
            began = threading.Event()

            def interrupt() -> None:
                while {path.name for path in Path(folder).glob("*/*")} <= {"rows.arrow", "configuration.yaml"}:  # the broker is not there
                    if began.wait(0.01):
                        return
                os.kill(os.getpid(), signal.SIGINT)

            self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))  # shells ignore it of what they do beside
            signal.siginterrupt(signal.SIGINT, False)  # as polars does
            watcher = threading.Thread(target=interrupt)
            try:
                watcher.start()
                with self.assertRaises(KeyboardInterrupt):
                    StagewiseClassifier(stages=[{"features": {"size": 2048}, "repeat": 50}]).fit(X, X[:, 0] > 0)
                self.assertEqual(os.listdir(folder), [])
            finally:
                began.set()
                watcher.join()
                tempfile.tempdir = before


class Tools(unittest.TestCase):
    def test_scikit_learn(self) -> None:
        X, y = load_breast_cancer(return_X_y=True)
        model = StagewiseClassifier(stages=STAGES, prepare={"scale": "standard"})
        self.assertGreater(cross_val_score(model, X, y, cv=3).min(), 0.9)
        search = GridSearchCV(model, {"prepare": [{"scale": "standard"}, {"scale": "ranks"}], "stages": [STAGES]}, cv=2).fit(X, y)
        self.assertIn(search.best_params_["prepare"]["scale"], ("standard", "ranks"))
        piped = make_pipeline(StandardScaler(), StagewiseClassifier(stages=STAGES)).fit(X, y)
        self.assertGreater(piped.score(X, y), 0.95)
        self.assertGreater(permutation_importance(piped, X[:100], y[:100], n_repeats=2, random_state=1).importances_mean.max(), 0)
        display = CalibrationDisplay.from_estimator(piped, X, y, n_bins=5)
        self.assertEqual(len(display.prob_true), len(display.prob_pred))

    def test_copies(self) -> None:
        X, y = load_iris(return_X_y=True)
        model = StagewiseClassifier(stages=STAGES, seed=3).fit(X, y)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))
        copied = clone(model)
        self.assertEqual((copied.seed, hasattr(copied, "model_")), (3, False))
        np.testing.assert_array_equal(copied.fit(X, y).predict_proba(X), model.predict_proba(X))

    def test_onnx(self) -> None:
        import onnxruntime

        X, y = load_iris(return_X_y=True)
        model = StagewiseClassifier().fit(X, y)
        session = onnxruntime.InferenceSession(model.to_onnx())
        got = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})
        np.testing.assert_allclose(got[1], model.predict_proba(X), atol=1e-5)

    def test_onnx_of_several_labels_and_of_numbers(self) -> None:
        import onnxruntime

        X, y = load_iris(return_X_y=True)
        several = np.stack([y > 0, X[:, 0] > 5.8], axis=1).astype(int)
        model = StagewiseMultiLabelClassifier(stages=[{"features": {"size": 64}, "link": "logistic"}]).fit(X, several)
        session = onnxruntime.InferenceSession(model.to_onnx())
        given, probabilities = session.run(["given", "probabilities"], {"features": X.astype(np.float32)})
        np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-5)
        self.assertLess((given != model.predict(X).astype(bool)).mean(), 0.01)  # a probability may be at the threshold
        times = 1.7e9 + 1e5 * X[:, 0]
        regressor = StagewiseRegressor(stages=[{"features": {"size": 64}, "link": "identity"}]).fit(X, times)
        session = onnxruntime.InferenceSession(regressor.to_onnx())
        (numbers,) = session.run(["numbers"], {"features": X.astype(np.float32)})
        np.testing.assert_allclose(numbers[:, 0], regressor.predict(X), atol=3)  # of a standard deviation of 82,000

    def test_mlflow(self) -> None:
        import mlflow
        import mlflow.sklearn

        X, y = load_iris(return_X_y=True, as_frame=True)
        model = StagewiseClassifier(stages=STAGES).fit(X, y)
        self.addCleanup(os.environ.pop, "MLFLOW_ALLOW_FILE_STORE", None)
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # a database needs more than mlflow-skinny
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mlflow.set_tracking_uri(Path(folder).as_uri())
            mlflow.set_experiment("flowers")
            with mlflow.start_run():
                mlflow.log_params({key: value for key, value in model.get_params().items() if value is not None})
                mlflow.log_metrics(model.report_.errors.loc["train"].dropna().to_dict())
                logged = mlflow.sklearn.log_model(model, name="model", serialization_format="cloudpickle")
            loaded = mlflow.sklearn.load_model(logged.model_uri)
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


class Reports(unittest.TestCase):
    def test_report(self) -> None:
        X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        model = StagewiseClassifier(stages=[{"features": {"size": 64}, "repeat": 3}], prepare={"scale": "standard"})
        model.fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:])
        report = model.report_
        self.assertEqual(set(report.errors.index), {"train", "test"})
        self.assertAlmostEqual(report.errors.loc["test", "error"], 100 * (1 - model.score(X[400:], y[400:])), places=4)
        self.assertEqual(report.losses.index.tolist(), [1, 2, 3])
        self.assertGreater(len(report.curves), 3)
        self.assertEqual(report.confusion.to_numpy().sum(), len(X) - 400)
        importances = model.feature_importances_
        self.assertEqual(importances.shape, (30,))
        self.assertAlmostEqual(importances.sum(), 1)
        self.assertEqual(len(model.importances(X[400:], y[400:])), 30)
        with tempfile.TemporaryDirectory() as folder:
            frame, labels = flowers()
            kept = StagewiseClassifier(stages=STAGES, prepare={"scale": "standard"}, holdout=0.3, data_dir=f"{folder}/log").fit(frame, labels)
            best = kept.feature_names_in_[np.argsort(kept.feature_importances_)[-2:]]
            self.assertEqual(set(best), {"colour", "wild"})
        with self.assertRaisesRegex(AttributeError, "rows that the model has not learnt"):
            StagewiseClassifier(stages=STAGES).fit(X, y).feature_importances_
        import matplotlib

        matplotlib.use("agg")
        for kind in ("stages", "reliability", "confusion"):
            self.assertTrue(model.plot(kind).has_data())
        with self.assertRaisesRegex(ValueError, "split 'holdout': the report has"):
            model.plot("confusion", "holdout")

    def test_repr(self) -> None:
        X, y = load_iris(return_X_y=True)
        model = StagewiseClassifier(stages=STAGES).fit(X[::2], y[::2], X_val=X[1::2], y_val=y[1::2])
        head, names, *splits = repr(model.report_).splitlines()
        self.assertRegex(head, "^report of model: 75 rows, 1 stages, [0-9.]+ s; keys: name, version, ")
        self.assertEqual(names.split(), ["rows", "error", "loss", "auc"])
        self.assertEqual([row.split()[:2] for row in splits], [["test", "75"], ["train", "75"]])
        model = StagewiseRegressor(stages=STAGES)
        self.assertIn("r2", repr(model.fit(X, y).report_))
        self.assertRegex(repr(model.fit(X, np.stack([y, y], axis=1)).report_), "rmse +r2")
        several = StagewiseMultiLabelClassifier().fit(X, np.stack([y == 1, y < 2], axis=1).astype(int))
        self.assertIn("micro_f1", repr(several.report_))
        chain = StagewiseClassifier(stages=STAGES).partial_fit(X[::2], y[::2]).partial_fit(X[1::2], y[1::2])
        self.assertRegex(repr(chain.report_), "^report of model: 75 rows, prequential error [0-9.]+ %")
        for report in (model.report_, several.report_, chain.report_):
            self.assertLess(len(repr(report)), 600)

    def test_what_is_no_dependency(self) -> None:
        X, y = load_iris(return_X_y=True)
        model = StagewiseClassifier(stages=STAGES).fit(X, y)
        with unittest.mock.patch.dict(sys.modules, {"pandas": None, "matplotlib": None, "matplotlib.pyplot": None}):
            for do, name in ((lambda: model.report_.errors, "pandas"), (lambda: model.importances(X, y), "pandas"), (model.plot, "pandas|matplotlib")):
                with self.assertRaisesRegex(ImportError, f"this needs ({name}): pip install 'stagewise\\[plots\\]'"):
                    do()

    def test_staged(self) -> None:
        frame, labels = flowers()
        grown = {"features": {"kind": "trees", "size": 64, "leaves": 8}}
        for estimator, y in ((StagewiseClassifier, labels), (StagewiseRegressor, frame.petals)):
            model = estimator(stages=[*STAGES, grown, grown], prepare={"scale": "ranks"}).fit(frame, y)
            staged = list(model.staged_predict(frame))
            self.assertEqual((len(staged), model.n_iter_), (3, 3))
            np.testing.assert_array_equal(staged[-1], model.predict(frame))
        model = StagewiseClassifier(stages=[*STAGES, {**STAGES[0], "link": "identity"}, {**STAGES[0], "link": "calibrated"}]).fit(frame, labels)
        losses = [-np.log(p[np.arange(len(frame)), (labels == "yes").astype(int)].clip(1e-6)).mean() for p in model.staged_predict_proba(frame)]
        reported = model.report_["stages"]
        self.assertAlmostEqual(losses[0], reported[0]["train_loss"], places=4)
        np.testing.assert_array_equal(list(model.staged_predict_proba(frame))[-1], model.predict_proba(frame))
        errors = [100 * np.mean(p != labels) for p in model.staged_predict(frame)]
        np.testing.assert_allclose(errors, [s["train_error"] for s in reported], atol=0.4)

    def test_progress(self) -> None:
        """Whoever watches sees what a long run does, in a line that goes when it ends; others see nothing."""
        program = (
            "import sys, io, stagewise.program; from stagewise import StagewiseClassifier; from sklearn.datasets import load_iris\n"
            "stagewise.program._SECONDS_UNTIL_SHOWN = 0\n"
            "class OutStream(io.StringIO): __module__ = 'ipykernel.iostream'\n"
            "{}\n"
            "StagewiseClassifier(verbose={}, stages=[{{'features': {{'size': 64}}}}]).fit(*load_iris(return_X_y=True))\n"
            "sys.__stderr__.write(sys.stderr.getvalue() if isinstance(sys.stderr, io.StringIO) else '')"
        )
        shown = r"^\rstagewise: 0 s, .*\r *\r$"
        for stream, verbose, terminal, want in (
            ("sys.stderr = OutStream()", None, False, shown), ("sys.stderr = io.StringIO()", None, False, "^$"), ("", None, True, shown), ("", None, False, "^$"),
            ("", 0, True, "^$"), ("sys.stderr = io.StringIO()", 1, False, "150 train rows; 4 features; 3 classes"), ("", 1, True, "150 train rows"), ("import threading; threading.main_thread = threading.Thread", None, True, "^$"),
        ):
            with self.subTest(stream=stream, verbose=verbose, terminal=terminal):
                ours, theirs = pty.openpty() if terminal else os.pipe()
                with open(ours, "rb", 0) as said:
                    subprocess.run([sys.executable, "-c", program.format(stream, verbose)], stderr=theirs, check=True)
                    os.close(theirs)
                    parts = []
                    with contextlib.suppress(OSError):  # Linux's end of a terminal
                        while part := said.read(4096):
                            parts.append(part)
                self.assertRegex(b"".join(parts).decode(), re.compile(want, re.DOTALL))


class Chains(unittest.TestCase):
    def test_update(self) -> None:
        r = np.random.default_rng(1)
        X = r.normal(size=(900, 4))
        y = np.array(["a", "b", "c"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0)]
        model = StagewiseClassifier(stages=STAGES)
        scores = [model.update(X[i : i + 300], y[i : i + 300]) for i in (0, 300, 600)]
        self.assertTrue(np.isnan(scores[0]))
        self.assertGreater(min(scores[1:]), 0.8)
        self.assertEqual(model.model_.manifest["window_rows"], 900)
        self.assertEqual(model.classes_.tolist(), ["a", "b", "c"])
        for without in (pickle.loads(pickle.dumps(model)), StagewiseClassifier(stages=STAGES).fit(X[:300], y[:300])):  # the rows are gone
            for update in (without.update, without.partial_fit):
                with self.assertWarnsRegex(UserWarning, "the chain begins with these rows, .* set data_dir before it") as warned:
                    update(X[:600], y[:600])
                self.assertEqual(warned.filename, __file__)
                self.assertGreater(without.update(X[600:], y[600:]), 0.8)
                self.assertEqual(without.model_.manifest["window_rows"], 900)
                without.fit(X[:300], y[:300])
        with tempfile.TemporaryDirectory() as folder:
            kept = StagewiseClassifier(stages=STAGES, data_dir=f"{folder}/log").fit(X[:300], y[:300])
            kept.partial_fit(X[300:], y[300:])
            self.assertEqual(kept.model_.manifest["window_rows"], 900)
            chosen = StagewiseClassifier(data_dir=f"{folder}/chosen").fit(X[:300], y[:300])
            settled = [{key: chosen.model_.manifest["plan"][key] for key in ("stages", "prepare")}]
            chosen.update(X[300:], y[300:])
            settled.append({key: chosen.model_.manifest["plan"][key] for key in ("stages", "prepare")})
            self.assertEqual(*settled)
        scaled = X * [1, 1000, 1e-3, 1]
        model = StagewiseClassifier().partial_fit(scaled, y)
        self.assertGreater(model.score(scaled, y), 0.9)

    def test_labels_of_a_chain(self) -> None:
        X, y = load_iris(return_X_y=True)
        labels = np.array([" a", "b", "c"])[y]
        with tempfile.TemporaryDirectory() as folder:
            model = StagewiseClassifier(stages=STAGES, data_dir=folder).fit(X, labels)
            for some in (slice(None), labels == "b"):
                model.update(X[some], labels[some])
                self.assertEqual(model.classes_.tolist(), [" a", "b", "c"])
                self.assertGreater(model.score(X, labels), 0.9)
            with self.assertRaisesRegex(ValueError, "labels of a chain"):
                model.update(X, np.array([" a", "b", "d"])[y])
        # Booleans, numbers and texts are other labels: they are refused before their rows are learnt. Smaller integers are not.
        model = StagewiseClassifier(stages=STAGES)
        model.update(X, y + 300)
        with self.assertRaisesRegex(ValueError, "labels of type bool, and the model of type int64"):
            model.update(X, y > 1)
        model.update(X[y < 2], y[y < 2].astype(np.uint8))
        self.assertEqual((model.classes_.dtype, model.classes_.max()), (np.int64, 302))

    def test_rows_without_labels_are_counted(self) -> None:
        r = np.random.default_rng(1)
        X = r.normal(size=(600, 4))
        y = np.array(["a", "b"])[(X[:, 0] > 0).astype(int)].astype(object)
        y[300:304] = "null"
        y[304:307] = "NaN"
        model = StagewiseClassifier(stages=STAGES)
        model.update(X[:300], y[:300])
        with self.assertWarnsRegex(UserWarning, "^7 rows are not learnt, because they have no label") as warned:
            model.update(X[300:], y[300:])
        self.assertEqual(warned.filename, __file__)
        self.assertEqual(model.classes_.tolist(), ["a", "b"])
        self.assertTrue(math.isnan(model.update(X[300:], y[300:])))  # the same rows count once, and no version is made
        X[X[:, 0] > 1, 0], y = 1e20, np.where(X[:, 0] > 0, "a", "b")
        with self.assertWarnsRegex(UserWarning, f"^{(X[:, 0] > 1).sum()} rows are not learnt, because they have values that are too large") as warned:
            StagewiseClassifier(stages=STAGES).fit(X, y)
        self.assertEqual(warned.filename, __file__)

    def test_the_folder_goes(self) -> None:
        X, y = load_iris(return_X_y=True)
        model = StagewiseRegressor().partial_fit(X, y)
        folder = model._chain.name
        self.assertTrue(os.path.isdir(folder))
        del model
        deadline = time.monotonic() + 10
        while os.path.isdir(folder) and time.monotonic() < deadline:
            import gc

            gc.collect()
        self.assertFalse(os.path.isdir(folder))
