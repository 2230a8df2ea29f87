"""The program stagewise, which trains: where it is, and how it runs."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_CARRIED = Path(__file__).parent / "bin" / "stagewise"

# What the environment may say to a run that Python starts. All other variables that begin with STAGEWISE_ would set keys of the configuration.
_PASSED = ("STAGEWISE_BLAS", "STAGEWISE_VECTOR", "STAGEWISE_SECURITY_SASL_PASSWORD")

# For so long a program may end its run after Ctrl-C.
_SECONDS_TO_END = 10

# What begins a line about a key: where it is in the file that this package has written.
_PLACE = re.compile(r"^configuration\.yaml(:\d+)?: ")

# Exit codes: 1 is a run that failed, 2 is a wrong configuration.
_REFUSED = (1, 2)


class ProgramError(RuntimeError):
    """The program is missing, or has ended as it should not."""


def find() -> str:
    """Returns the path of the program: the one that the wheel carries, otherwise the one on the PATH."""
    if _CARRIED.is_file():
        return str(_CARRIED)
    for folder in os.get_exec_path():
        found = shutil.which("stagewise", path=folder)
        if found and not _is_script(found):  # the command that this package installs
            return found
    raise ProgramError(
        "this installation does not carry the program stagewise: install a wheel that does (make wheel), or put the program on the PATH"
    )


def _is_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def blas() -> str | None:
    """Returns the path of the BLAS that comes with the package scipy-openblas32; None if it is not installed."""
    if sys.platform == "darwin":
        return None  # the program uses Accelerate
    package = importlib.util.find_spec("scipy_openblas32")
    for folder in package.submodule_search_locations or () if package else ():
        for library in sorted(Path(folder, "lib").glob("libscipy_openblas*.so")):
            return str(library)
    return None


def environment(own: Mapping[str, str], only: bool) -> dict[str, str]:
    """Returns the environment of the program, with its BLAS. only leaves out variables that set keys of the configuration."""
    kept = {name: value for name, value in own.items() if not only or not name.startswith("STAGEWISE_") or name in _PASSED}
    if not kept.get("STAGEWISE_BLAS") and (library := blas()):
        kept["STAGEWISE_BLAS"] = library
    return kept


def run(arguments: Sequence[str], *, shown: bool, folder: str) -> None:
    """Runs the program until it ends.

    What the program says is written to sys.stderr line by line if it is shown, so that a notebook has it too. If the program refuses, its
    sentence is that of a ValueError; in it, paths are relative to the folder. Ctrl-C ends the run, and is then raised.
    """
    # In a session of its own, so that only this process gets Ctrl-C, in a terminal as in a notebook.
    process = subprocess.Popen(
        [find(), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(os.environ, only=True),
        start_new_session=True,
        encoding="utf-8",
        errors="replace",
    )
    said: deque[str] = deque(maxlen=1000)
    try:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if shown and not line.startswith("stagewise: "):
                print(line, end="", file=sys.stderr, flush=True)
        code = process.wait()
    except BaseException:
        _end(process)
        raise
    finally:
        if process.stderr:
            process.stderr.close()
    if code != 0:
        raise _error(code, said, folder)


def _end(process: subprocess.Popen[Any]) -> None:
    """Ends a run as Ctrl-C in a terminal does."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _error(code: int, said: Sequence[str], folder: str) -> Exception:
    lines = [line.removeprefix("stagewise: ").strip() for line in said if line.startswith("stagewise: ")]
    if code in _REFUSED and lines:
        return ValueError("\n".join(_PLACE.sub("", line.replace(folder + os.sep, "")) for line in lines))
    return ProgramError(f"stagewise ended with code {code}: {''.join(said).strip() or 'it said nothing'}")
