"""The same computations in NumPy, with all data in memory. Arrays are single precision, factors double; NumPy's BLAS may use all cores.

memory.py LINK PASSES prints the seconds and the error as JSON: ten stages of 1024 random Fourier features, each fitted to the residuals of the stages
before it: for softmax by PASSES steps of generalized least squares with the Gram matrix of all rows (Agarwal et al. 2014, Algorithm 1), for identity by
one solve. As in stagewise, each pass also predicts the test rows, and the time includes that of the components and the features.

memory.py chain BLOCKS COLUMNS ROWS REFRESH prints JSON as peers.py stream does: the updates of a chain. Each learns the next ROWS rows of MNIST and
visits the REFRESH increments again that were not visited for longest, in two passes a block. The terms of an increment are replaced by those at the
weights of the last pass (incremental majorisation-minimisation, Mairal 2013), around the curvature that the steps before have met. The seconds are
those of predicting, of the features of blocks and of learning, without the components."""

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


def stages(link, passes):
    began = time.perf_counter()
    x, labels, x_test, labels_test = mnist.components()
    s = mnist.bandwidth(x)
    y = np.eye(10, dtype=np.float32)[labels]
    score, score_test = np.zeros_like(y), np.zeros((len(x_test), 10), np.float32)
    ridge, smoothness = (1e-4, 0.5) if link == "softmax" else (1e-5, 1.0)
    for t in range(STAGES):
        f = mnist.Fourier(x.shape[1], SIZE, s, seed=100 + t)
        z, z_test = f(x), f(x_test)
        gram = (z.T @ z).astype(np.float64) / len(z)
        penalty = ridge * np.trace(gram) / SIZE
        factor = cho_factor(smoothness * gram + penalty * np.eye(SIZE))
        w = np.zeros((SIZE, 10), np.float32)
        for _ in range(passes):
            now = score + z @ w
            residual = y - (softmax(now) if link == "softmax" else now)
            gradient = (z.T @ residual).astype(np.float64) / len(z) - penalty * w
            w += cho_solve(factor, gradient).astype(np.float32)
            predicted = (score_test + z_test @ w).argmax(1)
        score, score_test = score + z @ w, score_test + z_test @ w
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": round(seconds, 3), "error": round(100 * float((predicted != labels_test).mean()), 2)}))


# Chains

PASSES, RIDGE, EARLY, MOST = 2, 1e-4, 10, 0.5  # MOST is the largest curvature of softmax


def losses(z, y):
    """Returns the loss of each row and its gradient in z."""
    z = z - z.max(1, keepdims=True)
    e = np.exp(z)
    total = e.sum(1, keepdims=True)
    return np.log(total[:, 0]) - (z * y).sum(1), e / total - y


class Block:
    def __init__(self, features, p, k):
        self.features, self.met = features, MOST / 2
        self.gram, self.scores, self.gradient = np.zeros((p, p)), np.zeros((p, k)), np.zeros((p, k))
        self.w = np.zeros((p, k), np.float32)

    def visit(self, f, new, y, offset, terms, share, n):
        """Fits the block to rows of increments, the first of which is new, and returns their terms. n is the rows of the stream so far."""
        p = f.shape[1]
        self.gram += f[:new].T @ f[:new]
        curvature = min(MOST, max(self.met, MOST * share / (1 + share)))
        h = curvature * self.gram
        h[np.diag_indices(p)] += RIDGE * max(1, EARLY * p / n) * np.trace(self.gram) / p
        factor = cho_factor(h, lower=True, overwrite_a=True)
        scores, gradient = self.scores - sum(a for a, _ in terms), self.gradient - sum(g for _, g in terms)
        before, met = None, []
        for _ in range(PASSES):
            s = f @ self.w
            loss, d = losses(offset + s, y)
            if before is not None:
                step = s - before[0]
                length = (step * step).sum(dtype=np.float64)
                if length > 1e-6 * len(f):
                    met.append(2 * ((loss - before[1]).sum(dtype=np.float64) - (before[2] * step).sum(dtype=np.float64)) / length)
            before = s, loss, d
            parts = [slice(i, i + new) for i in range(0, len(f), new)]
            terms = [(f[i].T @ s[i], f[i].T @ d[i]) for i in parts]
            self.scores, self.gradient = scores + sum(a for a, _ in terms), gradient + sum(g for _, g in terms)
            self.w = cho_solve(factor, curvature * self.scores - self.gradient).astype(np.float32)
        self.met = max(met, default=self.met)
        return terms


def chain(blocks, columns, rows, refresh):
    z, labels = mnist.stream()
    s, y = mnist.bandwidth(z[:5000]), np.eye(10, dtype=np.float32)[labels]
    fitted = [Block(mnist.Fourier(z.shape[1], columns, s, seed=100 + t), columns, 10) for t in range(blocks)]
    seen, waiting, wrong, began = 0, [], [], time.perf_counter()  # waiting has those first that were not visited for longest
    for i in range(0, len(z) - rows + 1, rows):
        if i:
            scores = sum(b.features(z[i : i + rows]) @ b.w for b in fitted)
            wrong.append(scores.argmax(1) != labels[i : i + rows])
        seen += rows
        visited = [(i, [(0.0, 0.0)] * blocks)] + waiting[:refresh]
        waiting = waiting[refresh:]
        x, targets = np.vstack([z[j : j + rows] for j, _ in visited]), np.vstack([y[j : j + rows] for j, _ in visited])
        offset, terms = np.zeros_like(targets), []
        for t, b in enumerate(fitted):
            f = b.features(x)
            terms.append(b.visit(f, rows, targets, offset, [old[t] for _, old in visited], len(x) / seen, seen))
            offset += f @ b.w
        # the new increment was visited at the same time: it comes after those that were visited again, as it is the youngest
        waiting += [(j, [terms[t][c] for t in range(blocks)]) for c, (j, _) in enumerate(visited) if c > 0] + [(i, [terms[t][0] for t in range(blocks)])]
    seconds = time.perf_counter() - began
    print(json.dumps({"rows": seen, "seconds": round(seconds, 3), "rows_per_second": round(seen / seconds), "error": round(100 * float(np.mean(np.concatenate(wrong))), 2)}))


if __name__ == "__main__":
    if sys.argv[1] == "chain":
        chain(*map(int, sys.argv[2:]))
    else:
        stages(sys.argv[1], int(sys.argv[2]))
