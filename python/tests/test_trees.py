"""Trees of tables with numbers and words."""

import unittest
from collections.abc import Callable
from typing import Any

import numpy as np

import stagewise
from stagewise.model import Model
from stagewise.stage import Pass
from stagewise.tensors import Tensor, digest_of
from stagewise.trees import STRUCTURE, Coder

from .models import LABELS, plan_of

LEAVES = 5
TREES = 4
FEATURES = [1, 4, 1, 300]  # of each column: the last has more words than codes
EDGES = [[-1, 0, 0.5], [0, 1], [], list(range(253))]


def _forest(random: np.random.Generator, leaves: int) -> dict[str, Tensor]:
    """Returns trees without nodes, with 1, 3, and as many as fit, as STRUCTURE names them."""
    sizes = [0, 1, 3, leaves - 1]
    compared, cuts, lefts = [], [], []

    def grow(nodes: int) -> None:
        if nodes:
            left = int(random.integers(nodes))
            compared.append(int(random.integers(5)))
            cuts.append(int(random.integers(5 if compared[-1] < 2 else 256)))
            lefts.append(left)
            grow(left)
            grow(nodes - 1 - left)

    for size in sizes:
        grow(size)
    ranks = np.concatenate([random.permutation(256) for _ in range(3)])
    values = (sizes, [0, 2, 1, 1, 3], ranks, compared, cuts, lefts)
    return {name: np.array(v, dtype=np.float32) for name, v in zip(STRUCTURE, values, strict=True)}


def _parts(random: np.random.Generator, leaves: int = LEAVES) -> dict[str, Any]:
    """Returns what a model of two stages of trees is made of."""
    width = sum(FEATURES)
    plan = plan_of(["softmax", "softmax"])
    plan["intercept"] = True
    for stage in plan["stages"]:
        stage["features"] = {"kind": "trees", "size": leaves * TREES, "leaves": leaves}
    preparation: dict[str, Tensor] = {
        "center": np.zeros(width, dtype=np.float32),
        "scale": np.ones(width, dtype=np.float32),
        "spread": np.ones(1, dtype=np.float32),
        "bins": np.array([[n, len(e)] for n, e in zip(FEATURES, EDGES, strict=True)], dtype=np.float32),
        "edges": np.array(sum(EDGES, []), dtype=np.float32),
        "labels": LABELS,
    }
    weights = [random.normal(size=(leaves * TREES + one, 3)).astype(np.float32) for one in (1, 0)]
    return {"plan": plan, "preparation": preparation, "weights": weights, "structures": [_forest(random, leaves), _forest(random, leaves)]}


def _model(parts: dict[str, Any], before: Model | None = None) -> Model:
    content = [t for s, w in zip(parts["structures"], parts["weights"], strict=True) for t in (*s.values(), w)]
    manifest = {"name": "trees", "version": 1, "run": "run", "plan": parts["plan"], "columns": None}
    manifest["weights_digest"] = digest_of([*content, *parts["preparation"].values()])
    return Model(manifest, parts["preparation"], [[Pass(w)] for w in parts["weights"]], before, parts["structures"])


def _rows(random: np.random.Generator, count: int) -> np.ndarray:
    rows = np.zeros((count, sum(FEATURES)), dtype=np.float32)
    rows[:, 0], rows[:, 5] = random.choice([-2, -1, -0.5, 0, 0.3, 0.5, 7, np.nan], count), random.normal(size=count)
    for first, words in ((1, 4), (6, 300)):
        rows[np.arange(count), first + random.integers(words, size=count)] = 1
    rows[::7, 1:5] = np.nan  # a missing word
    return rows


def _code(column: int, values: np.ndarray) -> int:
    if FEATURES[column] == 1:
        return 0 if np.isnan(values[0]) else 1 + sum(edge < values[0] for edge in EDGES[column])
    return next((1 + place for place, v in enumerate(values[: min(FEATURES[column] - 1, 254)]) if v > 0), 0)


def _score(structure: dict[str, np.ndarray], weights: np.ndarray, codes: list[int], leaves: int) -> np.ndarray:
    """Returns the sum of the weights of the leaves of a row, node by node."""
    score, first = np.zeros(3), 0
    orders, ranks = structure["tree_orders"].astype(int), structure["tree_ranks"].astype(int)
    for tree, size in enumerate(structure["tree_sizes"].astype(int)):
        node, nodes, leaf = first, size, 0
        while nodes:
            order, left = int(structure["tree_compared"][node]), int(structure["tree_lefts"][node])
            rank = codes[orders[order]]
            if order >= 2:
                rank = ranks[256 * (order - 2) + rank]
            if rank <= structure["tree_cuts"][node]:
                node, nodes = node + 1, left
            else:
                node, nodes, leaf = node + 1 + left, nodes - 1 - left, leaf + left + 1
        score += weights[tree * leaves + leaf]
        first += size
    return score


