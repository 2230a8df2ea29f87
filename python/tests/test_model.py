import copy
import gzip
import pathlib
import pickle
import tempfile
import unittest

import numpy as np
import pandas
import pyarrow as pa
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import confusion_matrix, roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import stagewise
from stagewise.model import Model
from stagewise.tensors import Tensor

from .models import linear

MODELS = pathlib.Path(__file__).parents[2] / "model" / "testdata"


class Files(unittest.TestCase):
    def test_the_example_of_the_format(self) -> None:
        model = stagewise.load(MODELS / "example.arrow")
        want = [[0.16991901, 0.830081], [0, 1]]
        np.testing.assert_allclose(model.predict_proba([[3, 1], [0, np.nan]]), want, atol=1e-6)
        self.assertEqual(list(model.predict([[3, 1], [0, np.nan]])), ["yes", "yes"])
        self.assertEqual((model.name, model.version, list(model.classes_)), ("example", 1, ["no", "yes"]))

    def test_a_damaged_file_says_so(self) -> None:
        content = (MODELS / "example.arrow").read_bytes()
        reader = pa.ipc.open_stream(content)
        table = reader.read_all()
        other = pa.BufferOutputStream()
        with pa.ipc.new_stream(other, table.schema.remove_metadata()) as writer:
            writer.write_table(table)
        weight = content.find(np.float32([1, -1, 0.5, 0.25, -2]).tobytes())
        for damaged, message in (
            (b"", "no Arrow stream"),
            (content[:500], "Arrow stream"),
            (other.getvalue().to_pybytes(), "without a manifest"),
            (content[:weight] + b"\1" + content[weight + 1 :], "the weights have digest [0-9a-f]{12}, the manifest says 5cebe5036849"),
            (content.replace(b'"kind":"rff"', b'"kind":"abc"'), "features of kind 'abc', expected one of columns, .*: install"),
            (content.replace(b'"blocks"', b'"blicks"'), "damaged manifest"),
            (b"ARROW1\0\0" + content, "an Arrow file that is no stream"),
            (b"PAR1" + content, "a Parquet file"),
            (gzip.compress(content), "a gzip file: decompress it"),
            (b"\x10\0\0\0\0\0\0\0" + b'{"labels": []}  ', "a safetensors file: weights export writes a model file with --format arrow"),
            (b"\x08\x08\x12\tstagewise" + content, "an ONNX file: weights export writes"),
        ):
            with self.subTest(message), tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "damaged.model"
                file.write_bytes(damaged)
                with self.assertRaisesRegex(stagewise.DamagedError, f"damaged.model: .*{message}"):
                    stagewise.load(file)

    def test_no_damage_goes_unnoticed_or_is_another_error(self) -> None:
        """Any one byte may be another, or the file may end anywhere."""
        content = (MODELS / "example.arrow").read_bytes()
        whole = stagewise.load(MODELS / "example.arrow")
        rows = [[3, 1], [0, np.nan]]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "damaged.model"
            for at in range(len(content)):
                for damaged in (content[:at], content[:at] + bytes([content[at] ^ 0x41]) + content[at + 1 :]):
                    file.write_bytes(damaged)
                    try:
                        model = stagewise.load(file)
                    except stagewise.DamagedError:
                        continue
                    if model.manifest["plan"] == whole.manifest["plan"]:  # the digest is not over the manifest
                        np.testing.assert_array_equal(model.predict_proba(rows), whole.predict_proba(rows))


