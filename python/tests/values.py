"""Prints in which values the package reads something else than the program. values_test.go runs it."""

from __future__ import annotations

import json
import math
import pathlib
import sys
from typing import Any

from stagewise.values import number_of, word_of


def number(value: Any) -> float | None:
    """Returns the finite number that a value is; None if it is none."""
    if not isinstance(value, str):
        return None if isinstance(value, bool) else float(value)
    try:
        found = number_of(value)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


different = []
for known in json.loads(pathlib.Path(sys.argv[1]).read_text()):
    value = known["value"]
    if isinstance(value, int) and not isinstance(value, bool):
        value = float(value)  # JSON of Go writes 1 for 1.0
    if word_of(value) != known["word"]:
        different.append(f"{value!r} is the word {word_of(value)!r}, expected {known['word']!r}")
    if number(value) != (None if known["number"] is None else float(known["number"])):
        different.append(f"{value!r} is the number {number(value)}, expected {known['number']}")
print(json.dumps(different))