class Trees(unittest.TestCase):
    def test_predictions_are_those_of_a_descent(self) -> None:
        random = np.random.default_rng(1)
        for leaves in (4, 5, 8, 9, 16, 31, 32, 33, 63, 64):
            parts = _parts(random, leaves)
            rows = _rows(random, 60)
            ends = np.cumsum([0, *FEATURES])
            scores = []
            for row in rows:
                codes = [_code(j, row[ends[j] : ends[j + 1]]) for j in range(len(FEATURES))]
                scores.append(sum(_score(s, w, codes, leaves) for s, w in zip(parts["structures"], parts["weights"], strict=True)) + parts["weights"][0][-1])
            powers = np.exp(np.array(scores) - np.max(scores, axis=1, keepdims=True))
            want = powers / powers.sum(axis=1, keepdims=True)
            for times in (1, 100):  # nodes are compared all at once, or a few at a time
                got = _model(parts).predict_proba(np.tile(rows, (times, 1)))
                np.testing.assert_allclose(got, np.tile(want, (times, 1)), atol=1e-5)

    def test_a_version_shares_trees_only_if_they_are_the_same(self) -> None:
        random = np.random.default_rng(2)
        parts = _parts(random)
        before, rows = _model(parts), _rows(random, 9)
        same = _model({**parts, "weights": [2 * w for w in parts["weights"]]}, before)
        self.assertIs(same._stages[0].block, before._stages[0].block)
        np.testing.assert_array_equal(_model(parts, before).predict_proba(rows), before.predict_proba(rows))
        other = {**parts, "structures": [_forest(random, LEAVES), _forest(random, LEAVES)]}
        np.testing.assert_array_equal(_model(other, before).predict_proba(rows), _model(other).predict_proba(rows))

    def test_impossible_numbers_are_damage(self) -> None:
        def at(name: str, value: float, place: int = 0) -> Callable[[dict[str, Any]], None]:
            def change(parts: dict[str, Any]) -> None:
                parts["structures"][1][name][place] = value

            return change

        def bins(value: float, place: int) -> Callable[[dict[str, Any]], None]:
            def change(parts: dict[str, Any]) -> None:
                parts["preparation"]["bins"].reshape(-1)[place] = value

            return change

        changes: list[Callable[[dict[str, Any]], None]] = [
            at(name, value, place) for name in STRUCTURE for value in (-1, 0.5, 256, 1e9, np.nan, np.inf) for place in (0, -1)
        ]
        changes += [at("tree_sizes", LEAVES), at("tree_sizes", 1), at("tree_orders", 1), at("tree_orders", 0, -1), at("tree_compared", 5)]
        changes += [at("tree_lefts", 1), at("tree_lefts", LEAVES - 1, -1)]
        changes += [bins(value, place) for value in (-1, 0.5, 1e9, np.nan, np.inf) for place in range(8)]
        changes += [
            lambda parts: parts["preparation"].pop("bins"),
            lambda parts: parts["preparation"].pop("edges"),
            lambda parts: parts["preparation"]["edges"].__setitem__(1, -5),
            lambda parts: parts["preparation"]["edges"].__setitem__(1, np.nan),
            lambda parts: parts["plan"]["stages"][1].__setitem__("scores", True),
            lambda parts: parts["plan"]["stages"][1]["features"].__setitem__("leaves", 3),
            lambda parts: parts["plan"]["stages"][1]["features"].__setitem__("leaves", 1),
            *(lambda parts, name=name: parts["structures"][1].pop(name) for name in STRUCTURE),
            *(lambda parts, name=name: parts["structures"][1].__setitem__(name, parts["structures"][1][name][:-1]) for name in STRUCTURE),
            lambda parts: parts["structures"][1].clear(),
        ]
        for number, change in enumerate(changes):
            parts = _parts(np.random.default_rng(3))
            change(parts)
            with self.subTest(number), self.assertRaises(stagewise.DamagedError):
                _model(parts)

    def test_words_without_a_code(self) -> None:
        tensors: dict[str, Tensor] = {"bins": np.array([[300, 253]], dtype=np.float32), "edges": np.arange(253, dtype=np.float32)}
        codes = Coder(tensors, 300).codes(np.vstack([np.eye(300), np.zeros((1, 300)), np.full((1, 300), np.nan)]).astype(np.float32))
        self.assertEqual(codes[:, 0].tolist(), [*range(1, 255), *[0] * 46, 0, 0])
