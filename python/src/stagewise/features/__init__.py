"""The kinds of features: inputs (n × m) to features (n × p). Each kind is one class in one file."""

from __future__ import annotations

from ..errors import DamagedError
from .columns import Columns
from .kind import Kind, Matrix, Setting
from .logits import Logits
from .patch_polynomial import PatchPolynomial
from .patches import Patches
from .polynomial import Polynomial
from .rff import RFF
from .sorf import SORF

__all__ = ["KINDS", "Kind", "Matrix", "Setting", "draw"]

KINDS: dict[str, type[Kind]] = {kind.name: kind for kind in (RFF, SORF, Logits, Polynomial, Columns, Patches, PatchPolynomial)}


def draw(setting: Setting) -> Kind:
    """Returns the features of a stage, with all their draws."""
    name = setting.options["kind"]
    if name not in KINDS:
        known = ", ".join(sorted([*KINDS, "trees"]))  # which have a block of their own
        raise DamagedError(
            f"stage {setting.stage}: features of kind {name!r}, expected one of {known}: install the stagewise package "
            "of the release that trained the model"
        )
    return KINDS[name](setting)
