"""The command stagewise, which is the program that the wheel carries."""

from __future__ import annotations

import os
import sys

from . import program
from .errors import ProgramError


def main() -> None:
    """Becomes the program, with the BLAS that was installed with it."""
    try:
        path = program.find()
    except ProgramError as reason:
        raise SystemExit(f"stagewise: {reason}") from reason
    os.execve(path, ["stagewise", *sys.argv[1:]], program.environment(os.environ, only=False))
