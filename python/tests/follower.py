"""Follows a pipeline for follower_test.go: it does what each line of the standard input says, and answers with a line of JSON."""

from __future__ import annotations

import json
import os
import pathlib
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import stagewise

PATIENCE = 60.0  # seconds that something may take


def await_status(follower: stagewise.Follower, wanted: Callable[[stagewise.Status], bool]) -> stagewise.Status:
    deadline, pause = time.monotonic() + PATIENCE, threading.Event()
    while not wanted(status := follower.status()):
        if time.monotonic() > deadline:
            raise SystemExit(f"the status is {status}")
        pause.wait(0.01)
    return status


def await_version(follower: stagewise.Follower, version: int, file: str = "") -> dict[str, object]:
    """Waits for a version. Given the file of the same model, it says whether it predicts the same."""
    answer: dict[str, object] = {"version": await_status(follower, lambda status: status.version == version).version}
    if file:
        model = stagewise.load(pathlib.Path(file))
        rows = np.random.default_rng(1).uniform(0, 16, size=(100, model.n_features_in_))
        same = predicts_as(follower, model, rows) and follower.model.manifest == model.manifest
        # A process that was forked, or whose program was killed, begins to follow again.
        if not (fork := os.fork()):
            os._exit(0 if predicts_as(follower, model, rows) else 1)
        same &= os.waitpid(fork, 0)[1] == 0
        follower._process._process.kill()
        answer["same"] = same and predicts_as(follower, model, rows)
    return answer


def predicts_as(follower: stagewise.Follower, model: stagewise.Model, rows: npt.NDArray[np.float64]) -> bool:
    return bool((follower.predict_proba(rows) == model.predict_proba(rows)).all())


if __name__ == "__main__":
    brokers, name = sys.argv[1:3]
    with stagewise.follow(brokers, name, timeout=0, max_silence=2) as f:
        for line in sys.stdin:
            command, *arguments = line.split()
            if command == "version":
                answer = await_version(f, int(arguments[0]), *arguments[1:])
            else:
                text = " ".join(arguments)
                status = await_status(f, lambda status: status.error is not None and text in str(status.error))
                answer = {"error": str(status.error), "version": status.version, "stale": f.stale()}
            print(json.dumps(answer), flush=True)
