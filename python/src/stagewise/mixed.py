"""Mixed rows: numbers, texts and words that are hashed, side by side in one sparse row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .rows import refuse, table_of
from .sparse import SparseLayout, SparseRows, from_csr
from .table import Layout
from .values import Missing, word_of
from .words import hash_of

_EXPECTED = "expected a table with the columns of the training"


class MixedLayout:
    """Which columns of a table become which columns of a row: numbers first, then those of the text, then those of words."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        options = manifest["plan"]["input"]
        width = len(manifest.get("columns") or [])
        self._numbers = Layout(manifest, width) if width else None
        self.columns = self._numbers.columns if self._numbers else []
        self._texts = SparseLayout(manifest) if options.get("text") else None
        self._text: str = options.get("text") or ""
        self._names: list[str] = list(options.get("categorical") or []) if options.get("hash") else []
        hashed = options.get("hash") or {"columns": 1}
        self._hashes: int = hashed["columns"]
        self._crosses = [[name] for name in self._names] + list(hashed.get("cross") or [])
        self._first_word = width
        self._first_hashed = width + (options["word_columns"] if self._text else 0)
        self._may_miss = manifest["plan"]["missing"] != "error"
        self._missing = Missing(options.get("missing_values"))
        of_numbers = self._numbers.sources if self._numbers else []
        self.sources = [*of_numbers, *self._names, *([self._text] if self._text else [])]

    def features(self, rows: Any) -> SparseRows:
        """Returns the rows of a table, or of a matrix of scipy with all columns as the program has them."""
        if hasattr(rows, "tocsr"):
            return from_csr(rows.tocsr())
        refuse(rows)
        table = table_of(rows, self.sources)
        if table is None:
            raise ValueError(f"rows without names of columns: {_EXPECTED}: {', '.join(self.sources)}")
        if absent := [name for name in self.sources if name not in table.columns]:
            raise ValueError(f"the table lacks columns that the model needs: {', '.join(absent)}; it has {', '.join(map(str, table.names))}")
        numbers = self._numbers.features(rows) if self._numbers else np.zeros((table.rows, 0), np.float32)
        texts = self._texts.features(["" if t is None else t for t in table.columns[self._text].to_pylist()]) if self._texts else None
        words = {name: self._words(name, table.columns[name].to_pylist()) for name in self._names}
        starts, columns, values = [0], [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        for row in range(table.rows):
            own = np.flatnonzero(numbers[row])  # NaN is a missing number
            columns.append(own)
            values.append(numbers[row, own])
            if texts is not None:
                text = slice(texts.starts[row], texts.starts[row + 1])
                columns.append(texts.columns[text] + self._first_word)
                values.append(texts.values[text])
            counts = self._hashed(row, words)
            columns.append(np.array(sorted(counts), np.int64))
            values.append(np.array([counts[c] for c in sorted(counts)], np.float32))
            starts.append(starts[-1] + sum(len(part) for part in columns[-3 if texts is not None else -2 :]))
        return SparseRows(np.array(starts, np.int64), np.concatenate(columns), np.concatenate(values))

    def _words(self, name: str, values: list[Any]) -> list[str]:
        words = []
        for row, value in enumerate(values):
            missing = self._missing.has(value)
            if missing and not self._may_miss:
                raise ValueError(f"row {row}, column {name!r}: a missing value, but the model was trained with examples.missing: error")
            words.append("" if missing else word_of(value))
        return words

    def _hashed(self, row: int, words: Mapping[str, list[str]]) -> dict[int, int]:
        counts: dict[int, int] = {}
        for names in self._crosses:
            if all(words[name][row] for name in names):
                text = b"".join(part.encode() + b"\0" for name in names for part in (name, words[name][row]))
                column = self._first_hashed + hash_of(text) % self._hashes
                counts[column] = counts.get(column, 0) + 1
        return counts
