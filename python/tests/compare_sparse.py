"""Compares what the package predicts of sparse rows and texts with what `stagewise predict` wrote. sparse_test.go runs it."""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np
import pandas
import pyarrow as pa
from sklearn.datasets import load_svmlight_file

import stagewise

folder = pathlib.Path(sys.argv[1])
texts = pandas.read_csv(folder / "texts.csv", keep_default_na=False)
counts = load_svmlight_file(str(folder / "rows.libsvm"), zero_based=True)[0]
results = []
for file in sorted(folder.glob("*.model")):
    model = stagewise.load(file)
    written = pandas.read_csv(file.with_suffix(".csv"))
    rows = list(texts["message"]) if file.stem.startswith("text") else counts
    answers = model.predict_proba(rows)
    others = [texts, pa.Table.from_pandas(texts), texts["message"], pa.array(rows)] if rows is not counts else [counts.toarray(), counts.tocsc()]
    for other in others:  # the same rows in other forms
        np.testing.assert_array_equal(model.predict_proba(other), answers)
    results.append({
        "case": file.stem,
        "version": model.version,
        "difference": float(np.abs(answers - written[list(map(str, model.classes_))].to_numpy()).max()),
        "same_labels": bool((model.predict(rows).astype(str) == written["label"].astype(str).to_numpy()).all()),
        "rows": len(answers),
    })
print(json.dumps(results))
