"""Prints in which times the package reads something else than the program. times_test.go runs it."""

import json
import sys

import numpy as np
import pyarrow as pa
from stagewise.table import _each
from stagewise.times import PARTS, times_of
from stagewise.values import Missing

with open(sys.argv[1]) as f:
    cases = json.load(f)

different = []
for case in cases:
    column = pa.chunked_array([[case["value"]]])
    try:
        times = times_of(column, lambda number, column=column: _each("at", column, number), Missing([""]), case["unit"])
        parts = {name: float(times.part(name)[0]) for name in PARTS}
    except ValueError:
        parts = None
    if parts != case["parts"] and not (parts and all(np.isnan(v) for v in parts.values()) and case["value"] == ""):
        different.append(f"{case['value']!r} in {case['unit']}: {parts}, in Go {case['parts']}")
print(json.dumps(different))
