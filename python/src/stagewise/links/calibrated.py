"""The link that Algorithm 2, calibrated least squares, learns."""

from __future__ import annotations

from .identity import Identity


class Calibrated(Identity):
    """Learnt from the data. Its scores are predictions, and what a stage shows of them goes through its calibrations."""

    name = "calibrated"
    learnt = True
