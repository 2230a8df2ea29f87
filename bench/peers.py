"""Runs one peer once, and prints {"seconds": …, "error": …} as JSON.

peers.py NAME fits MNIST's training rows. The seconds are those of fitting with the features in memory and, for nearest neighbours, of predicting
too, without those of making the features, reading files and starting a JVM. The error is that of the test rows, in percent.

peers.py stream NAME predicts each increment of 1024 training rows, or each row, and then learns it. The error is that of these predictions, without
those of the first increment, the seconds are those of predicting and learning; "rows" and "rows_per_second" are printed too. The features are 50
principal components of the first 5000 images, each divided by its length, or random Fourier features of them."""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

import mnist

# numbers of features: for the linear learners, for RidgeClassifier, and of the 50 components themselves
LINEAR, WIDE, COMPONENTS = 1024, 4000, 0

INCREMENT = 1024
TIMEOUT = 180  # seconds after which liblinear is stopped

# scikit-learn's models, their parameters, and the number of features. alpha of ridge penalizes a sum over rows, stagewise's ridge a mean over rows and
# features; this alpha is a ridge of 1e-5.
MODELS = {
    "ridge": ("linear_model.RidgeClassifier", {"alpha": 1e-5 * 60000 / WIDE}, WIDE),
    "logistic": ("linear_model.LogisticRegression", {"C": 100, "max_iter": 100}, LINEAR),
    "sgd": ("linear_model.SGDClassifier", {"loss": "log_loss", "alpha": 1e-6, "random_state": 1}, LINEAR),
    "mlp": ("neural_network.MLPClassifier", {"hidden_layer_sizes": (256,), "max_iter": 10, "random_state": 1}, COMPONENTS),
    "neighbors": ("neighbors.KNeighborsClassifier", {"n_neighbors": 3}, COMPONENTS),
    "svc": ("svm.SVC", {"C": 10}, COMPONENTS),
}


def model_of(name):
    path, parameters, size = MODELS[name]
    module, _, kind = path.partition(".")
    return getattr(importlib.import_module("sklearn." + module), kind)(**parameters), size


def features(size):
    x, y, x_test, y_test = mnist.components()
    if size != COMPONENTS:
        f = mnist.Fourier(x.shape[1], size, mnist.bandwidth(x), seed=1)
        x, x_test = f(x), f(x_test)
    return x, y, x_test, y_test


def scikit(name):
    model, size = model_of(name)
    if hasattr(model, "n_jobs"):
        model.n_jobs = -1
    x, y, x_test, y_test = features(size)
    began = time.perf_counter()
    model.fit(x, y)
    fitted = time.perf_counter()
    predicted = model.predict(x_test)
    return (time.perf_counter() if name == "neighbors" else fitted) - began, predicted != y_test


def text(path, x, y, label):
    """Writes rows as text with indices from 1, the format of liblinear and Vowpal Wabbit."""
    row = " ".join(f"{j + 1}:%.5g" for j in range(x.shape[1])) + "\n"
    with open(path, "w") as f:
        for values, c in zip(x, y):
            f.write(label(c) + row % tuple(values))


def work():
    """Returns a temporary folder for large files."""
    return tempfile.TemporaryDirectory(dir=os.path.dirname(mnist.FOLDER))


def liblinear(solver):
    x, y, x_test, y_test = features(LINEAR)
    with work() as folder:
        train, test, model, out = (os.path.join(folder, n) for n in ("train", "test", "model", "out"))
        text(train, x, y, "{} ".format)
        text(test, x_test, y_test, "{} ".format)

        def fit(*options):
            began = time.perf_counter()
            subprocess.run(["liblinear-train", "-q", "-s", solver, "-c", "10", *options, train, model], check=True, timeout=TIMEOUT)
            return time.perf_counter() - began

        # with such a tolerance it stops at once, so this is the time to read the file
        reading = fit("-e", "1e30")
        seconds = fit() - reading
        subprocess.run(["liblinear-predict", test, model, out], check=True, stdout=subprocess.DEVNULL)
        return seconds, np.loadtxt(out, dtype=np.int64) != y_test


def wabbit(folder, x, y):
    """Writes rows for Vowpal Wabbit, and returns a function that makes a model, which learns them from a binary cache, and the seconds that takes."""
    from vowpalwabbit import Workspace

    train, cache = os.path.join(folder, "train"), os.path.join(folder, "cache")
    text(train, x, y, lambda c: f"{c + 1} | ")
    options = ["-d", train, "--cache_file", cache, "--oaa", "10", "--loss_function", "logistic", "-b", "18", "--quiet", "--holdout_off"]

    def learn(*further):
        began = time.perf_counter()
        return Workspace(arg_list=[*options, *further]), time.perf_counter() - began

    return learn


