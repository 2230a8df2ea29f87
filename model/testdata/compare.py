"""Reads the files of a folder with the libraries that people read them with, and prints a line of JSON for each model: what is wrong with it.

CASE.json has what Go knows of a model: its features, labels, probabilities and tensors. CASE.safetensors and CASE.onnx are its files.
"""

import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from safetensors import safe_open


def problems_of_safetensors(path: pathlib.Path, known: dict) -> list[str]:
    found = []
    with safe_open(path, framework="numpy") as file:
        if json.loads(file.metadata()["labels"]) != known["labels"]:
            found.append(f"labels {file.metadata()['labels']}")
        if json.loads(file.metadata()["manifest"])["version"] != known["version"]:
            found.append("another version")
        if sorted(file.keys()) != sorted(known["tensors"]):
            found.append(f"tensors {sorted(file.keys())}, expected {sorted(known['tensors'])}")
        for name in file.keys():
            expected = known["tensors"].get(name)
            values = file.get_tensor(name)
            if expected is None or values.dtype != np.float32 or list(values.shape) != expected["shape"]:
                found.append(f"{name} is {values.dtype} {values.shape}, expected float32 {expected}")
            elif not np.array_equal(values.ravel(), np.array(expected["values"], np.float32)):
                found.append(f"{name} has other values")
    return found


def outputs_of(known: dict) -> dict[str, tuple[str, list]]:
    """Returns the types and shapes of the outputs, by name."""
    k = len(known["labels"])
    if known["numbers"]:
        return {"numbers": ("tensor(double)", ["rows", k])}
    probabilities = {"probabilities": ("tensor(float)", ["rows", k])}
    if known["least"]:
        return {"given": ("tensor(bool)", ["rows", k]), **probabilities}
    return {"label": ("tensor(string)" if isinstance(known["labels"][0], str) else "tensor(int64)", ["rows"]), **probabilities}


def inputs_of(known: dict, rows: slice = slice(None)) -> dict[str, np.ndarray]:
    """Returns rows as the graph takes them: sparse ones as indices and values, filled up with −1, with all numbers that come first."""
    features = np.array([[np.nan if v is None else v for v in row] for row in known["features"]], np.float32)[rows]
    if not known["sparse"]:
        return {"features": features}
    there = (features != 0) | (np.arange(features.shape[1]) < known["leading"])
    indices = np.full((len(features), there.sum(axis=1).max(initial=0) + 1), -1)
    values = np.zeros(indices.shape, np.float32)
    for i, has in enumerate(there):
        own = np.flatnonzero(has)
        indices[i, : len(own)], values[i, : len(own)] = own, features[i, own]
    return {"indices": indices, "values": values}


def predict(path: pathlib.Path, known: dict) -> tuple[float, list[str]]:
    """Returns by how much a probability or number differs at most, and what is wrong."""
    found = []
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    shapes = {v.name: (v.type, v.shape) for v in session.get_inputs() + session.get_outputs()}
    outputs = outputs_of(known)
    inputs = {"features": ("tensor(float)", ["rows", len(known["features"][0])])}
    if known["sparse"]:
        inputs = {"indices": ("tensor(int64)", ["rows", "length"]), "values": ("tensor(float)", ["rows", "length"])}
    if shapes != (wanted := {**inputs, **outputs}):
        found.append(f"inputs and outputs {shapes}, expected {wanted}")
    if json.loads(session.get_modelmeta().custom_metadata_map["labels"]) != known["labels"]:
        found.append("other labels in the metadata")
    got = dict(zip(outputs, session.run(list(outputs), inputs_of(known))))
    last = "numbers" if known["numbers"] else "probabilities"
    expected = np.array(known[last], got[last].dtype)
    if got[last].shape != expected.shape:
        return np.inf, [*found, f"{last} have shape {got[last].shape}, expected {expected.shape}"]
    if known["least"]:
        sure = abs(expected - known["least"]) > 1e-4
        if not np.array_equal(got["given"][sure], (expected >= known["least"])[sure]):
            found.append("other labels are given")
    elif "label" in got:
        found += problems_of_labels(got["label"], expected, known)
    for few in (0, 1):
        for (name, (_, shape)), values in zip(outputs.items(), session.run(list(outputs), inputs_of(known, slice(few)))):
            if list(values.shape) != [few, *shape[1:]]:
                found.append(f"{few} rows have {name} of shape {values.shape}")
    return float(np.abs(got[last] - expected).max()), found


def problems_of_labels(label: np.ndarray, expected: np.ndarray, known: dict) -> list[str]:
    found, best = [], np.sort(expected)
    for i in np.flatnonzero(best[:, -1] - best[:, -2] > 1e-4 if expected.shape[1] > 1 else np.ones(len(best))):
        at = known["threshold"]
        decided = int(float(expected[i][1]) >= at) if at else expected[i].argmax()
        if label[i] != known["labels"][decided]:
            found.append(f"row {i} has label {label[i]}")
    return found


for case in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
    known = json.loads(case.read_text())
    difference, found = predict(case.with_suffix(".onnx"), known)
    found += problems_of_safetensors(case.with_suffix(".safetensors"), known)
    print(json.dumps({"case": known["case"], "difference": difference if np.isfinite(difference) else 1e30, "problems": found}))
