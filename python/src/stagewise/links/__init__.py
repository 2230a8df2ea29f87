"""The links: scores (n × k) to predictions, and predictions to probabilities. Each link is one class in one file."""

from __future__ import annotations

from ..errors import DamagedError
from .calibrated import Calibrated
from .identity import Identity
from .link import Link
from .logistic import Logistic
from .simplex import simplex
from .softmax import Softmax

__all__ = ["LINKS", "Link", "named", "simplex"]

LINKS: dict[str, Link] = {link.name: link for link in (Identity(), Softmax(), Logistic(), Calibrated())}


def named(name: str) -> Link:
    """Returns the link of that name."""
    if name not in LINKS:
        known = ", ".join(sorted(LINKS))
        raise DamagedError(
            f"link {name!r}, expected one of {known}: install the stagewise package of the release that trained the model"
        )
    return LINKS[name]
