"""Named tensors, as model files and records have them: see "Records" in schemas/FORMAT.md."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .errors import DamagedError

Matrix = npt.NDArray[np.float32]

# Numbers of any shape, or texts.
Tensor = Matrix | list[str]

_COLUMNS = [
    ("tensor", pa.utf8()),
    ("shape", pa.list_(pa.int64())),
    ("offset", pa.int64()),
    ("values", pa.list_(pa.float32())),
    ("text", pa.list_(pa.utf8())),
]


def open_stream(content: Any) -> pa.RecordBatchStreamReader:
    """Returns a reader of an Arrow IPC stream that has tensors, in bytes or in a file."""
    try:
        reader = pa.ipc.open_stream(content)
    except (pa.ArrowException, OSError) as reason:
        raise DamagedError(f"no Arrow stream: {reason}") from reason
    if [(field.name, field.type) for field in reader.schema] != _COLUMNS:
        raise DamagedError(f"an Arrow stream of other columns than weights have: {', '.join(map(str, reader.schema))}")
    return reader


def assemble(readers: Iterable[pa.RecordBatchStreamReader]) -> dict[str, Tensor]:
    """Returns the tensors of the chunks of a record, in their order. A row is a segment of a tensor."""
    shapes: dict[str, list[int]] = {}
    parts: dict[str, list[Matrix]] = {}
    texts: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    last = None
    for reader in readers:
        for row, (name, shape, offset, values, text) in enumerate(_rows(reader)):
            if offset == 0 and name not in shapes:
                shapes[name], parts[name], texts[name], counts[name], last = shape, [], [], 0, name
            if name != last or offset != counts[name]:
                raise DamagedError(f"row {row} of a record does not begin where the row before it ends")
            parts[name].append(values)
            texts[name] += text
            counts[name] += len(values) + len(text)
    return {name: _tensor(name, shape, parts[name], texts[name]) for name, shape in shapes.items()}


def _rows(reader: pa.RecordBatchStreamReader) -> Iterable[tuple[str, list[int], int, Matrix, list[str]]]:
    try:
        for batch in reader:
            batch.validate(full=True)
            names, shapes, offsets, values, texts = batch.columns
            if any(c.null_count for c in (*batch.columns, shapes.values, values.values, texts.values)):
                raise DamagedError("a record has nulls")
            numbers, ends = values.values.to_numpy(), values.offsets.to_numpy()
            rows = zip(names.to_pylist(), shapes.to_pylist(), offsets.to_pylist(), texts.to_pylist(), strict=True)
            for i, (name, shape, offset, text) in enumerate(rows):
                yield name, shape, offset, numbers[ends[i] : ends[i + 1]], text
    except (pa.ArrowException, OSError) as reason:
        raise DamagedError(f"a damaged Arrow stream: {reason}") from reason


def _tensor(name: str, shape: list[int], parts: list[Matrix], text: list[str]) -> Tensor:
    values = np.concatenate(parts)
    if min(shape, default=1) < 0 or int(np.prod(shape, dtype=object)) != len(values) + len(text) or len(values) and text:
        raise DamagedError(f"tensor {name!r} of shape {shape} has {len(values) + len(text)} values")
    return text if text else values.reshape(shape)


def shaped(tensors: Mapping[str, Tensor], name: str, *shape: int) -> Matrix:
    """Returns the numbers of a tensor that must have this shape; −1 is any length."""
    tensor = tensors.get(name)
    if tensor is None:
        raise DamagedError(f"tensor {name!r} is absent")
    if isinstance(tensor, list):
        raise DamagedError(f"tensor {name!r} has texts, expected numbers")
    if len(tensor.shape) != len(shape) or any(want not in (-1, got) for want, got in zip(shape, tensor.shape, strict=True)):
        raise DamagedError(f"tensor {name!r} has shape {list(tensor.shape)}, expected {list(shape)}")
    return tensor


def little_endian(values: Matrix) -> bytes:
    return values.astype("<f4", copy=False).tobytes()


def digest_of(tensors: Iterable[Tensor]) -> str:
    """Returns the digest of a version, `weights_digest`: that of its tensors in the order of its file."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update("\n".join(tensor).encode() if isinstance(tensor, list) else little_endian(tensor))
    return digest.hexdigest()
