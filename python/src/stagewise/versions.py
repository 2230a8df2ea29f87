"""The versions of a pipeline for registries of other programs: what stagewise.mlflow and stagewise.openlineage share."""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import program

# Fields of a plan that are no parameters: what was read, and from where.
_READ = ("name", "topic", "spans", "sources", "removed", "forgotten", "heeded", "expiring", "outside", "chain", "submission", "since")


@dataclass(frozen=True)
class Listed:
    """A version as `stagewise weights list --json` lists it."""

    offered: str  # "yes", "pinned", or "no" if it is withheld
    written: str  # when its manifest was written, in RFC 3339
    manifest: Mapping[str, Any]

    @property
    def run(self) -> str:
        """The id of its run."""
        return str(self.manifest["run"])

    @property
    def topic(self) -> str:
        """The topic of its examples."""
        return str(self.manifest["plan"].get("topic") or f"{self.manifest['name']}.examples")

    @property
    def parent(self) -> str:
        """The id of the run that it continues from; "": none."""
        plan = self.manifest["plan"]
        parent = (plan.get("chain") or {}).get("parent") or plan.get("warm") or {}
        return str(parent.get("run", ""))

    def spans(self) -> str:
        """Returns the offsets of the topic that it read, as JSON."""
        return json.dumps(self.manifest["plan"]["spans"], separators=(",", ":"))

    def parameters(self) -> Iterator[tuple[str, str]]:
        """Yields the parameters of its plan, by path."""
        yield from _leaves("", {key: value for key, value in self.manifest["plan"].items() if key not in _READ})


def digest(text: str) -> str:
    """Returns a digest of a text."""
    return uuid.uuid5(uuid.NAMESPACE_OID, text).hex  # MLflow has digests of at most 36 characters


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    of_parts = isinstance(value, list) and any(isinstance(part, dict) for part in value)
    if not of_parts and not isinstance(value, dict):
        yield path, (value if isinstance(value, str) else json.dumps(value))[:500]
        return
    for key, inner in enumerate(value) if of_parts else value.items():
        yield from _leaves(f"{path}.{key}" if path else str(key), inner)


def ask(*arguments: str) -> str:
    """Returns what the program writes to its standard output. If it fails, its sentence is that of an error."""
    done = subprocess.run([program.find(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=program.environment(only=False))
    if done.returncode != 0:
        raise program.error_of(done.returncode, done.stderr.splitlines(keepends=True))
    return done.stdout


def imported(module: str, package: str) -> Any:
    """Imports a module, or ends with the package to install."""
    try:
        return program.needs(module, package)
    except ImportError as reason:
        raise SystemExit(f"stagewise: {reason}") from reason


def arguments(name: str, description: str) -> argparse.ArgumentParser:
    """Returns the flags that the commands share."""
    flags = argparse.ArgumentParser(prog=f"python -m stagewise.{name}", description=description)
    flags.add_argument("-c", "--config", required=True, metavar="FILE", help="the configuration of the pipeline")
    flags.add_argument("--interval", type=float, default=10, metavar="SECONDS", help="how often to list the versions (default 10)")
    flags.add_argument("--once", action="store_true", help="register the versions that there are, and end")
    return flags


def follow(flags: argparse.Namespace, register: Callable[[Sequence[Listed]], None]) -> None:
    """Hands over the list of versions until Ctrl-C. An error is shown, and the list is handed over again after the interval; with once, it is
    raised."""
    pause, shown = threading.Event(), ""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            try:
                register([Listed(**json.loads(line)) for line in ask("weights", "list", "-c", flags.config, "--json").splitlines()])
                shown = ""
            except Exception as reason:  # of brokers, or of the registry: the next attempt registers all that is missing
                if flags.once:
                    raise SystemExit(f"stagewise: {reason}") from reason
                if shown != (shown := str(reason)):
                    print(f"stagewise: {reason}; trying again every {flags.interval:g} s", file=sys.stderr, flush=True)
            if flags.once or pause.wait(flags.interval):
                return
