"""Models predict what the program predicts, whoever calls them, and whatever happens to their process."""

import copy
import gc
import gzip
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import joblib
import multiprocessing
import numpy as np
import pandas
import pyarrow as pa
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import stagewise

from . import program

EXAMPLE = pathlib.Path(__file__).parents[2] / "model" / "testdata" / "example.arrow"
PATIENCE = 60  # seconds that something may take which takes milliseconds


def kinds(rows: int = 300) -> pandas.DataFrame:
    """Returns a table with numbers, words and a text, of which some are missing."""
    r = np.random.default_rng(1)
    kind = r.integers(0, 3, rows)
    frame = pandas.DataFrame({"a": kind + r.normal(size=rows), "b": 1.764e9 + 100 * r.normal(size=rows)})
    frame["colour"] = np.where(r.random(rows) < 0.2, None, np.array(["red", "blue", "yellow"])[kind])
    frame["message"] = [" ".join(r.choice(["Straße", "the", f"{k}D", "e-mail"], 4)) for k in kind]
    frame["kind"] = np.array(["iris", "rose", "tulip"])[kind]
    frame.loc[::7, "a"] = np.nan
    return frame


class AsTheProgram(unittest.TestCase):
    """The predictions have the bits that `stagewise predict` writes."""

    def setUp(self) -> None:
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.frame = kinds()
        self.frame.to_csv(f"{self.folder}/rows.csv", index=False)

    def check(self, name: str, rows: object, file: str = "rows.csv", **keys: object) -> None:
        with self.subTest(name):
            model = stagewise.load(program.train(self.folder, name, **keys))
            program.run(self.folder, "predict", "--model", f"{name}.model", "-i", file, "-o", f"{name}.csv")
            written = pandas.read_csv(f"{self.folder}/{name}.csv", keep_default_na=False)
            if not hasattr(model, "classes_"):
                np.testing.assert_array_equal(np.asarray(model.predict(rows)).reshape(len(written), -1), written[list(model.targets_)])
                return
            classes = [str(c) for c in model.classes_]
            np.testing.assert_array_equal(model.predict_proba(rows), written[classes].to_numpy(np.float32))
            predicted = model.predict(rows)
            if predicted.ndim == 2:
                predicted = [";".join(model.classes_[row > 0]) for row in predicted]
            self.assertEqual(list(predicted), list(written.iloc[:, 0]))

    def test_tables(self) -> None:
        examples = {"train": ["rows.csv"], "label": "kind", "categorical": ["colour"], "missing": "mean", "columns": {"drop": ["message"]}}
        shuffled = self.frame[self.frame.columns[::-1]]
        grown = {"features": {"kind": "trees", "size": 64, "leaves": 8}}
        for name, stages in (
            ("rff", [{"features": {"size": 48}}, {"features": {"size": 48}, "link": "calibrated", "scores": True}]),
            ("trees", [grown, {"features": {"size": 48}}, grown]),
        ):
            self.check(name, shuffled, examples=examples, prepare={"scale": "standard"}, stages=stages)
        self.check("average", shuffled, examples=examples, average=2, stages=[{"features": {"size": 48}}])
        several = {**examples, "labels": "several"}
        self.check("several", shuffled, examples=several, stages=[{"features": {"size": 48}, "link": "logistic"}])
        numbers = {**examples, "targets": ["b"], "categorical": ["colour", "kind"]}
        del numbers["label"]
        self.check("numbers", shuffled, examples=numbers, stages=[{"features": {"size": 48}}])

    def test_sparse_rows_and_texts(self) -> None:
        columns = [{"features": {"kind": "columns"}}]
        text = {"train": ["rows.csv"], "text": "message", "label": "kind", "words": {"columns": 1000}}
        self.check("texts", self.frame, examples=text, stages=columns)
        self.check("list", self.frame.message.tolist(), examples=text, stages=columns)
        mixed = {**text, "categorical": ["colour"], "missing": "mean", "columns": {"use": ["a", "b", "colour"]}}
        self.check("mixed", self.frame, examples=mixed, prepare={"hash": {"columns": 64}}, stages=columns)
        r = np.random.default_rng(2)
        matrix = scipy.sparse.random(300, 90, 0.1, format="csr", random_state=3)
        with open(f"{self.folder}/rows.libsvm", "w") as file:
            for row in matrix:
                pairs = " ".join(f"{i}:{v}" for i, v in sorted(zip(row.indices, row.data, strict=True)))
                file.write(f"{r.integers(7, 9) if row.nnz % 2 else 9} {pairs}\n")
        libsvm = {"train": ["rows.libsvm"], "format": "libsvm"}
        for name, rows in (("csr", matrix), ("dense", matrix.toarray()), ("doubled", scipy.sparse.coo_array(matrix).tocsc())):
            self.check(name, rows, "rows.libsvm", examples=libsvm, prepare={"values": "log1p"}, stages=columns)

    def test_many_rows_go_in_parts(self) -> None:
        model = stagewise.load(EXAMPLE)
        rows = np.random.default_rng(1).normal(size=(1 << 20, 2))
        np.testing.assert_array_equal(model.predict_proba(rows)[-3:], model.predict_proba(rows[-3:]))
        with self.assertRaisesRegex(ValueError, r"row 1048570: \+Inf is not a finite float32"):
            model.predict(np.where(np.arange(1 << 20)[:, None] == 1048570, np.inf, rows))


