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
_AT_ONCE = 1 << 14  # pairs of a row and a node: their bits fit into the cache of a core

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

    columns: Integers  # T × n
    ones: bool

    def __matmul__(self, weights: Matrix) -> Matrix:
        product: Matrix = weights[self.columns].sum(axis=0, dtype=np.float32)
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
        compared = _whole(structure, "tree_compared", len(self._orders), nodes)
        cuts = _whole(structure, "tree_cuts", _CODES, nodes)
        lefts = _whole(structure, "tree_lefts", leaves, nodes).tolist()
        # As in QuickScorer (Lucchese et al., SIGIR 2015): the leaves of a tree are the bits of a number, from the left. A row whose rank exceeds the cut
        # of a node leaves those on the left side of it; of the leaves that remain, the first is the row's.
        sides = np.empty(nodes, dtype=_bits_for(leaves))
        first = 0
        for count in sizes.tolist():
            parts = [(first, 0, count)]  # a node, its leftmost leaf, and how many nodes there are
            first += count
            while parts:
                node, leaf, count = parts.pop()
                if not count:
                    continue
                left = lefts[node]
                right = count - 1 - left
                if right < 0:
                    raise DamagedError(f"node {node} has {left} nodes on its left side, and there are {count} with it")
                sides[node] = (1 << left + 1) - 1 << leaf
                parts += [(node + 1, leaf, left), (node + 1 + left, leaf + left + 1, right)]
        # The first node of each tree, then the second …; a tree without so many has one that leaves nothing.
        at = np.concatenate([np.arange(count) for count in sizes]), np.repeat(np.arange(trees), sizes)
        self._compared, self._cuts, self._sides = (
            np.zeros((int(sizes.max()), trees, *last), dtype) for last, dtype in (((), np.int64), ((1,), np.uint8), ((1,), sides.dtype))
        )
        self._compared[at], self._cuts[at], self._sides[at] = compared, cuts[:, None], sides[:, None]
        self._leftmost = leaves * np.arange(trees)[:, None]  # the column of each tree's first leaf

    def expand(self, codes: Codes, _: Matrix) -> Leaves:
        """Returns the block of rows, given their codes."""
        ranks = codes.T[self._orders]
        for order, table in enumerate(self._ranks, self._numbers):
            ranks[order] = table[ranks[order]]
        kind = self._sides.dtype.type
        left = np.zeros((len(self._leftmost), len(codes)), dtype=kind)
        step = max(1, _AT_ONCE // max(1, left.size))
        for first in range(0, len(self._sides), step):
            some = slice(first, first + step)
            right = (ranks[self._compared[some]] > self._cuts[some]).astype(kind)
            np.negative(right, out=right)
            right &= self._sides[some]
            left |= right[0] if step == 1 else np.bitwise_or.reduce(right)
        bit = ~left & (left + kind(1))  # the first that remains
        return Leaves(np.frexp(bit.astype(np.float64))[1] - 1 + self._leftmost, self._intercept)


def _bits_for(leaves: int) -> Any:
    """Returns the smallest type that has a bit for each leaf."""
    return next(kind for kind in (np.uint8, np.uint16, np.uint32, np.uint64) if leaves <= np.iinfo(kind).bits)


def _whole(structure: Mapping[str, Tensor], name: str, below: int, count: int = -1) -> Integers:
    """Returns the numbers of a tensor, which must be whole and less than that."""
    values = shaped(structure, name, count)
    if not ((values >= 0) & (values < below) & (values == np.floor(values))).all():
        raise DamagedError(f"tensor {name!r} has a value that is none of 0 to {below - 1}")
    return values.astype(np.int64)
