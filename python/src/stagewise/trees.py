"""Stages of trees: leaves as features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import links
from .errors import DamagedError
from .members import Members
from .task import Task
from .tensors import Matrix, Tensor, shaped

KIND = "trees"

# The tensors of a stage's trees, in the order of its record.
STRUCTURE = ("tree_sizes", "tree_orders", "tree_ranks", "tree_compared", "tree_cuts", "tree_lefts")

_CODES = 256
_MOST_WORDS = 254  # of a column that have codes
_MOST_LEAVES = 64

Codes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


class Coder:
    """Turns raw rows (n × d) into what trees compare: a code for each column of the table (n × c)."""

    def __init__(self, tensors: Mapping[str, Tensor], width: int) -> None:
        self.features: list[int] = []  # of each column
        self._edges: list[Matrix] = []  # of each column
        edges = shaped(tensors, "edges", -1)
        for column, (features, count) in enumerate(shaped(tensors, "bins", -1, 2).tolist()):
            if not (1 <= features <= width and features.is_integer() and 0 <= count <= len(edges) and count.is_integer()):
                raise DamagedError(f"column {column} has {features} features and {count} edges")
            own, edges = edges[: int(count)], edges[int(count) :]
            if np.isnan(own).any() or (own[1:] <= own[:-1]).any():
                raise DamagedError(f"column {column} has edges that do not ascend")
            self.features.append(int(features))
            self._edges.append(own)
        if sum(self.features) != width or len(edges):
            raise DamagedError(f"the bins are of {sum(self.features)} features, expected {width}, and {len(edges)} edges too many")

    def codes(self, raw: Matrix) -> Codes:
        """Returns the codes of rows. A missing value is NaN."""
        codes = np.zeros((len(raw), len(self.features)), dtype=np.uint8)
        first = 0
        for column, (features, edges) in enumerate(zip(self.features, self._edges, strict=True)):
            if features == 1:
                values = raw[:, first]
                codes[:, column] = np.where(np.isnan(values), 0, 1 + np.searchsorted(edges, values))
            else:
                words = raw[:, first : first + min(features - 1, _MOST_WORDS)] > 0
                codes[:, column] = np.where(words.any(axis=1), 1 + words.argmax(axis=1), 0)
            first += features
        return codes


@dataclass(frozen=True)
class Leaves:
    """A block of indicators of leaves, and perhaps a column of ones: which column of each tree is 1."""

    columns: Integers  # n × T
    ones: bool

    def __matmul__(self, weights: Matrix) -> Matrix:
        product: Matrix = weights[self.columns].sum(axis=1, dtype=np.float32)
        return product + weights[-1] if self.ones else product


class TreeBlock:
    """Makes the columns that the weights of a stage multiply: indicators of leaves, and a column of ones."""

    def __init__(self, plan: Mapping[str, Any], number: int, coder: Coder | None, structure: Mapping[str, Tensor]) -> None:
        stage = plan["stages"][number]
        self.link = links.named(stage["link"])
        self.project = Task.of(plan).project
        self.basis = stage.get("basis") or [1, 2, 3]
        size, leaves = int(stage["features"]["size"]), int(stage["features"]["leaves"])
        if coder is None:
            raise DamagedError(f"stage {number}: features of kind trees: the bins of columns are absent")
        if not 2 <= leaves <= _MOST_LEAVES or size < leaves or size % leaves:
            raise DamagedError(f"stage {number}: {size} leaves of trees with {leaves} each")
        if stage["scores"]:
            raise DamagedError(f"stage {number}: scores with features of kind trees")
        self._intercept = bool(plan["intercept"]) and Members(plan).begins(number)
        self.size = size + self._intercept  # p
        self._read(structure, leaves, size // leaves, coder)

    def _read(self, structure: Mapping[str, Tensor], leaves: int, trees: int, coder: Coder) -> None:
        sizes = _whole(structure, "tree_sizes", leaves, trees)
        self._orders = _whole(structure, "tree_orders", len(coder.features))
        self._ranks = _whole(structure, "tree_ranks", _CODES).astype(np.uint8)
        if len(self._ranks) % _CODES or len(self._ranks) > _CODES * len(self._orders):
            raise DamagedError(f"{len(self._ranks)} ranks of {len(self._orders)} orders")
        self._ranks = self._ranks.reshape(-1, _CODES)
        self._numbers = len(self._orders) - len(self._ranks)  # orders without ranks
        words = np.array(coder.features, dtype=np.int64)[self._orders] > 1
        if words[: self._numbers].any() or not words[self._numbers :].all():
            raise DamagedError("orders with ranks must be of columns of words, and others of numbers")
        nodes = int(sizes.sum())
        self._compared = _whole(structure, "tree_compared", len(self._orders), nodes)
        self._cuts = _whole(structure, "tree_cuts", _CODES, nodes)
        lefts = _whole(structure, "tree_lefts", leaves, nodes).tolist()
        # A child is a node, or a leaf: the number of all nodes and that of the leaf's column.
        self._roots = np.empty(trees, dtype=np.int64)
        self._left, self._right = np.empty(nodes, dtype=np.int64), np.empty(nodes, dtype=np.int64)
        first = 0
        for tree, count in enumerate(sizes.tolist()):
            parts = [(first, tree * leaves, count)]  # a node, its leftmost leaf, and how many nodes there are
            self._roots[tree] = first if count else nodes + tree * leaves
            while parts:
                node, leaf, count = parts.pop()
                if not count:
                    continue
                left = lefts[node]
                right = count - 1 - left
                if right < 0:
                    raise DamagedError(f"node {node} has {left} nodes on its left side, and there are {count} with it")
                self._left[node] = node + 1 if left else nodes + leaf
                self._right[node] = node + 1 + left if right else nodes + leaf + left + 1
                parts += [(node + 1, leaf, left), (node + 1 + left, leaf + left + 1, right)]
            first += int(sizes[tree])

    def expand(self, codes: Codes, _: Matrix) -> Leaves:
        """Returns the block of rows, given their codes."""
        ranks = codes[:, self._orders]
        for order, table in enumerate(self._ranks, self._numbers):
            ranks[:, order] = table[ranks[:, order]]
        at, nodes = np.tile(self._roots, (len(codes), 1)), len(self._cuts)
        while (inner := at < nodes).any():
            row = np.nonzero(inner)[0]
            node = at[inner]
            at[inner] = np.where(ranks[row, self._compared[node]] <= self._cuts[node], self._left[node], self._right[node])
        return Leaves(at - nodes, self._intercept)


def _whole(structure: Mapping[str, Tensor], name: str, below: int, count: int = -1) -> Integers:
    """Returns the numbers of a tensor, which must be whole and less than that."""
    values = shaped(structure, name, count)
    if not ((values >= 0) & (values < below) & (values == np.floor(values))).all():
        raise DamagedError(f"tensor {name!r} has a value that is none of 0 to {below - 1}")
    return values.astype(np.int64)
