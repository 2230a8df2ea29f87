"""make paper: the experiments of *Least Squares Revisited* (Agarwal, Kakade, Karampatziakis, Song, Valiant, ICML 2014) on data that is here, beside the
paper's figures. It writes bench/paper.md. Its comparison with Vowpal Wabbit and liblinear is in bench/table.md.

MNIST is fetched. NEWS20 and RCV1 are on no registry of packages: `--news20 FOLDER` has news20.bz2 and news20.t.bz2 of the LIBSVM collection, `--rcv1 FILE`
a sample of RCV1 in the same format. Without them the page says that they are left out."""

import argparse
import bz2
import gzip
import json
import os
import shutil
import statistics

import numpy as np
import run as bench
from run import DATA, HERE, REPORT, WORK, read, write

# error on the test rows in percent, from the paper
PAPER = {"identity": 14.1, "softmax": 7.8, "calibrated": 8.1, "news20": 11.7, "news20, vw": 12.4, "news20, liblinear": 13.8, "rcv1": 2.77}


def stage(kind, link, *keys):
    return [f"stages=[{{features: {kind}, link: {link}, {', '.join(k.replace('=', ': ') for k in keys)}}}]"]


# what is trained on MNIST, and the paper's error
PIXELS = {"identity": ["passes=1", "ridge=1e-5"], "softmax": ["passes=200", "ridge=1e-3"], "calibrated": ["passes=40", "ridge=1e-5"]}
FOURIER = {"identity": ["ridge=1e-5"], "calibrated": ["passes=6", "ridge=1e-5"], "softmax": ["passes=12", "ridge=1e-4"]}
IMAGES = [(f"MNIST, the 784 pixels, `{link}`", PAPER[link], ["prepare.pca=0", *stage("{kind: columns}", link, *keys)]) for link, keys in PIXELS.items()]
IMAGES += [(f"MNIST, {size} Fourier features of 50 components, `{link}`", None, stage(f"{{kind: rff, size: {size}, bandwidth_scale: 2}}", link, *keys))
           for size in (4000, 8000) for link, keys in FOURIER.items()]
# what is tried for sparse rows: least squares with preparations of counts of words, and of features as they are, each with few passes and with more, as
# conjugate gradients that end early are a ridge too; then with the best of these other ridges and passes, and logistic regression with its preparation
PREPARATIONS = (*(f"{{values: log1p, idf: {idf}, scale: unit}}" for idf in (1, 1.5, 2, 2.5)), "{}")
LEAST_SQUARES = "identity, method: cg"
FIRST = [(LEAST_SQUARES, "auto", passes) for passes in (5, 12)]
MORE_PASSES = (6, 8, 40)
RIDGES = (6, 12)
LOGISTIC = [("softmax, method: lbfgs", ridge, 20) for ridge in (0.1, 0.2, 0.4)]
HELD, DRAWS = 0.2, 3  # part of the training rows that a choice is made by, and how often they are drawn
SPLITS, TRAIN = 5, 15_000  # of NEWS20, as the paper splits it


def images(b):
    """Least squares, logistic regression and calibrated least squares on the pixels, and on 4000 and 8000 random Fourier features of them."""
    table = []
    for title, paper, settings in IMAGES:
        for _ in range(b.repeat):
            b.train(title, *settings)
        table.append((title, b.median(title, "error"), paper, b.median(title)))
    return table


def lines_of(*paths):
    lines = []
    for path in paths:
        with {"bz2": bz2, "gz": gzip}[path.rpartition(".")[2]].open(path, "rt") as f:
            lines += f.read().splitlines()
    return lines


def text(b, name, lines, train, title):
    """Columns, then naive Bayes, on random splits. The preparation, the link, the ridge, the passes and the weight of naive Bayes are those that are best on training rows that are held
    out, of several draws; then all are fitted. LinearSVC has the features as they are, or by their logarithms and inverse document frequencies, and the C of 0.1, 0.3 and 1: what is best on
    a tenth of the training rows."""
    folder = os.path.join(WORK, "text")
    os.makedirs(folder, exist_ok=True)
    for split in range(SPLITS if train > 1 else 3):
        order = np.random.RandomState(split + 1).permutation(len(lines))
        count = train if train > 1 else int(train * len(lines))
        for part, rows in (("train", order[:count]), ("test", order[count:])):
            write(os.path.join(folder, part), "".join(lines[i] + "\n" for i in rows))
        best = min((held(folder, prepare, fit) for prepare in PREPARATIONS for fit in FIRST), key=lambda c: c["holdout"])
        _, ridge, passes = best["fit"]
        others = [*((LEAST_SQUARES, ridge, n) for n in MORE_PASSES), *((LEAST_SQUARES, r, passes) for r in RIDGES), *LOGISTIC]
        best = min([best, *(held(folder, best["prepare"], fit) for fit in others)], key=lambda c: c["holdout"])
        b.keep(name, {**counted(folder, best["prepare"], best["fit"], best["weight"]), **best})
        b.keep(f"{name}, LinearSVC", linear_svc(folder))

    def mean(key):
        return statistics.mean(r["error"] for r in b.raw[key])

    table = [(f"{title}: all columns, and naive Bayes", mean(name), PAPER[name], b.median(name)), (f"{title}: LinearSVC", mean(f"{name}, LinearSVC"), None, b.median(f"{name}, LinearSVC"))]
    for other in ("vw", "liblinear"):
        if f"{name}, {other}" in PAPER:
            table.append((f"{title}: {other} in the paper", None, PAPER[f"{name}, {other}"], None))
    return table


