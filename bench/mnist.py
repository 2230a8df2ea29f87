"""MNIST for the peers, in memory: principal components and random Fourier features, made as stagewise makes them."""

import os

import numpy as np

COMPONENTS = 50
FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), ".demo", "mnist")


def idx(name):
    with open(os.path.join(FOLDER, name), "rb") as f:
        raw = f.read()
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def images():
    """Returns the train rows (float32, 0 to 1), their classes, the test rows and their classes."""
    parts = []
    for part in ("train", "t10k"):
        x = idx(f"{part}-images-idx3-ubyte")
        parts += [x.reshape(len(x), -1).astype(np.float32) / 255, idx(f"{part}-labels-idx1-ubyte").astype(np.int64)]
    return parts


def principal(x):
    """Returns the mean of rows and their principal directions."""
    mean = x.mean(0)
    centered = x - mean
    _, vectors = np.linalg.eigh((centered.T @ centered / len(x)).astype(np.float64))
    return mean, vectors[:, ::-1][:, :COMPONENTS].astype(np.float32)


def components():
    """Returns the rows and classes like images, projected onto the principal components of the train rows."""
    x, y, x_test, y_test = images()
    mean, basis = principal(x)
    return (x - mean) @ basis, y, (x_test - mean) @ basis, y_test


def stream():
    """Returns the train rows, each divided by its length, projected onto the principal components of the first 5000, and their classes."""
    x, y, _, _ = images()
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    mean, basis = principal(x[:5000])
    return (x - mean) @ basis, y


def bandwidth(x):
    """Returns the s of the kernel exp(-|x - x'|^2 / s): twice the median squared distance between 2000 rows."""
    a = x[np.random.default_rng(0).choice(len(x), 2000, replace=False)]
    squares = (a * a).sum(1)
    distances = squares[:, None] + squares[None] - 2 * a @ a.T
    return 2 * float(np.median(distances[np.triu_indices(len(a), 1)]))


class Fourier:
    """Random Fourier features of the kernel exp(-|x - x'|^2 / s) (Rahimi and Recht 2007)."""

    def __init__(self, inputs, size, s, seed):
        random = np.random.default_rng(seed)
        self.directions = (random.standard_normal((inputs, size)) * np.sqrt(2 / s)).astype(np.float32)
        self.offsets = random.uniform(0, 2 * np.pi, size).astype(np.float32)
        self.scale = np.float32(np.sqrt(2 / size))

    def __call__(self, x):
        z = x @ self.directions
        z += self.offsets
        np.cos(z, out=z)
        z *= self.scale
        return z
