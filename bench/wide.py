"""Writes rows of very many columns, as a hash of words makes them: wide.py FILE ROWS COLUMNS. An Arrow file of lists of index and value, 100 a row: small
indices are more frequent, as the square of a uniform number is small more often. The label is the sign of the sum of the values, each with the sign of its
column, which is the parity of the column's number times an odd number."""

import sys

import numpy as np
import pyarrow as pa

PER_ROW, PART = 100, 50_000


def part(random, rows, columns):
    index = np.sort((random.random((rows, PER_ROW)) ** 2 * (columns - PER_ROW)).astype(np.int32), axis=1) + np.arange(PER_ROW, dtype=np.int32)  # ascending
    value = random.exponential(1, (rows, PER_ROW)).astype(np.float32)
    sign = 1 - 2 * ((index.astype(np.uint32) * np.uint32(2654435761)) >> 31).astype(np.float32)
    lists = pa.ListArray.from_arrays(np.arange(0, rows * PER_ROW + 1, PER_ROW, dtype=np.int32),
                                     pa.StructArray.from_arrays([pa.array(index.ravel()), pa.array(value.ravel())], names=["index", "value"]))
    return pa.record_batch([pa.array(np.where((sign * value).sum(axis=1) > 0, "more", "less")), lists], names=["label", "features"])


def main(name, rows, columns):
    random = np.random.default_rng(1)
    first = part(random, PART, columns)
    with pa.OSFile(name, "wb") as file, pa.ipc.new_file(file, first.schema) as out:
        out.write(first)
        for _ in range(rows // PART - 1):
            out.write(part(random, PART, columns))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
