"""Texts as counts of words, whose columns a hash chooses, or a vocabulary has."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

# FNV-1a of 64 bits (RFC 9923).
_OFFSET, _PRIME, _MASK = 14695981039346656037, 1099511628211, (1 << 64) - 1


class Words:
    """Counts the words of a text, and the phrases that they make, as the plan of a model says."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._columns, self._phrases = options["word_columns"], options["word_phrases"]
        vocabulary = options.get("vocabulary")
        self._places = {phrase.encode(): place for place, phrase in enumerate(vocabulary)} if vocabulary else None

    def count(self, text: str) -> dict[int, int]:
        """Returns how often each column occurs. A word is a run of letters, marks and digits, in lower case."""
        counts: dict[int, int] = {}
        begun: list[bytes] = []  # the phrases that end before the next word
        for word in _words(text):
            begun = [*(phrase + b" " + word for phrase in begun), word]
            for phrase in begun:
                column = hash_of(phrase) % self._columns if self._places is None else self._places.get(phrase)
                if column is not None:
                    counts[column] = counts.get(column, 0) + 1
            if len(begun) == self._phrases:
                del begun[0]
        return counts


def _words(text: str) -> list[bytes]:
    # Each character by itself, as the program does: lower() of a whole text looks at the characters around a sigma.
    lower = "".join(_lower(c) for c in text)
    return "".join(c if _of_word(c) else " " for c in lower).encode().split()


@lru_cache(maxsize=4096)
def _lower(c: str) -> str:
    return c.lower()[0]


@lru_cache(maxsize=4096)
def _of_word(c: str) -> bool:
    kind = unicodedata.category(c)
    return kind[0] in "LM" or kind == "Nd"


@lru_cache(maxsize=1 << 16)
def hash_of(text: bytes) -> int:
    """Returns the FNV-1a of a text."""
    hashed = _OFFSET
    for byte in text:
        hashed = (hashed ^ byte) * _PRIME & _MASK
    return hashed