class Files(unittest.TestCase):
    def test_the_example_of_the_format(self) -> None:
        model = stagewise.load(EXAMPLE)
        np.testing.assert_allclose(model.predict_proba([[3, 1]]), [[0.16991901, 0.830081]], atol=1e-6)
        self.assertEqual(list(model.predict([[3, 1], [3, 1.0]])), ["yes", "yes"])
        self.assertEqual((model.name, model.version, list(model.classes_), model.n_features_in_), ("example", 1, ["no", "yes"], 2))
        self.assertRegex(repr(model), "^<stagewise model example, version 1: 2 columns, one of 2 labels>$")

    def test_a_damaged_file_says_so(self) -> None:
        content = EXAMPLE.read_bytes()
        weight = content.find(np.float32([1, -1, 0.5, 0.25, -2]).tobytes())
        for damaged, message in (
            (b"", ""),
            (content[:500], ""),
            (content[:weight] + b"\1" + content[weight + 1 :], "digest"),
            (content.replace(b'"kind":"rff"', b'"kind":"abc"'), "abc"),
            (b"PAR1" + content, ""),
            (gzip.compress(content), ""),
        ):
            with self.subTest(message), tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "damaged.model"
                file.write_bytes(damaged)
                with self.assertRaisesRegex(stagewise.DamagedError, f"damaged.model: .*{message}"):
                    stagewise.load(file)


class ScikitLearn(unittest.TestCase):
    def setUp(self) -> None:
        self.model = stagewise.load(EXAMPLE)
        self.rows = np.random.default_rng(1).normal(size=(60, 2))
        self.labels = self.model.predict(self.rows)

    def test_a_model_is_a_classifier(self) -> None:
        self.assertTrue(is_classifier(self.model))
        self.assertEqual(self.model.get_params(), {})
        self.assertEqual(self.model.score(self.rows, self.labels), 1)
        with self.assertRaisesRegex(ValueError, "depth: a trained model has none"):
            self.model.set_params(depth=3)

    def test_a_model_is_not_fitted_again(self) -> None:
        """Its errors on rows that it has learnt say nothing, so whatever would fit it or a clone says so."""
        for fits in (
            lambda: self.model.fit(self.rows, self.labels),
            lambda: clone(self.model),
            lambda: cross_val_score(make_pipeline(FunctionTransformer(), self.model), self.rows, self.labels, cv=3),
        ):
            with self.assertRaisesRegex(TypeError, r"can't be fitted again.* sklearn.frozen.FrozenEstimator\(model\)"):
                fits()
        frozen = FrozenEstimator(self.model)
        pipeline = make_pipeline(FunctionTransformer(lambda rows: 2 * rows), frozen)
        np.testing.assert_array_equal(pipeline.fit(self.rows, self.labels).predict_proba(self.rows), self.model.predict_proba(2 * self.rows))
        self.assertEqual(cross_val_score(frozen, self.rows, self.labels, cv=3).mean(), 1)
        self.assertEqual(roc_auc_score(self.labels, self.model.predict_proba(self.rows)[:, 1]), 1)

    def test_a_score_compares_labels_as_what_they_are(self) -> None:
        X = np.random.default_rng(1).normal(size=(90, 2))
        truth = np.arange(90) % 3
        X[:, 0] += 20 * truth
        for labels in (["0", "1", "2"], ["0.0", "1.0", "x"], ["false", "true", "x"], ["007", "7", "8"]):
            y = np.array(labels)[truth]
            model = stagewise.StagewiseClassifier(stages=[{"features": {"size": 64}}], prepare={"scale": "standard"}).fit(X, y).model_
            self.assertEqual(model.score(X, y), 1)
            if labels[0][:1] == "0" and labels[1] != "7":
                for same in (truth, truth.astype(float), pandas.Series(truth, dtype=float)):
                    self.assertAlmostEqual(model.score(X, same), 1 if labels[2] == "2" else 2 / 3)
            if labels[0] == "false":
                self.assertEqual(model.score(X[truth < 2], truth[truth < 2] == 1), 1)