def held(folder, prepare, fit):
    """The mean error on held-out rows of several draws, and the mean of the weights that are best there."""
    draws = [counted(folder, prepare, fit, seed=seed) for seed in range(DRAWS)]
    weight = 0 if statistics.median(r["weight"] for r in draws) == 0 else statistics.geometric_mean(r["weight"] for r in draws if r["weight"] > 0)
    return {"prepare": prepare, "fit": fit, "weight": weight, "holdout": statistics.mean(r["holdout"] for r in draws)}


def counted(folder, prepare, fit, weight="auto", seed=0):
    link, ridge, passes = fit
    shutil.rmtree(DATA, ignore_errors=True)
    config = write(os.path.join(folder, "text.yaml"), f"name: text\nseed: {seed}\ndata_dir: {DATA}\n"
                   f"examples: {{train: train, test: test, format: libsvm, partitions: 1, holdout: {HELD if weight == 'auto' else 0}}}\nprepare: {prepare}\n"
                   f"stages:\n- {{features: {{kind: columns}}, link: {link}, ridge: {ridge}, passes: {passes}}}\n"
                   f"- {{features: {{kind: class_counts, weight: {weight}}}, link: {link.partition(',')[0]}}}\n")
    bench.call([bench.BINARY, "train", "-c", config, "--quiet", "--report", REPORT])
    r = json.loads(read(REPORT))
    return {"seconds": r["seconds"], "error": r["test_error"], "holdout": r["stages"][-1].get("holdout_error"), "weight": r["stages"][-1]["weight"]}


def linear_svc(folder):
    from sklearn.datasets import load_svmlight_files
    from sklearn.feature_extraction.text import TfidfTransformer
    from sklearn.model_selection import GridSearchCV, ShuffleSplit
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer
    from sklearn.svm import LinearSVC

    x, y, x_test, y_test = load_svmlight_files([os.path.join(folder, part) for part in ("train", "test")])
    for rows in (x, x_test):  # liblinear has indices of 32 bits
        rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    steps = Pipeline([("counts", FunctionTransformer(lambda x: x.log1p())), ("words", TfidfTransformer()), ("svc", LinearSVC())])
    choices = {"svc__C": (0.1, 0.3, 1)}
    search = GridSearchCV(steps, [{"counts": ["passthrough"], "words": ["passthrough"], **choices}, choices], cv=ShuffleSplit(1, test_size=0.1, random_state=1), error_score="raise")
    search.fit(x, y)
    return {"seconds": search.refit_time_, "error": 100 * float((search.predict(x_test) != y_test).mean()), "C": search.best_params_["svc__C"]}


def page(b, table, left_out):
    def cell(value, form):
        return form.format(value) if value is not None else ""

    m = b.machine
    lines = ["# The paper's experiments", "",
             "Test errors for the experiments of *Least Squares Revisited* (ICML 2014) on locally available data, next to the published figures. Written by `make paper`.", "",
             "| experiment | error | the paper | seconds |", "|---|---|---|---|"]
    lines += [f"| {title} | {cell(error, '{:.2f} %')} | {cell(paper, '{:g} %')} | {cell(seconds, '{:.1f}')} |" for title, error, paper, seconds in table]
    lines += ["", *left_out, f"{m['processor']}, {m['cores']} cores, {m['blas']}, {m['date']}, commit {m['commit']}; medians of {b.repeat}; errors are means over splits. "
              "Times of stagewise are from topic to version; other libraries fit data in memory, single-threaded ones on one core.", ""]
    print(read(write(os.path.join(HERE, "paper.md"), "\n".join(lines))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each (3)")
    parser.add_argument("--news20", help="folder with news20.bz2 and news20.t.bz2")
    parser.add_argument("--rcv1", help="file with a sample of RCV1 in LIBSVM format, .gz or .bz2")
    options = parser.parse_args()
    b = bench.Bench(options.repeat)
    b.write = lambda: None
    b.machine = bench.machine()
    table, left_out = images(b), []
    if options.news20:
        lines = lines_of(*(os.path.join(options.news20, name) for name in ("news20.bz2", "news20.t.bz2")))
        table += text(b, "news20", lines, TRAIN, f"NEWS20, {SPLITS} splits of {TRAIN:,} and {len(lines) - TRAIN:,}")
    else:
        left_out += ["NEWS20 is left out: run `make paper ARGS=\"--news20 FOLDER\"` to include it.", ""]
    if options.rcv1:
        lines = lines_of(options.rcv1)
        table += text(b, "rcv1", lines, 0.9, f"a sample of RCV1, {len(lines):,} rows, three splits of 90 and 10 %")
    else:
        left_out += ["RCV1 is left out: run `make paper ARGS=\"--rcv1 FILE\"` to include a sample of it.", ""]
    page(b, table, left_out)
