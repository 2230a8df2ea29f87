"""The program stagewise: where it is, and how it runs until it ends."""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import BrokersError, ProgramError
from .parameters import OF_EXAMPLES

_CARRIED = Path(__file__).parent / "bin" / "stagewise"

# What the environment may say to a run that Python starts. All other variables that begin with STAGEWISE_ would set keys of the configuration.
_PASSED = ("STAGEWISE_BLAS", "STAGEWISE_VECTOR", "STAGEWISE_SECURITY_SASL_PASSWORD")

# For so long a program may end its run after Ctrl-C.
_SECONDS_TO_END = 10

# So long a run says nothing, on a terminal and in a notebook too. Then its last line is shown, with the seconds so far.
_SECONDS_UNTIL_SHOWN = 2.0

# Where a key, a model or a column is, in the files and requests of this package, and a key that is no parameter.
_PLACE = re.compile(r"^(configuration\.yaml|(read model )?/dev/fd/\d+)(:\d+)?: ")
_COLUMN = re.compile(r'(ingest \[\S+\]: )?(rows\.arrow|held-out\.arrow|the request)(, column \d+ \(("[^"]*")\)|: )')
_SETTING = re.compile(rf"(?<=\s)examples\.(?!({'|'.join((*OF_EXAMPLES, 'class_weight', 'categorical'))})\b(?![._]))[a-z_.]*[a-z_]")
_NO_BROKERS = "reach Kafka at "
_STAGE = re.compile(r"\s*(\d+/\d+)\s")  # how a line about a stage begins

# Exit codes: 1 is a run that failed, 2 is a wrong configuration.
_REFUSED = (1, 2)


def find() -> str:
    """Returns the path of the program: the one that the wheel carries, otherwise the one on the PATH."""
    if _CARRIED.is_file():
        return str(_CARRIED)
    for folder in os.get_exec_path():
        found = shutil.which("stagewise", path=folder)
        if found and not _is_script(found):  # the command that this package installs
            return found
    raise ProgramError(
        "this installation does not carry the program stagewise: install a wheel that does (make wheel), put the program on the PATH, or "
        "predict without it, with an ONNX graph that it has exported (docs/exports.md)"
    )


def _is_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def needs(name: str, package: str = "'stagewise[plots]'") -> Any:
    """Returns a module that is no dependency of this package."""
    try:
        return importlib.import_module(name)
    except ImportError as reason:
        raise ImportError(f"this needs {name.partition('.')[0]}: pip install {package}") from reason


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


def run(arguments: Sequence[str], *, shown: bool | None, folder: str) -> None:
    """Runs the program until it ends.

    What the program says is written to sys.stderr line by line if it is shown, so that a notebook has it too; with None, its last line is shown in
    place if the run takes more than two seconds and somebody watches. If the program refuses, its sentence is that of a ValueError; in it, paths are
    relative to the folder. Ctrl-C ends the run, and is then raised.
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
    # Libraries such as polars handle Ctrl-C so that the system restarts the calls that wait: this one would wait for the end of the run.
    signal.siginterrupt(signal.SIGINT, True)
    try:
        assert process.stderr is not None
        with _progress(said) if shown is None and is_watched() else contextlib.nullcontext():
            for line in process.stderr:
                said.append(line.replace(folder + os.sep, ""))
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
        raise error_of(code, said)


def is_watched() -> bool:
    """Reports whether somebody reads sys.stderr while this process works: on a terminal, or in a notebook. Processes and threads that compute beside
    each other would overwrite each other's line."""
    if multiprocessing.current_process().name != "MainProcess" or threading.current_thread() is not threading.main_thread():
        return False
    return type(sys.stderr).__module__.startswith("ipykernel") or sys.stderr is not None and sys.stderr.isatty()


@contextlib.contextmanager
def _progress(said: Sequence[str]) -> Iterator[None]:
    """Shows what was said last in a line on sys.stderr, in place."""
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(said, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _show(said: Sequence[str], ended: threading.Event) -> None:
    began, wait, width = time.monotonic(), _SECONDS_UNTIL_SHOWN, 0
    while not ended.wait(wait):
        last = said[-1].strip().removeprefix("stages: ") if said else ""
        stage = _STAGE.match(last)
        text = f"stagewise: {time.monotonic() - began:.0f} s, {f'stage {stage[1]}' if stage else last}"[: shutil.get_terminal_size().columns - 1]
        print("\r" + text.ljust(width), end="", file=sys.stderr, flush=True)
        wait, width = 1.0, len(text)
    if width:
        print("\r" + " " * width + "\r", end="", file=sys.stderr, flush=True)


def _end(process: subprocess.Popen[Any]) -> None:
    """Ends a run as Ctrl-C in a terminal does."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def error_of(code: int, said: Sequence[str]) -> Exception:
    """Returns the error that a program has ended with."""
    lines = [line.removeprefix("stagewise: ").strip() for line in said if line.startswith("stagewise: ")]
    if code not in _REFUSED or not lines:
        return ProgramError(f"stagewise ended with code {code}: {''.join(said).strip() or 'it said nothing'}")
    text = "\n".join(_PLACE.sub("", line) for line in lines)
    if text.startswith(_NO_BROKERS):
        return BrokersError(text)
    return ValueError(_SETTING.sub(lambda key: f'settings["{key[0]}"]', plain(text)))


def plain(reason: str) -> str:
    """Returns the reason of a refusal without the names of this package's own files."""
    return _COLUMN.sub(lambda place: f"column {place[4]}" if place[4] else "", reason)


def main() -> None:
    """Becomes the program, as the command stagewise, with the BLAS that was installed with it."""
    try:
        path = find()
    except ProgramError as reason:
        raise SystemExit(f"stagewise: {reason}") from reason
    os.execve(path, ["stagewise", *sys.argv[1:]], environment(os.environ, only=False))