class Processes(unittest.TestCase):
    def setUp(self) -> None:
        self.model = stagewise.load(EXAMPLE)
        self.rows = np.random.default_rng(1).normal(size=(3000, 2))
        self.want = self.model.predict_proba(self.rows)

    def predicts(self, model: stagewise.Model | None = None) -> bool:
        return bool(((model or self.model).predict_proba(self.rows) == self.want).all())

    def pid(self) -> int:
        process = self.model._process._process
        assert process is not None
        return process.pid

    def await_end(self, pid: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while alive(pid) and time.monotonic() < deadline:
            gc.collect()
        self.assertFalse(alive(pid))

    def test_copies(self) -> None:
        for other in (pickle.loads(pickle.dumps(self.model)), copy.deepcopy(self.model)):
            self.assertTrue(self.predicts(other))
        self.assertTrue(all(joblib.Parallel(n_jobs=2)(joblib.delayed(self.predicts)() for _ in range(2))))

    def test_threads(self) -> None:
        same: list[bool] = []
        threads = [threading.Thread(target=lambda: same.extend(self.predicts() for _ in range(20))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(same, [True] * 80)

    def test_a_fork_has_a_process_of_its_own(self) -> None:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            self.assertTrue(all((p == self.want).all() for p in pool.map(self.model.predict_proba, [self.rows] * 4)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fork = os.fork()
        if fork == 0:
            os._exit(0 if self.predicts() else 1)
        self.assertEqual(os.waitpid(fork, 0)[1], 0)
        self.assertTrue(self.predicts())

    def test_a_process_that_dies_is_started_anew(self) -> None:
        os.kill(self.pid(), signal.SIGKILL)
        self.assertTrue(self.predicts())

    def test_interrupt(self) -> None:
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            while True:
                self.model.predict_proba(self.rows)
        self.assertTrue(self.predicts())

    def test_the_process_ends_with_the_model_and_with_python(self) -> None:
        pid = self.pid()
        del self.model
        self.await_end(pid)
        tells = "import stagewise, sys; model = stagewise.load(sys.argv[1]); print(model._process._process.pid, flush=True); sys.stdin.read()"
        for end in (lambda other: other.kill(), lambda other: other.stdin.close()):
            with subprocess.Popen([sys.executable, "-c", tells, EXAMPLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
                assert other.stdout is not None
                pid = int(other.stdout.readline())
                end(other)
            self.await_end(pid)

    def test_errors_of_the_process(self) -> None:
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "stagewise").symlink_to("/usr/bin/false")
            for place, message in (("", "does not carry the program stagewise: .* ONNX"), (folder, "stagewise ended with code 1: it said nothing")):
                os.environ["PATH"] = place
                with self.assertRaisesRegex(stagewise.ProgramError, message):
                    stagewise.load(EXAMPLE)


def alive(pid: int) -> bool:
    """Reports whether a process has not ended. One that nobody has waited for has."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
