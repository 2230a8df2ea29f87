import copy
import pathlib
import pickle
import tempfile
import unittest

import numpy as np
import pyarrow as pa
from sklearn.base import clone, is_classifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import stagewise
from stagewise.model import Model
from stagewise.tensors import Tensor

from .models import linear

MODELS = pathlib.Path(__file__).parents[3] / "model" / "testdata"


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
        self.assertIs(clone(self.model), self.model)
        self.assertIs(self.model.fit(self.rows, self.labels), self.model)
        self.assertEqual((self.model.get_params(), self.model.n_features_in_), ({}, 3))
        self.assertFalse(hasattr(self.model, "feature_names_in_"))
        self.assertEqual(list(linear(["x", "y", "z"]).feature_names_in_), ["x", "y", "z"])
        with self.assertRaisesRegex(ValueError, "depth: a trained model has none"):
            self.model.set_params(depth=3)

    def test_a_model_is_the_last_step_of_a_pipeline(self) -> None:
        pipeline = make_pipeline(FunctionTransformer(lambda rows: 2 * rows), self.model)
        np.testing.assert_array_equal(pipeline.predict(self.rows), self.labels)
        np.testing.assert_array_equal(pipeline.predict_proba(self.rows), self.model.predict_proba(2 * self.rows))
        self.assertEqual(pipeline.fit(self.rows, self.labels).score(self.rows, self.labels), 1)
        self.assertEqual(list(pipeline.classes_), ["a", "b", "c"])
        self.assertEqual(cross_val_score(self.model, self.rows, self.labels, cv=3).mean(), 1)

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
