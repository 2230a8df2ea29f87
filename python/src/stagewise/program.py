"""The program stagewise: where it is, its configuration, how it runs until it ends, how it answers requests, and its errors."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_CARRIED = Path(__file__).parent / "bin" / "stagewise"

# What the environment may say to a run that Python starts. All other variables that begin with STAGEWISE_ would set keys of the configuration.
_PASSED = ("STAGEWISE_BLAS", "STAGEWISE_VECTOR", "STAGEWISE_SECURITY_SASL_PASSWORD")

# So long a run says nothing, on a terminal and in a notebook too. Then its last line is shown, with the seconds so far.
_SECONDS_UNTIL_SHOWN = 2.0

# Where a key, a model or a column is, in the files and requests of this package.
_PLACE = re.compile(r"^(configuration\.yaml|(read model )?/dev/fd/\d+)(:\d+)?: ")
_COLUMN = re.compile(r'(ingest \[\S+\]: )?(rows\.arrow|held-out\.arrow|the request)(, column \d+ \(("[^"]*")\)|: )')
_STAGE = re.compile(r"\s*(\d+/\d+)\s")  # how a line about a stage begins

_ARROW = "application/vnd.apache.arrow.stream"


class DamagedError(ValueError):
    """A file is no model, or is damaged."""


class NoVersionError(LookupError):
    """The pipeline has no version to predict with."""


class BrokersError(ConnectionError):
    """Brokers do not answer, or refuse, or do not have the topics of the pipeline."""


class ProgramError(RuntimeError):
    """The program is missing, or has ended as it should not."""


def find() -> str:
    """Returns the path of the program: the one that the wheel carries, otherwise the one on the PATH."""
    if _CARRIED.is_file():
        return str(_CARRIED)
    for folder in os.get_exec_path():
        if found := shutil.which("stagewise", path=folder):
            with open(found, "rb") as file:
                if file.read(2) != b"#!":  # a script is the command that this package installs
                    return found
    raise ProgramError(
        "this installation does not carry the program stagewise: install a wheel that does (make wheel), put the program on the PATH, or "
        "predict without it, with an ONNX graph that it has exported (docs/exports.md)"
    )


def configuration_file(configuration: Mapping[str, Any]) -> bytes:
    """Returns a configuration as YAML: JSON, but with an escape that YAML has for each character beyond ASCII."""
    return json.dumps(configuration, indent=1, ensure_ascii=False, default=_plain).encode("ascii", "backslashreplace")


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return dict(value) if isinstance(value, Mapping) else os.fspath(value)


def needs(name: str, package: str = "'stagewise[plots]'") -> Any:
    """Returns a module that is no dependency of this package."""
    try:
        return importlib.import_module(name)
    except ImportError as reason:
        raise ImportError(f"this needs {name.partition('.')[0]}: pip install {package}") from reason


def environment(only: bool) -> dict[str, str]:
    """Returns the environment of the program, with the BLAS of the package scipy-openblas32 if it is installed. only leaves out variables that set
    keys of the configuration."""
    kept = {name: value for name, value in os.environ.items() if not only or not name.startswith("STAGEWISE_") or name in _PASSED}
    package = importlib.util.find_spec("scipy_openblas32") if sys.platform != "darwin" else None  # where the program uses Accelerate
    for folder in package.submodule_search_locations or () if package else ():
        for library in sorted(Path(folder, "lib").glob("libscipy_openblas*.so")):
            kept["STAGEWISE_BLAS"] = kept.get("STAGEWISE_BLAS") or str(library)
    return kept


def _begun(arguments: Sequence[str], **files: Any) -> subprocess.Popen[Any]:
    """Starts the program, in a session of its own, so that only this process gets Ctrl-C, in a terminal as in a notebook."""
    return subprocess.Popen([find(), *arguments], env=environment(only=True), start_new_session=True, **files)


def run(arguments: Sequence[str], *, shown: bool | None, folder: str) -> None:
    """Runs the program until it ends.

    What the program says is written to sys.stderr line by line if it is shown, so that a notebook has it too; with None, its last line is shown in
    place if the run takes more than two seconds and somebody watches. If the program refuses, its sentence is that of a ValueError; in it, paths are
    relative to the folder. Ctrl-C ends the run, and is then raised.
    """
    null, pipe = subprocess.DEVNULL, subprocess.PIPE
    with _begun(arguments, stdin=null, stdout=null, stderr=pipe, encoding="utf-8", errors="replace") as process:
        said: deque[str] = deque(maxlen=1000)
        ended = threading.Event()
        progress = threading.Thread(target=_show, args=(said, ended), daemon=True)
        # Libraries such as polars handle Ctrl-C so that the system restarts the calls that wait: this one would wait for the end of the run.
        signal.siginterrupt(signal.SIGINT, True)
        try:
            if shown is None and is_watched():
                progress.start()
            for line in process.stderr or ():
                said.append(line.replace(folder + os.sep, ""))
                if shown and not line.startswith("stagewise: "):
                    print(line, end="", file=sys.stderr, flush=True)
            code = process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)  # as Ctrl-C in a terminal does
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
        finally:
            ended.set()
            if progress.ident:
                progress.join()
    if code != 0:
        raise error_of(code, said)


def is_watched() -> bool:
    """Reports whether somebody reads sys.stderr while this process works: on a terminal, or in a notebook. Processes and threads that compute beside
    each other would overwrite each other's line."""
    if multiprocessing.current_process().name != "MainProcess" or threading.current_thread() is not threading.main_thread():
        return False
    return type(sys.stderr).__module__.startswith("ipykernel") or sys.stderr is not None and sys.stderr.isatty()


