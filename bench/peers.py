"""Runs one peer once: peers.py NAME prints {"seconds": …, "error": …} as JSON.

The seconds are those of fitting with the features in memory and, for nearest neighbours, of predicting too. They do not
include making the features, reading files and starting a JVM. The error is that of the test rows, in percent."""

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

import mnist

# numbers of features: for the linear learners, and for RidgeClassifier
LINEAR, WIDE = 1024, 4000

# seconds after which liblinear is stopped
TIMEOUT = 180


def features(size):
    x, y, x_test, y_test = mnist.components()
    f = mnist.Fourier(x.shape[1], size, mnist.bandwidth(x), seed=1)
    return f(x), y, f(x_test), y_test


def scikit(model, data, count_prediction=False):
    x, y, x_test, y_test = data
    warnings.simplefilter("ignore")  # the warnings that 100 iterations do not converge
    began = time.perf_counter()
    model.fit(x, y)
    seconds = time.perf_counter() - began
    predicted = model.predict(x_test)
    if count_prediction:
        seconds = time.perf_counter() - began
    return seconds, predicted != y_test


def ridge():
    from sklearn.linear_model import RidgeClassifier

    # alpha penalizes a sum over rows, stagewise's ridge a mean over rows and features; this alpha is a ridge of 1e-5
    return scikit(RidgeClassifier(alpha=1e-5 * 60000 / WIDE), features(WIDE))


def logistic():
    from sklearn.linear_model import LogisticRegression

    return scikit(LogisticRegression(C=100, max_iter=100), features(LINEAR))


def sgd():
    from sklearn.linear_model import SGDClassifier

    return scikit(SGDClassifier(loss="log_loss", alpha=1e-6, n_jobs=-1, random_state=1), features(LINEAR))


def mlp():
    from sklearn.neural_network import MLPClassifier

    return scikit(MLPClassifier((256,), max_iter=10, random_state=1), mnist.components())


def neighbors():
    from sklearn.neighbors import KNeighborsClassifier

    return scikit(KNeighborsClassifier(3, n_jobs=-1), mnist.components(), count_prediction=True)


def svc():
    from sklearn.svm import SVC

    return scikit(SVC(C=10), mnist.components())


def text(path, x, y, label):
    """Writes rows as text with indices from 1, the format of liblinear and Vowpal Wabbit."""
    columns = [f"{j + 1}:%.5g" for j in range(x.shape[1])]
    row = " ".join(columns) + "\n"
    with open(path, "w") as f:
        for values, c in zip(x, y):
            f.write(label(c) + row % tuple(values))


def work():
    """Returns a temporary folder for large files."""
    return tempfile.TemporaryDirectory(dir=os.path.join(mnist.FOLDER, ".."))


def liblinear(solver):
    x, y, x_test, y_test = features(LINEAR)
    with work() as folder:
        train, test, model, out = (os.path.join(folder, n) for n in ("train", "test", "model", "out"))
        text(train, x, y, lambda c: f"{c} ")
        text(test, x_test, y_test, lambda c: f"{c} ")

        def fit(*options):
            began = time.perf_counter()
            subprocess.run(["liblinear-train", "-q", "-s", solver, "-c", "10", *options, train, model], check=True, timeout=TIMEOUT)
            return time.perf_counter() - began

        # with such a tolerance it stops at once, so this is the time to read the file
        reading = fit("-e", "1e30")
        seconds = fit() - reading
        subprocess.run(["liblinear-predict", test, model, out], check=True, stdout=subprocess.DEVNULL)
        with open(out) as f:
            predicted = np.array([int(line) for line in f])
    return seconds, predicted != y_test


def vowpal():
    from vowpalwabbit import Workspace

    passes = 5
    x, y, x_test, y_test = features(LINEAR)
    with work() as folder:
        train, cache = os.path.join(folder, "train"), os.path.join(folder, "cache")
        text(train, x, y, lambda c: f"{c + 1} | ")
        # The first pass reads text and writes the cache of binary features. Only the passes after it are counted.
        once = ["-d", train, "--cache_file", cache, "-k", "--oaa", "10", "--loss_function", "logistic", "-b", "18", "--quiet", "--holdout_off"]

        def fit(n):
            began = time.perf_counter()
            vw = Workspace(arg_list=[*once, "--passes", str(n)])  # the constructor learns from the file
            return vw, time.perf_counter() - began

        first, reading = fit(1)
        first.finish()
        vw, seconds = fit(passes)
        predicted = [vw.predict("| " + " ".join(f"{j + 1}:{v:.5g}" for j, v in enumerate(row))) for row in x_test]
        vw.finish()
    return seconds - reading, np.array(predicted) - 1 != y_test


def spark():
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import SparkSession

    x, y, x_test, y_test = features(LINEAR)
    session = (
        SparkSession.builder.master(f"local[{os.cpu_count()}]")
        .config("spark.driver.memory", "8g").config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1").getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    with work() as folder:

        def frame(name, x, y):
            import pyarrow as arrow
            import pyarrow.parquet as parquet

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


PEERS = {
    "ridge": ridge, "logistic": logistic, "sgd": sgd, "mlp": mlp, "neighbors": neighbors, "svc": svc, "vowpal": vowpal, "spark": spark,
    **{f"liblinear {s}": (lambda s=s: liblinear(s)) for s in ("1", "2", "3", "7")},
}

if __name__ == "__main__":
    try:
        took, wrong = PEERS[sys.argv[1]]()
    except subprocess.TimeoutExpired:
        sys.exit(f"{sys.argv[1]} has not finished after {TIMEOUT} s")
    print(json.dumps({"seconds": round(took, 3), "error": round(100 * float(np.mean(wrong)), 2)}))
