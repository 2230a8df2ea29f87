"""The program, as tests run it beside the package. It must be on the PATH."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from stagewise import program


def run(folder: str, *arguments: str) -> None:
    """Runs the program in a folder, with the arithmetic that the package has."""
    done = subprocess.run([program.find(), *arguments], cwd=folder, env=program.environment(only=True), capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"stagewise {' '.join(arguments)}: {done.stderr}")


def train(folder: str, name: str, **keys: Any) -> str:
    """Trains a model from files in a folder, and returns the name of its file."""
    configuration = {"name": name, "data_dir": f"log-{name}", **keys}
    with open(f"{folder}/{name}.yaml", "w") as file:
        json.dump(configuration, file)
    run(folder, "train", "-c", f"{name}.yaml", "--quiet", "--model", f"{name}.model")
    return f"{folder}/{name}.model"
