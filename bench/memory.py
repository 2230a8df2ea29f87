"""The same computation in NumPy, with all data in memory: memory.py LINK PASSES prints the seconds and the error as JSON.

Ten stages of 1024 random Fourier features, each fitted to the residuals of the stages before it: for softmax by PASSES steps
of generalized least squares with the Gram matrix of all rows (Agarwal et al. 2014, Algorithm 1), for identity by one solve.
Arrays are single precision, factors double; NumPy's BLAS may use all cores. As in stagewise, each pass also predicts the
test rows, and the time includes that of the components and the features."""

import json
import sys
import time

import numpy as np
from scipy.linalg import cho_factor, cho_solve

import mnist

STAGES, SIZE = 10, 1024


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    e /= e.sum(1, keepdims=True)
    return e


def stage(z, z_test, y, score, score_test, link, passes, ridge, smoothness):
    gram = (z.T @ z).astype(np.float64) / len(z)
    penalty = ridge * np.trace(gram) / z.shape[1]
    factor = cho_factor(smoothness * gram + penalty * np.eye(len(gram)))
    w = np.zeros((z.shape[1], y.shape[1]), np.float32)
    for _ in range(passes):
        now = score + z @ w
        residual = y - (softmax(now) if link == "softmax" else now)
        gradient = (z.T @ residual).astype(np.float64) / len(z) - penalty * w
        w += cho_solve(factor, gradient).astype(np.float32)
        wrong = (score_test + z_test @ w).argmax(1)
    return score + z @ w, score_test + z_test @ w, wrong


def main(link, passes):
    began = time.perf_counter()
    x, labels, x_test, labels_test = mnist.components()
    s = mnist.bandwidth(x)
    y = np.eye(10, dtype=np.float32)[labels]
    score, score_test = np.zeros_like(y), np.zeros((len(x_test), 10), np.float32)
    ridge, smoothness = (1e-4, 0.5) if link == "softmax" else (1e-5, 1.0)
    for t in range(STAGES):
        f = mnist.Fourier(x.shape[1], SIZE, s, seed=100 + t)
        score, score_test, predicted = stage(f(x), f(x_test), y, score, score_test, link, passes, ridge, smoothness)
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": round(seconds, 3), "error": round(100 * float((predicted != labels_test).mean()), 2)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
