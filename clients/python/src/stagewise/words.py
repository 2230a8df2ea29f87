"""Texts as counts of words, whose columns a hash chooses."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# FNV-1a of 64 bits (RFC 9923).
_OFFSET, _PRIME, _MASK = 14695981039346656037, 1099511628211, (1 << 64) - 1


class Words:
    """Counts the words of a text, and the phrases of up to so many words, in so many columns."""

    def __init__(self, columns: int, phrases: int) -> None:
        self._columns, self._phrases = columns, phrases

    def count(self, text: str) -> dict[int, int]:
        """Returns how often each column occurs. A word is a run of letters, marks and digits, in lower case."""
        counts: dict[int, int] = {}
        ends: list[int] = []  # the hashes of the phrases that end before the next word
        for word in _words(text):
            ends.append(_OFFSET)
            for i, before in enumerate(ends):
                hashed = _hash_on(before, word)
                column = hashed % self._columns
                counts[column] = counts.get(column, 0) + 1
                ends[i] = _hash_on(hashed, b" ")
            if len(ends) == self._phrases:
                del ends[0]
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
def _hash_on(before: int, text: bytes) -> int:
    """Returns the hash of a text that follows what has a hash."""
    for byte in text:
        before = (before ^ byte) * _PRIME & _MASK
    return before
