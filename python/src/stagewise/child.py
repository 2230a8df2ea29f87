"""A process of the program that predicts: `stagewise serve --pipe`, which answers HTTP requests on its standard input."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import weakref
from typing import IO, Any

from . import program
from .errors import NoVersionError, ProgramError

_ARROW = "application/vnd.apache.arrow.stream"

_HEAD = 16  # bytes: the status and the length of a response


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
        raise ValueError(program.plain(reason)) if status < 500 else ProgramError(reason)

    def close(self) -> None:
        """Ends the process. The next request starts another."""
        with self._lock:
            self._end()

    def _answer(self, path: str, body: Any) -> tuple[int, bytearray]:
        with self._lock:
            while True:
                begins = self._process is None or self._process.poll() is not None
                process = self._start() if begins else self._process
                assert process is not None
                try:
                    return _exchange(process, path, body)
                except (BrokenPipeError, EOFError):
                    code = process.wait()
                    self._said.seek(0)
                    said = self._said.read().decode(errors="replace").splitlines(keepends=True)
                    self._end()
                    if begins:  # otherwise it was killed, and another may answer
                        raise program.error_of(code, said) from None
                except BaseException:  # such as Ctrl-C in the middle of a response
                    self._end()
                    raise

    def _start(self) -> subprocess.Popen[bytes]:
        self._end()
        path = program.find()
        self._said: IO[bytes] = tempfile.TemporaryFile()
        with tempfile.TemporaryFile() as file:
            file.write(self._content)
            file.seek(0)
            # In a session of its own, so that only this process gets Ctrl-C.
            self._process = process = subprocess.Popen(
                [path, "serve", "--pipe", "--quiet", self._flag, f"/dev/fd/{file.fileno()}", *self._arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env=program.environment(os.environ, only=True),
                pass_fds=[file.fileno()],
                start_new_session=True,
                bufsize=0,
            )
        self.starts += 1
        self._kill = weakref.finalize(self, _kill, process, self._said, os.getpid())
        return process

    def _end(self) -> None:
        if self._process is not None:
            self._kill()
            self._process = None

    def forget(self) -> None:
        """Leaves the process to the one that was forked."""
        self._lock = threading.Lock()
        if self._process is not None:
            self._kill.detach()
            _close(self._process, self._said)
            self._process.returncode = 0  # it is no child of this process, which can't wait for it
            self._process = None


def _exchange(process: subprocess.Popen[bytes], path: str, body: Any) -> tuple[int, bytearray]:
    """Returns the status and the content of a response. The pipes have no buffers, which a fork would write too."""
    assert process.stdin is not None and process.stdout is not None
    method, length = ("GET", 0) if body is None else ("POST", len(body))
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {_ARROW}\r\nAccept: {_ARROW}\r\nContent-Length: {length}\r\n\r\n".encode()
    for part in (head, body or b""):
        rest = memoryview(part)
        while rest:
            rest = rest[process.stdin.write(rest) :]
    status, length = map(int, _received(process.stdout, _HEAD).split())
    return status, _received(process.stdout, length)


def _received(pipe: Any, length: int) -> bytearray:
    content, at = bytearray(length), 0
    while at < length:
        if not (n := pipe.readinto(memoryview(content)[at:])):
            raise EOFError
        at += n
    return content


def _close(process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
    for end in (process.stdin, process.stdout, said):
        if end is not None:
            end.close()


def _kill(process: subprocess.Popen[bytes], said: IO[bytes], owner: int) -> None:
    if owner == os.getpid():  # it has nothing to write
        process.kill()
        process.wait()
        _close(process, said)


_OPEN: weakref.WeakSet[Child] = weakref.WeakSet()


def _forget() -> None:
    for child in list(_OPEN):
        child.forget()


os.register_at_fork(after_in_child=_forget)
