"""Dates and times, and the parts of them that are features, as the program reads them."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .values import Missing, number_of

_TEXT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)? ?(Z|z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST, _LAST = -62135596800, 253402300799  # of the years 1 to 9999, in seconds since 1970
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_DAYS_BEFORE_1970 = {"days": 0, "excel": 25569}
_DIGITS = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})?([0-9]{2})?([0-9]{2})?")
PARTS = ("hour", "weekday", "month", "age")


class Times:
    """Times of a column: seconds since 1970 in UTC and by the clock of their zone, nanoseconds, and whether they are missing."""

    def __init__(self, utc: Any, local: Any, nanoseconds: Any, missing: Any) -> None:
        self._utc, self._local, self._nanoseconds, self._missing = utc, local, nanoseconds, missing

    def part(self, name: str) -> Any:
        """Returns a part of each time, NaN for a missing one."""
        days, seconds = np.divmod(self._local, 86400)
        if name == "hour":
            part = (seconds + self._nanoseconds / 1e9) / 3600
        elif name == "weekday":
            part = ((days + 3) % 7 + 1).astype(np.float64)
        elif name == "month":
            part = (days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64) % 12 + 1).astype(np.float64)
        else:
            part = -(self._utc + self._nanoseconds / 1e9) / 86400
        return np.where(self._missing, np.nan, part)


def times_of(column: pa.ChunkedArray, each: Callable[[Callable[[Any], float]], Any], absent: Missing, unit: str) -> Times:
    """Returns the times of a column, whose numbers have a unit. each returns a number for each value, which the given function makes of it.

    The error is a ValueError that names no place, or that of each.
    """
    moments = [_of_text(text, match)[::2] for text in absent.texts if (match := _TEXT.fullmatch(text))]
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.timestamp("s" if pa.types.is_date32(kind) else "ms"))
        kind = column.type
    if pa.types.is_timestamp(kind):
        local = pc.local_timestamp(column) if kind.tz else column
        per = _PER_SECOND[kind.unit]
        utc, rest = np.divmod(_whole(column), per)
        nanoseconds = rest * (1_000_000_000 // per)
        missing = column.is_null().to_numpy()
        for seconds, fraction in moments:
            missing = missing | (utc == seconds) & (nanoseconds == fraction)
        return Times(utc, np.floor_divide(_whole(local), per), nanoseconds, missing)
    found: list[tuple[int, int, int]] = []

    def place_of(value: Any) -> float:
        if absent.has_number(value) or (time := time_of(value, unit))[::2] in moments:
            return math.nan
        found.append(time)
        return len(found) - 1

    places = each(place_of)
    missing = np.isnan(places)
    table = np.array(found or [(0, 0, 0)], dtype=np.int64)[np.where(missing, 0, places).astype(np.int64)]
    return Times(table[:, 0], table[:, 1], table[:, 2], missing)


def _whole(column: pa.ChunkedArray) -> Any:
    return column.cast(pa.int64()).fill_null(0).to_numpy()


def time_of(value: Any, unit: str) -> tuple[int, int, int]:
    """Returns the time of a text or a number: seconds since 1970 in UTC and by the clock of its zone, and nanoseconds. The error is a ValueError."""
    if isinstance(value, bool | np.bool_):
        raise ValueError(f"{value!r} is not a time")
    if isinstance(value, str):
        match = _TEXT.fullmatch(value.strip())
        if match:
            return _of_text(value, match)
        try:
            if value.strip() in ("true", "True", "TRUE", "false", "False", "FALSE"):
                raise ValueError
            value = int(value) if re.fullmatch(r"\s*[+-]?[0-9]+\s*", value) else number_of(value)
        except ValueError:
            raise ValueError(f"{value!r} is not a time: expected a form such as 2026-11-01 or 2026-11-01T09:30:15+02:00, or a number of "
                             "seconds since 1970") from None
    if not unit:
        raise ValueError(f"{value!r} is a number, but the model was trained on dates and times as text: write a form such as 2026-11-01, "
                         "or set its unit under examples.times")
    if unit == "yyyymmdd":
        match = _DIGITS.fullmatch(str(int(value))) if math.isfinite(value) and float(value).is_integer() else None
        if not match:
            raise ValueError(f"{value!r} is not a time: expected the digits of a date, yyyymmdd or yyyymmddhhmmss")
        return _of_parts(str(value), *(int(part or 0) for part in match.groups()))
    scaled = (value - _DAYS_BEFORE_1970[unit]) * 86400 if unit in _DAYS_BEFORE_1970 else value / _PER_SECOND[unit]
    if not _FIRST <= scaled <= _LAST:
        raise ValueError(f"{value!r} is not a time in {unit}")
    if unit in _PER_SECOND and float(value).is_integer():
        seconds, rest = divmod(int(value), _PER_SECOND[unit])
        return seconds, seconds, rest * (1_000_000_000 // _PER_SECOND[unit])
    seconds = math.floor(scaled)
    return seconds, seconds, int((scaled - seconds) * 1e9)


def _of_parts(text: str, year: int, month: int, day: int, hour: int, minute: int, second: int) -> tuple[int, int, int]:
    try:
        local = datetime.datetime(year, month, day, hour, minute, second)
    except ValueError as reason:
        raise ValueError(f"{text!r} is not a time: {reason}") from reason
    seconds = (local - _EPOCH) // datetime.timedelta(seconds=1)
    return seconds, seconds, 0


def _of_text(text: str, match: re.Match[str]) -> tuple[int, int, int]:
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    seconds, _, _ = _of_parts(text, int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0))
    offset = 0
    if zone and zone not in ("Z", "z", "UTC"):
        hours, minutes = int(zone[1:3]), int(zone[3:].removeprefix(":") or 0)
        if hours > 23 or minutes > 59:
            raise ValueError(f"{text!r} is not a time: its zone is {zone}")
        offset = (3600 * hours + 60 * minutes) * (-1 if zone[0] == "-" else 1)
    return seconds - offset, seconds, int((fraction or "").ljust(9, "0"))
