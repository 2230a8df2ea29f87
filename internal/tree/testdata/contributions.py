"""Writes shap.json: random trees, rows, and what the columns add to the rows' scores in the trees as shap computes it.

    pip install shap==0.51.0 && python contributions.py
"""

import json
import os
import random

import numpy as np
import shap

COLUMNS, OUTPUTS, LEAVES, ROWS = 16, 2, (2, 9, 24, 32, 32), 24
CHAIN = 24  # leaves of the last tree, whose left sides are leaves
draw = random.Random(5)


class Tree:
    """A tree with its nodes in preorder. Rows whose code is up to the cut go left."""

    def __init__(self, leaves, chain=False):
        self.chain = chain
        self.columns, self.cuts, self.lefts, self.covers, self.weights = [], [], [], [], []
        # of shap: nodes and leaves in preorder
        self.sides, self.nodes = ([], []), []
        self.grow(leaves, [(0, 255)] * COLUMNS)

    def grow(self, leaves, codes):
        """Adds a subtree of so many leaves, to which rows of these codes come, and returns its number for shap and its cover."""
        at = len(self.nodes)
        self.nodes.append(None)
        for side in self.sides:
            side.append(-1)
        if leaves == 1:
            self.covers.append(draw.randrange(5, 500))
            self.weights.append([float(np.float32(draw.gauss(0, 1))) for _ in range(OUTPUTS)])
            self.nodes[at] = (-2, -2.0, self.weights[-1], self.covers[-1])
            return at, self.covers[-1]
        column = draw.choice([j for j, (low, high) in enumerate(codes) if low < high])
        low, high = codes[column]
        cut, left = draw.randrange(low, high), 1 if self.chain else draw.randrange(1, leaves)
        for values, value in ((self.columns, column), (self.cuts, cut), (self.lefts, left - 1)):
            values.append(value)
        cover = 0
        for side, (n, own) in enumerate(((left, (low, cut)), (leaves - left, (cut + 1, high)))):
            self.sides[side][at], more = self.grow(n, codes[:column] + [own] + codes[column + 1 :])
            cover += more
        self.nodes[at] = (column, float(cut), [0.0] * OUTPUTS, cover)
        return at, cover

    def of_shap(self):
        features, thresholds, values, covers = (np.array(of) for of in zip(*self.nodes))
        left, right = (np.array(side) for side in self.sides)
        return {"children_left": left, "children_right": right, "children_default": left, "features": features, "thresholds": thresholds,
                "values": values.astype(float), "node_sample_weight": covers.astype(float)}


def main():
    trees = [Tree(leaves) for leaves in LEAVES] + [Tree(CHAIN, chain=True)]
    rows = np.array([[draw.randrange(256) for _ in range(COLUMNS)] for _ in range(ROWS)])
    explainer = shap.TreeExplainer({"trees": [tree.of_shap() for tree in trees]}, feature_perturbation="tree_path_dependent")
    values = explainer.shap_values(rows.astype(float), check_additivity=False)
    assert values.shape == (ROWS, COLUMNS, OUTPUTS)
    trees = [{name: getattr(tree, name) for name in ("columns", "cuts", "lefts", "covers", "weights")} for tree in trees]
    with open(os.path.join(os.path.dirname(__file__), "shap.json"), "w") as f:
        parts = {"trees": trees, "rows": rows.tolist(), "base": list(explainer.expected_value), "values": values.tolist()}
        f.write("{" + ",\n".join(f'"{name}":{json.dumps(part)}' for name, part in parts.items()) + "}\n")


if __name__ == "__main__":
    main()
