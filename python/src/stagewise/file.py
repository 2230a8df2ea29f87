"""Model files, as `stagewise train --model` and `stagewise weights export` write them: see schemas/FORMAT.md."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from . import links
from .errors import MISFITS, DamagedError
from .model import Model
from .preparation import NAMES
from .stage import Pass
from .tensors import Tensor, assemble, open_stream, shaped
from .trees import STRUCTURE

_MANIFEST = b"stagewise.manifest"


def load(path: str | os.PathLike[str]) -> Model:
    """Reads a model from a file that `stagewise train --model` or `stagewise weights export` wrote, and checks its digest.

    A file that is no model raises a DamagedError, which is a ValueError.
    """
    path = os.fspath(path)  # a number would be a file that is open
    with open(path, "rb") as file:
        content = file.read()
    try:
        return read(content)
    except DamagedError as reason:
        raise DamagedError(f"{path}: expected a file that train --model or weights export wrote: {_other(content) or reason}") from reason
    except MISFITS as reason:
        raise DamagedError(f"{path}: a model file with a damaged manifest: {reason!r}") from reason


def read(content: bytes) -> Model:
    """Reads the model that a file has."""
    reader = open_stream(content)
    metadata = reader.schema.metadata or {}
    if _MANIFEST not in metadata:
        raise DamagedError("an Arrow stream without a manifest")
    manifest = json.loads(metadata[_MANIFEST])
    tensors = assemble([reader])
    passes = [_passes(manifest, number, tensors) for number in range(len(manifest["plan"]["stages"]))]
    preparation = {name: tensor for name, tensor in tensors.items() if name.split("/")[0] in NAMES}
    structures = [
        {name: tensors[f"{number}/0/{name}"] for name in STRUCTURE if f"{number}/0/{name}" in tensors} for number in range(len(passes))
    ]
    return Model(manifest, preparation, passes, structures=structures)


def _other(content: bytes) -> str:
    """Returns what a file of another format is; "" if that is not known."""
    for begins, what in (
        (b"ARROW1", "an Arrow file that is no stream"),
        (b"PAR1", "a Parquet file"),
        (b"\x1f\x8b", "a gzip file: decompress it"),
        (b"PK\3\4", "a zip file: unpack it"),
    ):
        if content.startswith(begins):
            return what
    if content[8:9] == b"{":
        return "a safetensors file: weights export writes a model file with --format arrow"
    if b"stagewise" in content[:64] and content[:1] == b"\x08":
        return "an ONNX file: weights export writes a model file with --format arrow"
    return ""


def _passes(manifest: Mapping[str, Any], stage: int, tensors: Mapping[str, Tensor]) -> list[Pass]:
    if not links.named(manifest["plan"]["stages"][stage]["link"]).learnt:
        return [Pass(shaped(tensors, f"{stage}/0/W", -1, -1))]
    count = manifest["blocks"][stage].get("links", 0)
    return [
        Pass(shaped(tensors, f"{stage}/{i}/W", -1, -1), shaped(tensors, f"{stage}/{i}/calibration", -1, -1)) for i in range(count)
    ]
