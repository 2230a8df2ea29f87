"""Runs one peer once on MNIST as a stream: stream.py NAME prints {"rows": …, "seconds": …, "error": …} as JSON.

The rows come in the order of the file. A peer predicts each increment of 1024 rows, or each row, and then learns it. The error is that of the
predictions, in percent, without those of the first increment. The seconds are those of predicting and learning with the features in memory: 50
principal components of the first 5000 images, each divided by its length, or random Fourier features of them."""

import json
import os
import sys
import tempfile
import time
import warnings

import numpy as np

import mnist

INCREMENT, FEATURES = 1024, 1024


def fourier():
    z, y = mnist.stream()
    return mnist.Fourier(z.shape[1], FEATURES, mnist.bandwidth(z[:5000]), seed=1)(z), y


def increments(model, x, y, epochs):
    """Lets a model of scikit-learn learn increment by increment, with so many passes over each."""
    warnings.simplefilter("ignore")
    classes, wrong, began = np.unique(y), np.zeros(len(y), bool), time.perf_counter()
    for i in range(0, len(y), INCREMENT):
        rows, labels = x[i : i + INCREMENT], y[i : i + INCREMENT]
        if i > 0:
            wrong[i : i + INCREMENT] = model.predict(rows) != labels
        for _ in range(epochs):
            model.partial_fit(rows, labels, classes=classes)
    return time.perf_counter() - began, wrong[INCREMENT:]


def sgd(epochs):
    from sklearn.linear_model import SGDClassifier

    return increments(SGDClassifier(loss="log_loss", alpha=1e-6, random_state=1), *fourier(), epochs)


def mlp(epochs):
    from sklearn.neural_network import MLPClassifier

    z, y = mnist.stream()
    return increments(MLPClassifier((256,), random_state=1), z / z[:5000].std(), y, epochs)


def river():
    from river import linear_model, preprocessing

    z, y = mnist.stream()
    model = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()
    rows, labels = [dict(enumerate(map(float, row))) for row in z], y.tolist()
    wrong, began = np.zeros(len(y), bool), time.perf_counter()
    for i, (row, label) in enumerate(zip(rows, labels)):
        wrong[i] = model.predict_one(row) != label
        model.learn_one(row, label)
    return time.perf_counter() - began, wrong[INCREMENT:]


def vowpal():
    """One pass over the binary cache of the features. What it predicts for a row it predicts before it learns it."""
    from vowpalwabbit import Workspace

    from peers import text

    x, y = fourier()
    with tempfile.TemporaryDirectory(dir=os.path.dirname(mnist.FOLDER)) as folder:
        data, cache, out = (os.path.join(folder, n) for n in ("data", "cache", "out"))
        text(data, x, y, lambda c: f"{c + 1} | ")
        options = ["-d", data, "--cache_file", cache, "--oaa", "10", "--loss_function", "logistic", "-b", "18", "--quiet", "--holdout_off"]
        Workspace(arg_list=[*options, "-k"]).finish()  # writes the cache
        began = time.perf_counter()
        Workspace(arg_list=[*options, "-p", out]).finish()
        seconds = time.perf_counter() - began
        predicted = np.loadtxt(out, dtype=np.int64)
    return seconds, (predicted - 1 != y)[INCREMENT:]


PEERS = {
    "river": river, "vowpal": vowpal,
    **{f"sgd {n}": (lambda n=n: sgd(n)) for n in (1, 4, 16)},
    **{f"mlp {n}": (lambda n=n: mlp(n)) for n in (1, 4, 16)},
}

if __name__ == "__main__":
    took, wrong = PEERS[sys.argv[1]]()
    rows = len(wrong) + INCREMENT
    print(json.dumps({"rows": rows, "seconds": round(took, 3), "rows_per_second": round(rows / took), "error": round(100 * float(np.mean(wrong)), 2)}))