class ScikitLearn(unittest.TestCase):
    def setUp(self) -> None:
        self.model = linear()
        self.rows = np.random.default_rng(1).normal(size=(60, 3))
        self.labels = np.array(list("abc"))[self.rows.argmax(axis=1)]

    def test_a_model_is_a_classifier(self) -> None:
        self.assertTrue(is_classifier(self.model))
        self.assertEqual((self.model.get_params(), self.model.n_features_in_), ({}, 3))
        self.assertFalse(hasattr(self.model, "feature_names_in_"))
        self.assertEqual(list(linear(["x", "y", "z"]).feature_names_in_), ["x", "y", "z"])
        with self.assertRaisesRegex(ValueError, "depth: a trained model has none"):
            self.model.set_params(depth=3)

    def test_a_model_is_not_fitted_again(self) -> None:
        """Its errors on rows that it has learnt say nothing, so whatever would fit it or a clone says so."""
        for fits in (
            lambda: self.model.fit(self.rows, self.labels),
            lambda: clone(self.model),
            lambda: cross_val_score(self.model, self.rows, self.labels, cv=3),
            lambda: cross_val_score(make_pipeline(FunctionTransformer(), self.model), self.rows, self.labels, cv=3),
            lambda: make_pipeline(FunctionTransformer(), self.model).fit(self.rows, self.labels),
        ):
            with self.assertRaisesRegex(TypeError, r"can't be fitted again.* sklearn.frozen.FrozenEstimator\(model\)"):
                fits()

    def test_a_frozen_model_is_a_step_of_whatever_scikit_learn_has(self) -> None:
        frozen = FrozenEstimator(self.model)
        pipeline = make_pipeline(FunctionTransformer(lambda rows: 2 * rows), frozen)
        np.testing.assert_array_equal(pipeline.fit(self.rows, self.labels).predict(self.rows), self.labels)
        np.testing.assert_array_equal(pipeline.predict_proba(self.rows), self.model.predict_proba(2 * self.rows))
        self.assertEqual(pipeline.score(self.rows, self.labels), 1)
        self.assertEqual(list(pipeline.classes_), ["a", "b", "c"])
        self.assertEqual(cross_val_score(frozen, self.rows, self.labels, cv=3).mean(), 1)

    def test_whole_labels_are_numbers(self) -> None:
        model = linear(width=2, labels=["0", "1"], label_type="int64")
        rows, truth = self.rows[:, :2], self.rows[:, :2].argmax(axis=1)
        self.assertEqual((model.classes_.dtype, list(model.classes_), model.predict(rows).dtype), (np.int64, [0, 1], np.int64))
        np.testing.assert_array_equal(model.predict(rows), truth)
        frozen = FrozenEstimator(model)
        for scoring in ("accuracy", "roc_auc", "neg_log_loss", "neg_brier_score", "f1", "average_precision"):
            scores = cross_val_score(frozen, rows, truth, cv=3, scoring=scoring)
            self.assertTrue(np.isfinite(scores).all(), f"{scoring}: {scores}")
        self.assertEqual(cross_val_score(frozen, rows, truth, cv=3).mean(), 1)
        self.assertEqual(roc_auc_score(truth, model.predict_proba(rows)[:, 1]), 1)
        np.testing.assert_array_equal(confusion_matrix(truth, model.predict(rows), labels=model.classes_), np.diag(np.bincount(truth)))

    def test_other_labels_stay_texts(self) -> None:
        for labels in (["007", "7", "8"], ["0", "1", "2"]):  # the second as a version of an earlier release
            model = linear(labels=labels)
            self.assertEqual((model.classes_.dtype.kind, list(model.classes_)), ("U", labels))
        for labels, kind in ((["0", "1", "x"], "int64"), (["0", "1", "9" * 30], "int64"), (["0", "1", "2"], "decimal")):
            with self.subTest(labels), self.assertRaises(stagewise.DamagedError):
                linear(labels=labels, label_type=kind)

    def test_a_score_compares_labels_as_what_they_are(self) -> None:
        truth = np.array([0, 1, 2, 1])
        rows = np.eye(3)[truth]
        for model in (linear(labels=["0", "1", "2"], label_type="int64"), linear(labels=["0", "1", "2"]), linear(labels=["0.0", "1.0", "2.0"])):
            for y in (truth, truth.astype(float), truth.astype(np.float32), truth.astype(str), truth.astype(object), list(truth), pandas.Series(truth, dtype=float)):
                if model.classes_[0] != "0.0" or np.asarray(y).dtype.kind != "U":  # the texts 0 and 0.0 are two labels
                    self.assertEqual(model.score(rows, y), 1, f"{model.classes_} and {y!r}")
            self.assertEqual(model.score(rows, [0.0, 1.5, 2.0, np.nan]), 0.5)
        boolean = linear(width=2, labels=["false", "true"])
        self.assertEqual(boolean.score(np.eye(2), [False, True]), 1)
        self.assertEqual(linear(width=2, labels=["0", "1"], label_type="int64").score(np.eye(2), [False, True]), 1)
        self.assertEqual(linear(labels=["007", "7", "8"]).score(np.eye(3), ["007", "7", "8"]), 1)
        self.assertEqual(self.model.score(self.rows, self.labels), 1)

    def test_a_model_can_be_copied_to_another_process(self) -> None:
        for other in (pickle.loads(pickle.dumps(self.model)), copy.deepcopy(self.model)):
            np.testing.assert_array_equal(other.predict_proba(self.rows), self.model.predict_proba(self.rows))


class Versions(unittest.TestCase):
    def test_a_version_shares_the_draws_of_the_one_before_it(self) -> None:
        before, after = linear(), linear(scale=2)
        next_one = Model(after.manifest, after_tensors(after), [s.passes for s in after._stages], before)
        self.assertIs(next_one._stages[0].block, before._stages[0].block)
        rows = np.eye(3)
        np.testing.assert_array_equal(next_one.predict_proba(rows), after.predict_proba(rows))
        other_seed = copy.deepcopy(after.manifest)
        other_seed["plan"]["seed"] = 2
        anew = Model(other_seed, after_tensors(after), [s.passes for s in after._stages], before)
        self.assertIsNot(anew._stages[0].block, before._stages[0].block)

    def test_many_rows_are_predicted_a_part_at_a_time(self) -> None:
        rows = np.random.default_rng(1).normal(size=(2000, 3))
        model = linear()
        one_by_one = np.vstack([model.predict_proba(row[np.newaxis]) for row in rows])
        np.testing.assert_allclose(model.predict_proba(rows), one_by_one, atol=1e-6)


def after_tensors(model: Model) -> dict[str, Tensor]:
    p = model._preparation
    return {"center": p._center, "scale": p._scale, "spread": np.float32([p.spread]), "labels": p.labels}
