"""Prints what a model predicts for rows, or null where the package refuses one. rows_test.go runs it."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pandas

import stagewise


def probabilities(model: stagewise.Model, row: dict[str, Any]) -> list[float] | None:
    try:
        return [float(p) for p in model.predict_proba(pandas.DataFrame([row]))[0]]
    except ValueError:
        return None


model = stagewise.load(sys.argv[1])
print(json.dumps([probabilities(model, row) for row in json.loads(pathlib.Path(sys.argv[2]).read_text())]))
