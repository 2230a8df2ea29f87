import unittest
from typing import Any

import numpy as np

import stagewise
from stagewise.model import Model
from stagewise.stage import Pass
from stagewise.tensors import digest_of

from .models import linear, plan_of, preparation_of


def average(count: int, stages: int, temperature: float | None = None) -> Model:
    """Returns a model of so many members, as the plan says. Stage i has a score of i + 1 times feature c for class c, and all have the temperature."""
    preparation = preparation_of()
    weights = [(i + 1) * np.eye(3, dtype=np.float32) for i in range(stages)]
    manifest: dict[str, Any] = {"name": "average", "version": 1, "run": "run", "plan": {**plan_of(["softmax"] * stages), "average": count}}
    if temperature is not None:
        for stage in manifest["plan"]["stages"]:
            stage["temperature"] = temperature
    manifest["weights_digest"] = digest_of([*weights, *preparation.values()])
    return Model(manifest, preparation, [[Pass(one)] for one in weights])


class Members(unittest.TestCase):
    def test_a_model_predicts_the_mean_of_its_members(self) -> None:
        rows = np.random.default_rng(1).normal(size=(50, 3)).astype(np.float32)
        for stages, scales in ((2, (1, 2)), (4, (1 + 2, 3 + 4))):  # of each member, over its stages
            want = sum(linear(scale=scale).predict_proba(rows) for scale in scales) / 2
            np.testing.assert_allclose(average(2, stages).predict_proba(rows), want, atol=1e-6)

    def test_scores_of_a_member_are_divided_by_its_temperature(self) -> None:
        rows = np.random.default_rng(2).normal(size=(50, 3)).astype(np.float32)
        for stages, scales in ((2, (1, 2)), (4, (1 + 2, 3 + 4))):
            want = sum(linear(scale=scale / 2.5).predict_proba(rows) for scale in scales) / 2
            np.testing.assert_allclose(average(2, stages, 2.5).predict_proba(rows), want, atol=1e-6)
        one = average(1, 3, 2.5)
        np.testing.assert_array_equal(list(one.staged(rows))[-1], one.predict_proba(rows))
        with self.assertRaisesRegex(stagewise.DamagedError, "temperatures"):
            average(1, 2, -1)

    def test_members_have_as_many_stages(self) -> None:
        for count, stages in ((2, 3), (3, 2), (-1, 2)):
            with self.assertRaisesRegex(stagewise.DamagedError, "as many stages of each member"):
                average(count, stages)
