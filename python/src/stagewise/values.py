"""How values are read, as the program reads them: numbers, and the words of columns of words.

A number in a column of words is the word of its shortest form: 1 and 1.0 are the word 1. Booleans are the words true and false. A text is its own
word, so 007 and 1E2 stay as they are; only "1.0", as pandas writes the whole number 1, is the word 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")  # also as other programs than JSON's write them
_INFINITY = re.compile(r"[+-]?(inf|infinity)", re.IGNORECASE)
_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0)?")  # also as pandas writes it
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_MOST_WHOLE = 1 << 53  # the largest whole number up to which float64 has all


class Missing:
    """The values that mean a missing one: empty text, and those that a configuration lists, else those of data frames and spreadsheets."""

    def __init__(self, spellings: Iterable[str] | None) -> None:
        texts = [text.strip() for text in spellings or ("NA", "N/A", "NaN", "nan", "null", "NULL")]
        self.texts = texts
        self._words = {"", *map(word_of, texts)}
        numbers = [float(text) for text in texts if _NUMBER.fullmatch(text) or _INFINITY.fullmatch(text)]
        self.numbers = np.array([v for number in numbers for v in (number, float(np.float32(number)))])  # also as float32 rounds them

    def has(self, value: Any) -> bool:
        """Says whether a value of a column of words is missing."""
        return value is None or value != value or isinstance(value, str) and value.strip() in self._words or word_of(value) in self._words

    def has_number(self, value: Any) -> bool:
        """Says whether a value of a column of numbers or times is missing: "-999.0" and -999 are if -999 is. A boolean is not 0 or 1 here."""
        if isinstance(value, str):
            return self.has(value) or bool(_NUMBER.fullmatch(value.strip())) and float(value) in self.numbers
        return value != value or not isinstance(value, bool | np.bool_) and value in self.numbers

    def leave_out(self, numbers: Any) -> Any:
        """Returns numbers with NaN in place of missing ones."""
        return np.where(np.isin(numbers, self.numbers), np.nan, numbers) if self.numbers.size else numbers


def number_of(text: str) -> float:
    """Returns the number that a text says. The error is a ValueError."""
    text = text.strip()
    if text in _BOOLEANS:
        return float(_BOOLEANS[text])
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def word_of(value: Any) -> str:
    """Returns the word of a value of a column of words. The error is a TypeError."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return _word_of_number(float(value))
    if isinstance(value, str):
        return _word_of_text(value)
    raise TypeError(f"{value!r} is a {type(value).__name__}, expected a text, a number or a boolean")


def spellings(value: Any) -> list[str]:
    """Returns the words that a model may have for a value of a column of words, likeliest first.

    There are several for models that were trained when words were kept as their files had them.
    """
    word = word_of(value)
    found = [value.strip(), word] if isinstance(value, str) else [word]
    if word in _BOOLEANS:
        found += ["1", "True", "TRUE"] if _BOOLEANS[word] else ["0", "False", "FALSE"]
    return found


def _word_of_text(text: str) -> str:
    text = text.strip()
    if text in _BOOLEANS:
        return "true" if _BOOLEANS[text] else "false"
    match = _WHOLE.fullmatch(text)
    if not match:
        return text
    return "0" if match[1] == "-0" else match[1]


def _word_of_number(number: float) -> str:
    """Returns the shortest decimal form that no other number of its precision has, without a point if the number is whole.

    A number that float32 has is taken to be one. The form is that of the verb %g of Go.
    """
    if number == 0:
        return "0"
    if not math.isfinite(number):
        return str(number)
    if number == math.trunc(number) and abs(number) <= _MOST_WHOLE:
        return str(int(number))
    with np.errstate(over="ignore"):
        single = np.float32(number)
    of: Any = single if float(single) == number else np.float64(number)
    scientific = np.format_float_scientific(of, trim="-", exp_digits=2)
    if -4 <= int(scientific.partition("e")[2]) < 6:
        return np.format_float_positional(of, trim="-")
    return scientific