def vowpal():
    x, y, x_test, y_test = features(LINEAR)
    with work() as folder:
        learn = wabbit(folder, x, y)
        first, reading = learn("-k", "--passes", "1")  # this pass reads text and writes the cache: only those after it are counted
        first.finish()
        vw, seconds = learn("-k", "--passes", "5")
        predicted = [vw.predict("| " + " ".join(f"{j + 1}:{v:.5g}" for j, v in enumerate(row))) for row in x_test]
        vw.finish()
    return seconds - reading, np.array(predicted) - 1 != y_test


def spark():
    import pyarrow as arrow
    import pyarrow.parquet as parquet
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import SparkSession

    x, y, x_test, y_test = features(LINEAR)
    builder = SparkSession.builder.master(f"local[{os.cpu_count()}]")
    for key, value in {"driver.memory": "8g", "ui.enabled": "false", "ui.showConsoleProgress": "false", "driver.bindAddress": "127.0.0.1",
                       "driver.host": "127.0.0.1"}.items():
        builder = builder.config("spark." + key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    with work() as folder:

        def frame(name, x, y):
            rows = arrow.FixedSizeListArray.from_arrays(arrow.array(x.ravel().astype(np.float64)), x.shape[1]).cast(arrow.list_(arrow.float64()))
            path = os.path.join(folder, name)
            parquet.write_table(arrow.table({"values": rows, "label": arrow.array(y.astype(np.float64))}), path, row_group_size=5000)
            f = session.read.parquet(path)
            f = f.select(array_to_vector("values").alias("features"), "label").repartition(4).cache()
            f.count()
            return f

        train, test = frame("train.parquet", x, y), frame("test.parquet", x_test, y_test)
        began = time.perf_counter()
        model = LogisticRegression(maxIter=50, regParam=1e-6, standardization=False).fit(train)
        seconds = time.perf_counter() - began
        wrong = [r.prediction != r.label for r in model.transform(test).select("prediction", "label").collect()]
        session.stop()
    return seconds, np.array(wrong)


# MNIST as a stream


def fourier():
    z, y = mnist.stream()
    return mnist.Fourier(z.shape[1], LINEAR, mnist.bandwidth(z[:5000]), seed=1)(z), y


def increments(name, epochs):
    """Lets a model of scikit-learn learn increment by increment, with so many passes over each."""
    x, y = fourier() if name == "sgd" else mnist.stream()
    x = x if name == "sgd" else x / x[:5000].std()
    model, _ = model_of(name)
    classes, wrong, began = np.unique(y), np.zeros(len(y), bool), time.perf_counter()
    for i in range(0, len(y), INCREMENT):
        rows, labels = x[i : i + INCREMENT], y[i : i + INCREMENT]
        if i > 0:
            wrong[i : i + INCREMENT] = model.predict(rows) != labels
        for _ in range(int(epochs)):
            model.partial_fit(rows, labels, classes=classes)
    return time.perf_counter() - began, wrong


def river():
    from river import linear_model, preprocessing

    z, y = mnist.stream()
    model = preprocessing.StandardScaler() | linear_model.SoftmaxRegression()
    rows, labels = [dict(enumerate(map(float, row))) for row in z], y.tolist()
    wrong, began = np.zeros(len(y), bool), time.perf_counter()
    for i, (row, label) in enumerate(zip(rows, labels)):
        wrong[i] = model.predict_one(row) != label
        model.learn_one(row, label)
    return time.perf_counter() - began, wrong


def vowpal_once():
    """One pass over the binary cache of the features. What it predicts for a row it predicts before it learns it."""
    x, y = fourier()
    with work() as folder:
        learn, out = wabbit(folder, x, y), os.path.join(folder, "out")
        learn("-k")[0].finish()  # writes the cache
        began = time.perf_counter()
        learn("-p", out)[0].finish()
        return time.perf_counter() - began, np.loadtxt(out, dtype=np.int64) - 1 != y


def main(name, *arguments):
    if name == "stream":
        name, *arguments = arguments[0].split()
        seconds, wrong = {"river": river, "vowpal": vowpal_once}[name]() if not arguments else increments(name, *arguments)
        speed = {"rows": len(wrong), "rows_per_second": round(len(wrong) / seconds)}
        wrong = wrong[INCREMENT:]
    else:
        name, *solver = name.split()
        others, speed = {"liblinear": liblinear, "vowpal": vowpal, "spark": spark}, {}
        seconds, wrong = others[name](*solver) if name in others else scikit(name)
    print(json.dumps({**speed, "seconds": round(seconds, 3), "error": round(100 * float(np.mean(wrong)), 2)}))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # the warnings that 100 iterations do not converge
    try:
        main(*sys.argv[1:])
    except subprocess.TimeoutExpired:
        sys.exit(f"{sys.argv[1]} has not finished after {TIMEOUT} s")
