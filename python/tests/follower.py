"""Follows a pipeline for follow_kafka_test.go: it does what each line of the standard input says, and answers with a line of JSON."""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np

import stagewise

PATIENCE = 60.0  # seconds that something may take


def await_version(follower: stagewise.Follower, version: int, model_file: str = "") -> dict[str, object]:
    """Waits for a version. Given the file of the same model, it says by how much the probabilities differ."""
    there = follower.status().version == version
    with follower._changed:
        if not follower._changed.wait_for(lambda: follower.status().version == version, PATIENCE):
            raise SystemExit(f"version {version} does not come: {follower.status()}")
    answer: dict[str, object] = {"version": version, "age": 0 if there else follower.status().age}
    if model_file:
        model = stagewise.load(pathlib.Path(model_file))
        rows = np.random.default_rng(1).uniform(0, 16, size=(100, model.n_features_in_))
        answer["difference"] = float(np.abs(follower.predict_proba(rows) - model.predict_proba(rows)).max())
        answer["same_model"] = follower.model.manifest["weights_digest"] == model.manifest["weights_digest"]
    return answer


def await_error(follower: stagewise.Follower) -> dict[str, object]:
    """Waits until the brokers do not answer."""
    with follower._changed:
        if not follower._changed.wait_for(lambda: follower.status().error is not None, PATIENCE):
            raise SystemExit(f"all is well: {follower.status()}")
    return {"error": str(follower.status().error), "version": follower.status().version}


if __name__ == "__main__":
    brokers, name = sys.argv[1:3]
    with stagewise.follow(brokers, name, timeout=0, max_silence=2) as f:
        for line in sys.stdin:
            command, *arguments = line.split()
            if command == "version":
                answer = await_version(f, int(arguments[0]), *arguments[1:])
            else:
                answer = await_error(f)
            print(json.dumps(answer), flush=True)