def _show(said: Sequence[str], ended: threading.Event) -> None:
    """Shows what was said last in a line on sys.stderr, in place."""
    began, wait, width = time.monotonic(), _SECONDS_UNTIL_SHOWN, 0
    while not ended.wait(wait):
        last = said[-1].strip().removeprefix("stages: ") if said else ""
        stage = _STAGE.match(last)
        text = f"stagewise: {time.monotonic() - began:.0f} s, {f'stage {stage[1]}' if stage else last}"[: shutil.get_terminal_size().columns - 1]
        print("\r" + text.ljust(width), end="", file=sys.stderr, flush=True)
        wait, width = 1.0, len(text)
    if width:
        print("\r" + " " * width + "\r", end="", file=sys.stderr, flush=True)


def error_of(code: int, said: Sequence[str]) -> Exception:
    """Returns the error that a program has ended with."""
    lines = [line.removeprefix("stagewise: ").strip() for line in said if line.startswith("stagewise: ")]
    if code not in (1, 2) or not lines:  # a run that failed, and a wrong configuration
        return ProgramError(f"stagewise ended with code {code}: {''.join(said).strip() or 'it said nothing'}")
    text = "\n".join(_PLACE.sub("", line) for line in lines)
    return BrokersError(text) if text.startswith("reach Kafka at ") else ValueError(plain(text))


def plain(reason: str) -> str:
    """Returns the reason of a refusal without the names of this package's own files."""
    return _COLUMN.sub(lambda place: f"column {place[4]}" if place[4] else "", reason)


class Child:
    """Answers one request at a time, from any thread. The process starts with the first request, and anew if it has ended, or in a process that
    was forked. It ends with this object, and with the process that started it, as its standard input does."""

    def __init__(self, flag: str, content: bytes, *arguments: str) -> None:
        """flag is the flag of the program for a file with this content."""
        self._flag, self._content, self._arguments = flag, content, arguments
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0  # how often the process was started
        _OPEN.add(self)

    def ask(self, path: str, body: Any = None) -> bytearray:
        """Returns the response to a request. A refusal is a ValueError with its reason, and a version that is not there a NoVersionError."""
        status, content = self._answer(path, body)
        if status == 200:
            return content
        reason = json.loads(content)["error"] if content[:1] == b"{" else content.decode(errors="replace").strip()
        if status == 503:
            raise NoVersionError(reason)
        raise ValueError(plain(reason)) if status < 500 else ProgramError(reason)

    def close(self) -> None:
        """Ends the process. The next request starts another."""
        with self._lock:
            self._end()

    def _answer(self, path: str, body: Any) -> tuple[int, bytearray]:
        with self._lock:
            while True:
                if begins := self._process is None:
                    self._start()
                try:
                    return self._exchange(path, body)
                except (ConnectionError, EOFError):
                    assert self._process is not None
                    code = self._process.wait()
                    self._said.seek(0)
                    said = self._said.readlines()
                    self._end()
                    if begins:  # otherwise it was killed, and another may answer
                        raise error_of(code, said) from None
                except BaseException:  # such as Ctrl-C in the middle of a response
                    self._end()
                    raise

    def _start(self) -> None:
        with contextlib.ExitStack() as opened:
            self._said = opened.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))
            self._socket, theirs = socket.socketpair()
            opened.enter_context(self._socket)
            self._socket.setblocking(True)  # whatever the default timeout of sockets is
            with theirs, tempfile.TemporaryFile() as file:
                file.write(self._content)
                file.seek(0)
                arguments = ["serve", "--pipe", "--quiet", self._flag, f"/dev/fd/{file.fileno()}", *self._arguments]
                process = _begun(arguments, stdin=theirs, stdout=theirs, stderr=self._said, pass_fds=[file.fileno()])
            self._opened = opened.pop_all()
        self.starts += 1
        self._kill = weakref.finalize(self, _kill, process, self._opened)
        self._process = process

    def _end(self) -> None:
        if self._process is not None:
            self._kill()
            self._process = None

    def forget(self) -> None:
        """Leaves the process to the one that was forked."""
        self._lock = threading.Lock()
        if self._process is not None:
            self._kill.detach()
            self._opened.close()
            self._process.returncode = 0  # it is no child of this process, which can't wait for it
            self._process = None

    def _exchange(self, path: str, body: Any) -> tuple[int, bytearray]:
        """Returns the status and the content of a response. The socket has no buffers, which a fork would write too."""
        method, length = ("GET", 0) if body is None else ("POST", len(body))
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {_ARROW}\r\nAccept: {_ARROW}\r\nContent-Length: {length}\r\n\r\n"
        self._socket.sendall(head.encode())
        self._socket.sendall(body or b"")
        status, length = map(int, self._received(16).split())
        return status, self._received(length)

    def _received(self, length: int) -> bytearray:
        content, at = bytearray(length), 0
        while at < length:
            if not (n := self._socket.recv_into(memoryview(content)[at:])):
                raise EOFError
            at += n
        return content


def _kill(process: subprocess.Popen[bytes], opened: contextlib.ExitStack) -> None:
    process.kill()  # it has nothing to write
    process.wait()
    opened.close()


_OPEN: weakref.WeakSet[Child] = weakref.WeakSet()


def _forget() -> None:
    for child in list(_OPEN):
        child.forget()


os.register_at_fork(after_in_child=_forget)


def main() -> None:
    """Becomes the program, as the command stagewise, with the BLAS that was installed with it."""
    try:
        path = find()
    except ProgramError as reason:
        raise SystemExit(f"stagewise: {reason}") from reason
    os.execve(path, ["stagewise", *sys.argv[1:]], environment(only=False))
