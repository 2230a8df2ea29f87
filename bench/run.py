"""make bench: compares stagewise with its kernel floor and its peers on this machine.

All that is compared runs in turn, three times or --repeat times, and the medians are compared. The raw measurements go to
bench/results.json, the table to bench/table.md, some of its lines to README.md, the figure to bench/figure.svg. scripts/bench.sh installs what
this needs."""

import argparse
import contextlib
import csv
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time

import numpy as np
from tables import TABLES as SETS

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
WORK = os.path.join(ROOT, ".demo", "bench")
BINARY, FLOOR = os.path.join(ROOT, "bin", "stagewise"), os.path.join(WORK, "floor")
LINEAR = ["logistic", "sgd", "vowpal", "spark"]
SOLVERS = ["1", "2", "3", "7"]
ALL = 60_000
# of chains of versions: blocks, their columns, rows of an update, increments that it visits again
CHAINS = {"1 × 512": (1, 512, 4096, 0), "2 × 1024": (2, 1024, 2048, 2), "8 × 1024": (8, 1024, 1024, 4)}
STREAMS = {"river": "River, softmax regression", "vowpal": "Vowpal Wabbit, 1024 features, one pass",
           **{f"sgd {n}": f"`SGDClassifier`, 1024 features, {n} {'pass' if n == 1 else 'passes'} over an increment" for n in (1, 4, 16)},
           **{f"mlp {n}": f"`MLPClassifier`, {n} {'pass' if n == 1 else 'passes'} over an increment" for n in (1, 4, 16)}}
# learners of tables, and the heads of their columns
OURS = {"trees × 4": "4 blocks of trees", "trees × 22": "22 blocks of trees", "stages left out": "`stages` left out"}
TABULAR = {**OURS, "lightgbm": "LightGBM", "xgboost": "XGBoost", "catboost": "CatBoost", "histogram": "`HistGradientBoosting`", "forest": "`RandomForest`",
           "extra": "`ExtraTrees`", "mlp": "`MLPClassifier`"}
# width of a patch, filters and blocks of the runs on patches of images
PATCHES = {"patches, 32 filters": (7, 32, 1), "patches, one block": (9, 128, 1), "patches, four blocks": (9, 128, 4)}
# the products of one block of 128 filters of 9 × 9 pixels, at 400 places of an image, whose responses are added up over 16 cells by sign
PATCH_PRODUCTS = ["-positions", "400", "-patch-values", "81", "-filters", "128", "-columns", "4096"]
# what this program writes
README, TABLES = os.path.join(ROOT, "README.md"), os.path.join(ROOT, "bench", "tables.md")
RESULTS, TABLE, FIGURE = (os.path.join(HERE, name) for name in ("results.json", "table.md", "figure.svg"))
# memory in megabytes for rows of ten million columns: the matrices of the run take 2240
WIDE = 2500
GOOD = 0.75  # error in percent to which the network and ours are timed
# columns of the blocks of the runs with 4 passes, which reach a given error sooner
SIZES = (768, 1024, 1536, 3072)


def say(*words):
    print("bench:", *words, flush=True)


def call(command, **options):
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr.strip()}")
    return done


def peak(command, env=None):
    """Runs a command and returns its peak memory in bytes."""
    with open(os.devnull, "w") as nowhere:
        child = subprocess.Popen(command, cwd=ROOT, stdout=nowhere, stderr=nowhere, env=env)
        _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        raise RuntimeError(f"{' '.join(command)}: status {status}")
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def pinned(command, cores):
    return ["taskset", "-c", cores, *command] if cores else command


def floor_command(passes, gram_rows, link, own, *further):
    return [FLOOR, "-passes", ",".join(map(str, passes)), "-gram-rows", str(gram_rows), "-link", link, f"-own={str(own).lower()}", *further]


class Bench:
    def __init__(self, repeat):
        self.repeat = repeat
        self.raw = {}  # name: list of runs

    def keep(self, name, value):
        self.raw.setdefault(name, []).append(value)
        self.write()
        return value

    def write(self):
        with open(RESULTS, "w") as f:
            lines = [f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(run) for run in runs) + "]" for name, runs in self.raw.items()]
            f.write(f'{{"machine": {json.dumps(self.machine)},\n"runs": {{\n' + ",\n".join(lines) + "}}\n")

    def load(self):
        with open(RESULTS) as f:
            saved = json.load(f)
        self.machine, self.raw = saved["machine"], saved["runs"]
        self.repeat = len(self.raw["auto"])

    def median(self, name, key="seconds"):
        return statistics.median(run[key] for run in self.raw[name])

    def ratio(self, above, below):
        """Returns the median of the ratios of the seconds of runs made in turn."""
        return statistics.median(a["seconds"] / b["seconds"] for a, b in zip(self.raw[above], self.raw[below]))

    # stagewise itself

    def train(self, name, *settings, cores=None, config="examples/mnist.yaml", flags=(), env=None):
        """Makes one run from files to weights. Its curve has the seconds since the plan and the test error, after each pass."""
        data = os.path.join(WORK, "data")
        shutil.rmtree(data, ignore_errors=True)
        report = os.path.join(WORK, "report.json")
        command = [BINARY, "train", "-c", config, "--log", "json", "--report", report, "--set", f"data_dir={data}", *flags]
        for s in settings:
            command += ["--set", s]
        done = call(pinned(command, cores), env=env)
        with open(report) as f:
            r = json.load(f)
        events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        began = next(stamp(e) for e in events if e["msg"] == "began")
        curve = [[round(stamp(e) - began, 3), e["test_error"]] for e in events if e["msg"] in ("passed", "stage ended") and "test_error" in e]
        return self.keep(name, {
            "seconds": r["seconds"], "ingest_seconds": r["ingest_seconds"], "error": r.get("test_error"), "curve": curve,
            "stages": [[s["passes"], round(s["seconds"], 3), s.get("test_error")] for s in r["stages"]],
            "objectives": [e["objective"] for e in events if e["msg"] == "passed"] if len(r["stages"]) == 1 else None,
        })

    def chain(self, name, blocks, columns, rows, refresh):
        """Makes versions of MNIST's training rows in the order of the file, from topic to versions."""
        data, report = os.path.join(WORK, "data"), os.path.join(WORK, "report.json")
        shutil.rmtree(data, ignore_errors=True)
        train = ", ".join(os.path.join(ROOT, ".demo", "mnist", f"train-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
        config = os.path.join(WORK, "chain.yaml")
        with open(config, "w") as f:
            f.write(f"name: chain\ndata_dir: {data}\nsegment: 1\nexamples: {{format: idx, train: [{train}], partitions: 1}}\nprepare: {{scale: unit, pca: 50}}\n"
                    f"stages: [{{features: {{kind: rff, size: {columns}, bandwidth_scale: 2}}, link: softmax, ridge: 1e-4, repeat: {blocks}}}]\n"
                    f"retrain: {{rows: {rows}, refresh: {refresh}, full: {{growth: 0}}}}\n")
        call([BINARY, "run", "-c", config, "--until", "end", "--quiet", "--report", report])
        with open(report) as f:
            r = json.load(f)
        return self.keep(name, {"rows": r["rows"], "seconds": r["seconds"], "rows_per_second": round(r["rows_per_second"]), "error": r["prequential_error"]})

    def floor(self, name, passes, gram_rows, link, cores=None, own=True, classes=10, env=None, further=()):
        """Measures the kernel floor; with own, the products with few columns use the program's loops, which are faster than a BLAS."""
        command = floor_command(passes, gram_rows, link, own, "-classes", str(classes), *further)
        parts = json.loads(call(pinned(command, cores), env=env).stdout)["seconds"]
        return self.keep(name, {"seconds": parts["total"], "parts": parts})

    def beside(self, name, passes, gram_rows):
        """Measures the floor on one core, and then in two independent processes at once on a core each. Their ratio is the
        largest speedup that two cores can have."""
        command = floor_command(passes, gram_rows, "softmax", own=False)

        def run(*cores):
            processes = [subprocess.Popen(pinned(command, core), cwd=ROOT, stdout=subprocess.PIPE, text=True) for core in cores]
            return statistics.mean(json.loads(p.communicate()[0])["seconds"]["total"] for p in processes)

        self.keep(f"{name}, a core alone", {"seconds": run("0")})
        self.keep(f"{name}, two cores apart", {"seconds": run("0", "1") / 2})

    def python(self, name, script, *arguments):
        done = subprocess.run([sys.executable, os.path.join(HERE, script), *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            say(name, "failed:", done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode)
            return None
        run = self.keep(name, json.loads(done.stdout.splitlines()[-1]))
        say(f"{name}: {run['seconds']:.1f} s" + (f", {run['error']:.2f} %" if "error" in run else ""))
        return run

    def seconds_to(self, error, names=("auto", *(f"auto, {size}, 4 passes" for size in SIZES))):
        """Returns the seconds until runs of ours first reach a test error: the median over those of the fastest configuration."""
        best = None
        for name in names:
            times = [next((t for t, e in run["curve"] if e <= error), None) for run in self.raw.get(name, [])]
            if times and None not in times:
                best = min(best or 1e9, statistics.median(times))
        return best


def stamp(event):
    return datetime.datetime.fromisoformat(event["time"]).timestamp()


# The parts of the measurement. Each function makes runs; rows() below makes the table of them.

PAPER, AUTO = ["stages.0.method=paper", "stages.0.passes=12"], ["stages.0.passes=12"]
IDENTITY = ["stages.0.link=identity", "stages.0.passes=1", "stages.0.ridge=1e-5"]


# the runs that are compared with the calls of BLAS and vector functions that they can't do without
FLOORS = (("paper", PAPER, ALL, "softmax"), ("auto", AUTO, 10_000, "softmax"), ("identity", IDENTITY, ALL, "identity"))


def floors(b):
    for _ in range(b.repeat):
        for name, settings, rows, link in FLOORS:
            run = b.train(name, *settings)
            passes = [s[0] for s in run["stages"]]
            floor, own = b.floor(name + " floor", passes, rows, link, own=False), b.floor(name + " own floor", passes, rows, link)
            say(f"{name}: {run['seconds']:.2f} s, {run['error']:.2f} %; floor {floor['seconds']:.2f} s, with our own loops {own['seconds']:.2f} s")
        b.train("auto, 8 passes", "stages.0.passes=8")
        for size in SIZES:
            b.train(f"auto, {size}, 4 passes", "stages.0.passes=4", f"stages.0.features.size={size}")
        b.python("numpy, paper", "memory.py", "softmax", "12")
        b.python("numpy, identity", "memory.py", "identity", "1")


def peers(b):
    for _ in range(b.repeat):
        for name in ("ridge", *LINEAR, "mlp", "neighbors", "svc"):
            b.python(name, "peers.py", name)
    ready = [s for s in SOLVERS if b.python(f"liblinear {s}", "peers.py", f"liblinear {s}")]
    best = min(ready, key=lambda s: b.median(f"liblinear {s}") / (b.seconds_to(b.median(f"liblinear {s}", "error")) or 1e9))
    for _ in range(b.repeat - 1):
        b.python(f"liblinear {best}", "peers.py", f"liblinear {best}")
    for run in b.raw[f"liblinear {best}"]:
        b.keep("liblinear", {**run, "solver": best})


def stream(b):
    for _ in range(b.repeat):
        for name, setting in CHAINS.items():
            run = b.chain(f"stream, {name}", *setting)
            say(f"stream, {name}: {run['rows_per_second']:,} rows/s, {run['error']:.2f} %")
            b.python(f"stream, NumPy, {name}", "updates.py", *map(str, setting))
        for name in STREAMS:
            b.python(f"stream, {name}", "stream.py", name)


def machinery(b):
    """Measures barriers, cores, scale, memory, ingest, real Kafka."""
    digits = ["stages.0.repeat=1", "stages.0.features.size=16", "stages.0.method=paper", "stages.0.passes=500"]
    folder = os.path.join(WORK, "kafka")
    broker = call(["scripts/kafka.sh", "start", "--dir", folder, "--port", "free"]).stdout.strip().splitlines()[-1].partition("=")[2]
    doubled = twice()
    try:
        b.train("real Kafka, first", *AUTO, f"brokers=[{broker}]", "name=first")  # the JVM compiles during the first run
        for i in range(b.repeat):
            run = b.train("barriers", *digits, config="examples/digits.yaml")
            b.keep("barrier", {"seconds": run["stages"][0][1] / run["stages"][0][0]})
            run = b.train("one core", *PAPER, cores="0")
            b.train("two cores", *PAPER)
            b.floor("one core floor", [s[0] for s in run["stages"]], ALL, "softmax", cores="0")
            b.floor("two cores floor", [s[0] for s in run["stages"]], ALL, "softmax")
            run = b.train("one core, auto", *AUTO, cores="0")
            b.floor("one core floor, auto", [s[0] for s in run["stages"]], 10_000, "softmax", cores="0")
            b.floor("two cores floor, auto", [s[0] for s in run["stages"]], 10_000, "softmax")
            before = core_seconds(folder)
            b.train("real Kafka", *AUTO, f"brokers=[{broker}]", f"name=bench{i}")
            b.keep("broker", {"seconds": core_seconds(folder) - before})
            b.train("embedded", *AUTO)
            b.beside("auto", [s[0] for s in run["stages"]], 10_000)
            b.train("fixed", *PAPER, "stages.0.passes=5", "stages.0.repeat=5")
            b.train("twice the rows", *PAPER, "stages.0.passes=5", "stages.0.repeat=5", config=doubled)
            b.train("twice the stages", *PAPER, "stages.0.passes=5", "stages.0.repeat=10")
            say("barriers, cores, Kafka and scale:", i + 1, "of", b.repeat)
    finally:
        call(["scripts/kafka.sh", "wipe", "--dir", folder])
    memory(b)


def core_seconds(folder):
    """Returns the processor time of the broker's process so far."""
    with open(os.path.join(folder, "n1", "pid")) as f:
        pid = f.read().strip()
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(b):
    """Measures the peak memory of short and of long runs."""
    data = os.path.join(WORK, "data")
    for _ in range(b.repeat):
        for stages in (10, 40):
            shutil.rmtree(data, ignore_errors=True)
            bytes_ = peak([BINARY, "train", "-c", "examples/mnist.yaml", "--quiet", "--set", f"data_dir={data}", "--set", "memory=1GiB",
                           "--set", "stages.0.passes=4", "--set", f"stages.0.repeat={stages}"])
            b.keep(f"memory, {stages} stages", {"bytes": bytes_})
            say(f"{stages} stages with memory: 1GiB: {bytes_ / 2**30:.2f} GiB")


def instructions(b):
    """Measures runs with more classes. And runs with an OpenBLAS that takes the processor for a Haswell, which has AVX2 but not AVX-512."""
    for _ in range(b.repeat):
        for classes in (26, 100):
            run = b.train(f"{classes} classes", config=labelled(classes))
            floor = b.floor(f"{classes} classes floor", [s[0] for s in run["stages"]], 10_000, "softmax", own=False, classes=classes)
            say(f"{classes} classes: {run['seconds']:.2f} s; floor {floor['seconds']:.2f} s")
    if b.machine["vector"] != "avx2":
        say(f"the vector instructions are {b.machine['vector']}: there is no AVX2 to measure")
        return
    haswell = {**os.environ, "OPENBLAS_CORETYPE": "Haswell"}
    model = os.path.join(WORK, "haswell.model")
    for _ in range(b.repeat):
        for name, settings, rows, link in FLOORS:
            run = b.train(f"avx2, {name}", *settings, env=haswell)
            floor = b.floor(f"avx2, {name} floor", [s[0] for s in run["stages"]], rows, link, own=False, env=haswell)
            say(f"AVX2, {name}: {run['seconds']:.2f} s, {run['error']:.2f} %; floor {floor['seconds']:.2f} s")
        b.train("avx2, demo", flags=["--model", model], env=haswell)
        predict_on_one_core(b, "avx2, predict", model, env=haswell)


def labelled(classes):
    """Writes made-up labels for MNIST, the digit and ten times the sum of some pixels, and returns the path of a configuration with them."""
    mnist, folder = os.path.join(ROOT, ".demo", "mnist"), os.path.join(WORK, f"classes-{classes}")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(ROOT, "examples", "mnist.yaml")) as f:
        text = f.read().replace("../.demo/mnist", mnist)
    for part in ("train", "t10k"):
        with open(os.path.join(mnist, f"{part}-images-idx3-ubyte"), "rb") as f:
            pixels = np.frombuffer(f.read()[16:], np.uint8).reshape(-1, 784)
        with open(os.path.join(mnist, f"{part}-labels-idx1-ubyte"), "rb") as f:
            raw = f.read()
        made = (np.frombuffer(raw[8:], np.uint8) + 10 * (pixels[:, 300:400].astype(int).sum(axis=1) // 64)) % classes
        name = os.path.join(folder, f"{part}-labels-idx1-ubyte")
        with open(name, "wb") as f:
            f.write(raw[:8] + made.astype(np.uint8).tobytes())
        text = text.replace(os.path.join(mnist, f"{part}-labels-idx1-ubyte"), name)
    path = os.path.join(WORK, f"classes-{classes}.yaml")
    with open(path, "w") as f:
        f.write(text)
    return path


def images(b):
    """Measures patches of MNIST's images beside their products, a support vector machine and a small convolutional network."""
    model = os.path.join(WORK, "patches.model")
    for _ in range(b.repeat):
        for name, (width, filters, blocks) in PATCHES.items():
            run = b.train(name, f"stages.0.features.patch={width}", f"stages.0.features.filters={filters}", f"stages.0.repeat={blocks}", config="examples/mnist-patches.yaml", flags=["--model", model] if blocks == 1 else [])
            say(f"{name}: {run['seconds']:.1f} s, {run['error']:.2f} %")
        b.floor("patches floor", [6], ALL, "softmax", own=False, further=PATCH_PRODUCTS)
        predict_on_one_core(b, "patches, predict", model, passes=[0], further=PATCH_PRODUCTS)
        b.python("svc beside patches", "peers.py", "svc")
        b.python("network", "network.py", str(GOOD))
    data = os.path.join(WORK, "data")
    for name, blocks in (("patches, memory", 1), ("patches, memory of four", 4)):
        shutil.rmtree(data, ignore_errors=True)
        b.keep(name, {"bytes": peak([BINARY, "train", "-c", "examples/mnist-patches.yaml", "--quiet", "--set", f"data_dir={data}", "--set", "memory=1GiB", "--set", f"stages.0.repeat={blocks}"])})


def wide(b):
    """Measures the memory and the time of a million rows of ten million columns, hashed words as bench/wide.py makes them."""
    rows, config, report = 1_000_000, os.path.join(WORK, "wide.yaml"), os.path.join(WORK, "report.json")
    examples, data = os.path.join(WORK, "wide.arrow"), os.path.join(WORK, "data")
    if not os.path.exists(examples):
        call([sys.executable, os.path.join(HERE, "wide.py"), examples, str(rows), "10_000_000"])
    with open(config, "w") as f:
        f.write(f"name: wide\ndata_dir: {data}\nmemory: {WIDE}MB\nexamples: {{train: {examples}, format: arrow, partitions: 2, holdout: 0.1}}\n"
                "stages: [{features: {kind: columns}, link: identity, method: cg}]\n")
    for _ in range(b.repeat):
        shutil.rmtree(data, ignore_errors=True)
        bytes_ = peak([BINARY, "train", "-c", config, "--quiet", "--report", report])
        with open(report) as f:
            r = json.load(f)
        run = b.keep(f"wide, {WIDE} MB", {"bytes": bytes_, "seconds": r["seconds"], "ingest_seconds": r["ingest_seconds"],
                                          "objective": r["stages"][0]["by_pass"][-1]["objective"], "digest": r["weights_digest"]})
        say(f"ten million columns, {WIDE} MB: {run['seconds']:.1f} s, {bytes_ / 1e9:.2f} GB")


def tables(b):
    """Measures tables that packages ship, beside other learners: each with as many seeds as there are repetitions."""
    for _ in range(b.repeat):
        b.python("tables, predict", "tables.py", "speed")
    for seed in range(1, b.repeat + 1):
        for learner in TABULAR:
            for name in SETS:
                b.python(f"tables, {name}, {learner}", "tables.py", learner, name, str(seed))
    print("\n".join(matrices(b)))


def twice():
    """Writes MNIST's training rows twice, and returns the path of a configuration with them."""
    folder = os.path.join(WORK, "twice")
    os.makedirs(folder, exist_ok=True)
    for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"):
        with open(os.path.join(ROOT, ".demo", "mnist", name), "rb") as f:
            raw = f.read()
        head = 4 + 4 * raw[3]
        with open(os.path.join(folder, name), "wb") as f:
            f.write(raw[:4] + (2 * ALL).to_bytes(4, "big") + raw[8:head] + 2 * raw[head:])
    mnist = os.path.join(ROOT, ".demo", "mnist")
    with open(os.path.join(ROOT, "examples", "mnist.yaml")) as f:
        text = f.read().replace("../.demo/mnist", mnist)
    path = os.path.join(WORK, "twice.yaml")
    with open(path, "w") as f:
        f.write(text.replace(f"{mnist}/train-", f"{folder}/train-"))
    return path


def methods(b):
    """Counts the passes to a loss, and compares the solution from a sampled Gram matrix with the exact one. Neither is a time, so one
    run is enough."""
    one = ["stages.0.repeat=1", "stages.0.ridge=1e-4"]
    b.train("paper, 60 passes", *one, "stages.0.method=paper", "stages.0.passes=60")
    b.train("auto, to that loss", *one, "stages.0.passes=12")
    solved = {}
    wide = ["stages.0.repeat=1", "stages.0.link=identity", "stages.0.features.size=4000", "stages.0.ridge=1e-5"]
    for name, settings in (("exact", ["stages.0.passes=1"]), ("sampled", ["stages.0.passes=30"])):
        model = os.path.join(WORK, name + ".model")
        b.train(f"identity 4000, {name}", *wide, *settings, flags=["--model", model])
        solved[name] = predictions(model)
    b.keep("identity, sampled against exact", {"rms": float(np.sqrt(((solved["exact"] - solved["sampled"]) ** 2).mean()))})


def predictions(model):
    out = os.path.join(WORK, "predictions.csv")
    call([BINARY, "predict", "--model", model, "-i", ".demo/mnist/t10k-images-idx3-ubyte", "-o", out])
    with open(out) as f:
        rows = csv.reader(f)
        next(rows)
        return np.array([[float(v) for v in row[1:]] for row in rows])


def prediction(b):
    model = os.path.join(WORK, "auto.model")
    b.train("model", *AUTO, flags=["--model", model])
    for _ in range(b.repeat):
        predict_on_one_core(b, "predict", model)


def predict_on_one_core(b, name, model, env=None, passes=(0,) * 10, further=()):
    """Measures `predict` of all training images, and the floors of its products."""
    began = time.perf_counter()
    call(pinned([BINARY, "predict", "--model", model, "-o", os.devnull, "-i", ".demo/mnist/train-images-idx3-ubyte"], "0"), env=env)
    b.keep(name, {"seconds": time.perf_counter() - began})
    for floor, own in (("floor", False), ("own floor", True)):
        out = call(pinned(floor_command(passes, ALL, "softmax", own, "-train", str(ALL), "-test", "0", "-predict", *further), "0"), env=env).stdout
        b.keep(f"{name} {floor}", {"seconds": json.loads(out)["seconds"]["total"]})


def rows(b):
    """Returns the rows of the table: measure, value, target, and whether the value meets the target."""
    table = []

    def row(measure, value, target, holds, digits=2, unit=""):
        table.append((measure, f"{value:.{digits}f}{unit}", target, "yes" if holds else "no"))

    def at_most(measure, value, limit, digits=2, unit=""):
        row(measure, value, f"≤ {limit:g}{unit}", value <= limit, digits, unit)

    def at_least(measure, value, limit, digits=2, unit=""):
        row(measure, value, f"≥ {limit:g}{unit}", value >= limit, digits, unit)

    def against(name, title, limit):
        error, seconds = b.median(name, "error"), b.median(name)
        ours = b.seconds_to(error)
        measure = f"{title}, {error:.2f} % in {seconds:.1f} s ÷ ours to its error"
        if ours is None:
            table.append((measure, "not reached", f"≥ {limit}" if limit else "stated", "no" if limit else ""))
        elif limit is None:
            table.append((f"{measure}, {ours:.1f} s", f"{seconds / ours:.1f}", "stated", ""))
        else:
            at_least(f"{measure}, {ours:.1f} s", seconds / ours, limit, 1)

    for name, title in (("paper", "`train`, `method: paper`, all rows ÷ kernel floor"), ("auto", "`train`, `auto` ÷ kernel floor"), ("identity", "`train`, identity ÷ kernel floor")):
        at_most(f"{title} ({b.median(name):.1f} s ÷ {b.median(name + ' floor'):.1f} s)", b.ratio(name, name + " floor"), 1.3)
        table.append((f"the same ÷ the floor of our own loops ({b.median(name + ' own floor'):.1f} s)", f"{b.ratio(name, name + ' own floor'):.2f}", "stated", ""))
    at_least(f"NumPy, 12 passes of the paper's step ({b.median('numpy, paper'):.1f} s) ÷ `train`, `method: paper`", b.ratio("numpy, paper", "paper"), 1.7, 1)
    at_least("the same ÷ `auto` with 8 passes", b.ratio("numpy, paper", "auto, 8 passes"), 3, 1)
    at_least(f"NumPy, identity ({b.median('numpy, identity'):.1f} s) ÷ `train`", b.ratio("numpy, identity", "identity"), 2.2, 1)
    against("logistic", "`LogisticRegression`, 1024 features", 10)
    against("sgd", "`SGDClassifier`, 1024 features", 10)
    against("vowpal", "Vowpal Wabbit, 1024 features", 10)
    if "liblinear" in b.raw:
        against("liblinear", f"liblinear, best solver (-s {b.raw['liblinear'][0]['solver']}), 1024 features", 10)
    against("spark", "Spark MLlib, 1024 features", 10)
    against("ridge", "`RidgeClassifier`, 4000 features", 5)
    against("mlp", "`MLPClassifier`, components", 2)
    against("neighbors", "3 nearest neighbours, components", None)
    against("svc", "`SVC`, components", None)
    in_time = [min(e for t, e in run["curve"] if t <= b.median("svc")) for run in b.raw[f"auto, {SIZES[-1]}, 4 passes"]]
    table.append((f"ours in the time of `SVC` ({b.median('svc'):.1f} s), 10 × {SIZES[-1]}, 4 passes", f"{statistics.median(in_time):.2f} %", "stated", ""))
    goal = b.raw["paper, 60 passes"][0]["objectives"][-1]
    reached = next((n + 1 for n, j in enumerate(b.raw["auto, to that loss"][0]["objectives"]) if j <= goal), 99)
    at_most("passes of `auto` to the J of 60 of the paper's", reached, 8, 0)
    rms = b.raw["identity, sampled against exact"][0]["rms"]
    table.append(("identity, 4000: predictions from a sampled Gram matrix, RMS", f"{rms:.1e}", "≤ 1e-4", "yes" if rms <= 1e-4 else "no"))
    at_most("a barrier and a visit of 1,797 rows", 1000 * b.median("barrier"), 5, 1, " ms")
    at_least(f"one core ÷ two cores, `method: paper` (the floor's own: {b.ratio('one core floor', 'two cores floor'):.2f})", b.ratio("one core", "two cores"), 1.85)
    at_least(f"one core ÷ two cores, `auto` (the floor's own: {b.ratio('one core floor, auto', 'two cores floor, auto'):.2f})", b.ratio("one core, auto", "embedded"), 1.85)
    table.append(("two processes of the floor, a core each, nothing shared ÷ one alone", f"{b.ratio('auto, a core alone', 'auto, two cores apart'):.2f}", "stated", ""))
    at_most("real Kafka ÷ embedded broker", b.ratio("real Kafka", "embedded"), 1.15)
    table.append(("what Kafka's process takes of the same cores in such a run", f"{b.median('broker'):.1f} core-s", "stated", ""))
    at_most("twice the rows", b.ratio("twice the rows", "fixed"), 2.1)
    at_most("twice the stages", b.ratio("twice the stages", "fixed"), 2.1)
    ten, forty = (b.median(f"memory, {n} stages", "bytes") / 2**30 for n in (10, 40))
    at_most("peak memory, `memory: 1GiB`, 10 stages", ten, 1.3, 2, " GiB")
    row("the same, 40 stages", forty, "no more (± 10 %)", forty <= 1.1 * ten, 2, " GiB")
    features = 70_000 * 784 * 4 / 1e6
    at_least("ingest, idx to Arrow on the topic", statistics.median(features / run["ingest_seconds"] for run in b.raw["auto"]), 200, 0, " MB/s")
    at_least(f"`predict`, 10 × 1024, one core ({ALL / b.median('predict'):,.0f} rows/s): floor of its products ÷ time", b.ratio("predict floor", "predict"), 0.7)
    table.append(("the same, the floor of our own loops", f"{b.ratio('predict own floor', 'predict'):.2f}", "stated", ""))
    if "avx2, auto" in b.raw:
        for name, _, _, _ in FLOORS:
            at_most(f"AVX2: `train`, {name} ÷ kernel floor ({b.median('avx2, ' + name):.1f} s ÷ {b.median('avx2, ' + name + ' floor'):.1f} s)", b.ratio("avx2, " + name, f"avx2, {name} floor"), 1.35)
        at_least("AVX2: `predict`, 10 × 1024, one core: floor of its products ÷ time", b.ratio("avx2, predict floor", "avx2, predict"), 0.7)
    if "100 classes" in b.raw:
        for classes in (26, 100):
            at_most(f"{classes} classes (made-up labels), 10 × 1024, softmax ÷ kernel floor ({b.median(f'{classes} classes'):.1f} s ÷ {b.median(f'{classes} classes floor'):.1f} s)",
                    b.ratio(f"{classes} classes", f"{classes} classes floor"), 1.4)
    return table + (patches(b) if "network" in b.raw else []) + (columns(b) if f"wide, {WIDE} MB" in b.raw else []) + (streams(b) if "stream, river" in b.raw else []) + (tabular(b) if "tables, predict" in b.raw else [])


def patches(b):
    """Returns the lines about patches of MNIST's images."""
    def line(measure, value, target, holds):
        return measure, value, target, "yes" if holds else "no"

    def beside(name, title, error, least):
        theirs = [next((t for t, e in run.get("curve", [[run["seconds"], run["error"]]]) if e <= error), None) for run in b.raw[name]]
        ours = b.seconds_to(error, PATCHES)
        if ours is None or None in theirs:
            last = ", ".join(f"{run['error']:.2f} % after {run['seconds']:.0f} s" for run in b.raw[name])
            return line(f"{title} to {error:.2f} % ({last}) ÷ ours", f"ours: {ours:.1f} s" if ours else "not reached", f"≥ {least}", ours is not None)
        ratio = statistics.median(theirs) / ours
        return line(f"{title} to {error:.2f} % ({statistics.median(theirs):.1f} s) ÷ ours ({ours:.1f} s)", f"{ratio:.1f}", f"≥ {least}", ratio >= least)

    one, four = b.median("patches, one block", "error"), b.median("patches, four blocks", "error")
    first, own = b.ratio("patches, one block", "patches floor"), b.ratio("patches, predict floor", "patches, predict")
    alone, together = (b.median(name, "bytes") / 2**30 for name in ("patches, memory", "patches, memory of four"))
    each = statistics.median(sum(s[1] for s in run["stages"]) / 4 for run in b.raw["patches, four blocks"])
    return [
        line(f"patches of images, one block of 4096 columns ({b.median('patches, one block'):.1f} s)", f"{one:.2f} %", "≤ 0.76 %", one <= 0.76),
        (f"that run, with the survey and the first reading of all messages, ÷ the products of a block ({b.median('patches floor'):.1f} s)", f"{first:.2f}", "stated", ""),
        line(f"a block of four in one run ({each:.1f} s) ÷ these products", f"{each / b.median('patches floor'):.2f}", "≤ 1.5", each / b.median("patches floor") <= 1.5),
        line(f"four such blocks ({b.median('patches, four blocks'):.1f} s)", f"{four:.2f} %", "≤ 0.60 %", four <= 0.6),
        beside("svc beside patches", "`SVC`, components,", b.median("svc beside patches", "error"), 3),
        beside("network", "a small convolutional network, JAX,", GOOD, 1),
        line(f"`predict`, one block, one core ({ALL / b.median('patches, predict'):,.0f} images/s): floor of its products ÷ time", f"{own:.2f}", "≥ 0.7", own >= 0.7),
        line("peak memory of one block, `memory: 1GiB`", f"{alone:.2f} GiB", "≤ 1.3 GiB", alone <= 1.3),
        line("the same, four blocks", f"{together:.2f} GiB", "no more (± 10 %)", together <= 1.1 * alone),
    ]


def columns(b):
    """Returns the lines about rows of ten million columns."""
    weights = 8 * 2 * 10_000_000
    most, limit = b.median(f"wide, {WIDE} MB", "bytes") / 1e9, WIDE / 1e3 + weights / 1e9
    return [(f"a million rows of ten million columns, 100 values a row, two classes, `memory: {WIDE}MB`: peak memory", f"{most:.2f} GB",
             f"≤ {limit:.2f} GB, with weights", "yes" if most <= limit else "no")]


def streams(b):
    """Returns the lines about MNIST as a stream: errors are of rows before they are learnt."""
    def measured(name):
        return b.median(f"stream, {name}", "error"), b.median(f"stream, {name}", "rows_per_second")

    ours, table = {name: measured(name) for name in CHAINS}, []
    for (name, (blocks, columns, rows, refresh)), most in zip(CHAINS.items(), (4.7, 3.0, 2.7)):
        error, speed = ours[name]
        table.append((f"stream, {name}, {rows} rows an update, refresh {refresh} ({speed:,.0f} rows/s): error before learning", f"{error:.2f} %", f"≤ {most} %", "yes" if error <= most else "no"))
    speed = ours["1 × 512"][1]
    table.append(("stream, 1 × 512, rows a second from topic to version", f"{speed:,.0f}", "≥ 50,000", "yes" if speed >= 50_000 else "no"))
    for name, least in (("1 × 512", None), ("2 × 1024", 2.5), ("8 × 1024", 3)):
        error, speed = measured(f"NumPy, {name}")
        ratio = statistics.median(a["rows_per_second"] / n["rows_per_second"] for a, n in zip(b.raw[f"stream, {name}"], b.raw[f"stream, NumPy, {name}"]))
        table.append((f"stream, rows a second ÷ those of the same updates in NumPy, {name} ({error:.2f} % at {speed:,.0f} rows/s)", f"{ratio:.1f}",
                      f"≥ {least}" if least else "stated", ("yes" if ratio >= least else "no") if least else ""))
    for name, title in STREAMS.items():
        error, speed = measured(name)
        better = [n for n in CHAINS if ours[n][0] < error and ours[n][1] > speed]
        # beside a peer the fastest setting of ours that is better in both, or the one that is nearest in speed
        beside = max(better, key=lambda n: ours[n][1]) if better else min(CHAINS, key=lambda n: abs(np.log(ours[n][1] / speed)))
        judged = speed < 100_000
        table.append((f"stream, {title}: {error:.2f} % at {speed:,.0f} rows/s; ours", f"{beside}: {ours[beside][0]:.2f} % at {ours[beside][1]:,.0f}",
                      "lower, faster" if judged else "stated", ("yes" if better else "no") if judged else ""))
    return table


def tabular(b):
    """Returns the lines about tables."""
    predict = b.raw["tables, predict"]
    speed = {key: statistics.median(run["rows"] / run[key] for run in predict) for key in ("seconds", "lightgbm")}
    ratio = statistics.median(run["lightgbm"] / run["seconds"] for run in predict)
    return [(f"`predict`, 704 trees of 32 leaves, one core ({speed['seconds']:,.0f} rows/s of a file) ÷ LightGBM's with as many trees ({speed['lightgbm']:,.0f})",
             f"{ratio:.1f}", "≥ 1", "yes" if ratio >= 1 else "no")]


def matrices(b):
    """Returns the figures of tables for people: a table for each measure, with a line for each set. The best of a line is bold."""
    lines = []
    for key, title, digits in (("error", "test error, %", 2), ("loss", "log loss", 4)):
        lines += ["", f"| {title} | training rows | " + " | ".join(TABULAR.values()) + " |", "|---" * (2 + len(TABULAR)) + "|"]
        for name in SETS:
            medians = {learner: b.median(f"tables, {name}, {learner}", key) for learner in TABULAR if f"tables, {name}, {learner}" in b.raw}
            best = min(medians.values())
            cells = [f"{medians[learner]:.{digits}f}" if learner in medians else "" for learner in TABULAR]
            cells = [f"**{cell}**" if cell and medians[learner] == best else cell for learner, cell in zip(TABULAR, cells)]
            lines.append(f"| {name} | {b.raw[f'tables, {name}, trees × 22'][0]['rows']:,} | " + " | ".join(cells) + " |")
    lines += ["", "| no higher error, no higher log loss, its processor seconds ÷ ours | " + " | ".join(OURS.values()) + " |", "|---" * (1 + len(OURS)) + "|"]
    for learner in (name for name in TABULAR if name not in OURS):
        cells = []
        for ours in OURS:
            sets = [s for s in SETS if f"tables, {s}, {learner}" in b.raw and f"tables, {s}, {ours}" in b.raw]
            better = [sum(b.median(f"tables, {s}, {ours}", key) <= b.median(f"tables, {s}, {learner}", key) for s in sets) for key in ("error", "loss")]
            times = statistics.median(b.median(f"tables, {s}, {learner}") / b.median(f"tables, {s}, {ours}") for s in sets)
            cells.append(f"{better[0]}, {better[1]}, {times:.2g}")
        lines.append(f"| {TABULAR[learner]} | " + " | ".join(cells) + " |")
    return [*lines[1:], ""]


# the lines of the table that the README has, by how they begin
HEADLINES = (
    "stream, 1 × 512, rows a second from",
    "stream, River",
    "stream, Vowpal Wabbit",
)


def render(b):
    m = b.machine
    lines = ["| measure | is | must be | holds |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(r) + " |" for r in rows(b)]
    lines += ["", f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['blas']}, {m['date']}, commit {m['commit']}; "
                  f"medians of {b.repeat}. Seconds are of a run after ingest."
                  + "".join(f" {part}: measured {when}." for part, when in m.get("added", {}).items())]
    text = "\n".join(lines) + "\n"
    with open(TABLE, "w") as f:
        f.write(text)
    with open(README) as f:
        content = f.read()
    begin, end = "<!-- from bench/table.md -->\n", "<!-- end -->"
    headlines = lines[:2] + [line for line in lines[2:] if line.startswith(tuple("| " + measure for measure in HEADLINES))]
    content = content[: content.index(begin) + len(begin)] + "\n".join(headlines) + "\n" + content[content.index(end) :]
    with open(README, "w") as f:
        f.write(content)
    if "tables, predict" in b.raw:
        with open(TABLES) as f:
            content = f.read()
        begin = "<!-- from bench/results.json -->\n"
        content = content[: content.index(begin) + len(begin)] + "\n" + "\n".join(matrices(b)) + "\n" + content[content.index(end) :]
        with open(TABLES, "w") as f:
            f.write(content)
    figure(b)
    print(text)


@contextlib.contextmanager
def errors_by_seconds(path):
    """Yields the axes of a figure of test errors on MNIST, which is written to a file at the end. Its legend is below it, so that it covers nothing."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "stagewise"
    from matplotlib import pyplot as plot

    drawing, axes = plot.subplots(figsize=(8, 6))
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="test error on MNIST, %")
    yield axes
    lines = np.concatenate([line.get_xydata() for line in axes.lines])
    axes.set(xlim=round_limits(lines[:, 0], (1, 1.5, 2, 3, 5, 7)), ylim=round_limits(lines[:, 1], (1, 1.5, 2, 3, 5, 7)))
    for axis, digits in ((axes.xaxis, (1, 2, 5)), (axes.yaxis, (1, 1.5, 2, 3, 5, 7))):
        ticks = [t for t in round_numbers(digits) if axis.get_view_interval()[0] <= t <= axis.get_view_interval()[1]]
        axis.set_ticks(ticks, [f"{t:g}" for t in ticks])
        axis.set_ticks([], minor=True)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=2, frameon=False)
    drawing.tight_layout()
    drawing.savefig(path, metadata={"Date": None})


def round_numbers(digits):
    return [float(f"{d * 10.0**e:.3g}") for e in range(-3, 6) for d in digits]


def round_limits(values, digits):
    """The closest round numbers around values."""
    numbers = round_numbers(digits)
    return max(n for n in numbers if n <= values.min() * 0.98), min(n for n in numbers if n >= values.max() * 1.02)


def mark(b, axes, name, label, side="right"):
    """Marks the median of a peer, if it was measured, with its name on a side."""
    if name in b.raw:
        x, y = b.median(name), b.median(name, "error")
        axes.plot([x], [y], "k^", markersize=5)
        axes.annotate(label, (x, y), textcoords="offset points", xytext=(6 if side == "right" else -6, 0), va="center", ha="left" if side == "right" else "right", fontsize=8)


def figure(b):
    with errors_by_seconds(FIGURE) as axes:
        for name, label in (("auto", "stagewise, 10 × 1024, at most 12 passes"), *((f"auto, {size}, 4 passes", f"stagewise, 10 × {size}, 4 passes") for size in SIZES), ("identity", "stagewise, identity, 10 × 1024")):
            run = sorted(b.raw[name], key=lambda r: r["seconds"])[len(b.raw[name]) // 2]
            points, at = [], run["seconds"] - sum(s[1] for s in run["stages"])
            for _, seconds, error in run["stages"]:
                at += seconds
                points.append((at, error))
            axes.plot(*zip(*points), "o-", markersize=4, label=label)
        for name, label, look in (("patches, 32 filters", "stagewise, patches, 1024", "o-"), ("patches, four blocks", "stagewise, patches, 4 × 4096", "o-"),
                                  ("network", "small convolutional network, JAX", "k--")):
            if name in b.raw:
                middle = sorted(b.raw[name], key=lambda r: r["seconds"])[len(b.raw[name]) // 2]
                axes.plot(*zip(*((t, e) for t, e in middle["curve"] if e < 6)), look, markersize=3, linewidth=1, label=label)  # the first pass has learnt nothing
        for name, label in (("mlp", "MLPClassifier"), ("neighbors", "3 nearest\nneighbours"), ("numpy, paper", "NumPy, the same\nin memory"), ("logistic", "LogisticRegression"), ("sgd", "SGDClassifier"),
                            ("liblinear", "liblinear"), ("vowpal", "Vowpal Wabbit"), ("spark", "Spark MLlib"), ("ridge", "Ridge, 4000"), ("svc", "SVC")):
            mark(b, axes, name, label)
        mark(b, axes, "numpy, identity", "NumPy, identity", "left")


def machine():
    processor = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as f:
            processor = next((line.partition(":")[2].strip() for line in f if line.startswith("model name")), processor)
    out = json.loads(call([FLOOR, "-train", "64", "-test", "0", "-passes", "1", "-gram-rows", "64"]).stdout)
    dirty = "" if not call(["git", "status", "--porcelain", "--untracked-files=no", "--", ".", *(f":!{path}" for path in (README, TABLES, RESULTS, TABLE, FIGURE))]).stdout.strip() else ", with changes"
    return {
        "processor": processor, "cores": os.cpu_count(), "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "blas": out["blas"], "vector": out["vector"], "system": platform.platform(), "date": datetime.date.today().isoformat(),
        "commit": call(["git", "rev-parse", "--short=12", "HEAD"]).stdout.strip() + dirty,
    }


PARTS = {"floors": floors, "methods": methods, "machinery": machinery, "prediction": prediction, "instructions": instructions, "peers": peers, "images": images, "wide": wide, "stream": stream, "tables": tables}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each (3)")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="run this part and print what it measured; no table")
    parser.add_argument("--add", action="append", choices=list(PARTS), help="run this part, and put what it measured beside the rest in bench/results.json")
    parser.add_argument("--render", action="store_true", help="make table and figure again from bench/results.json")
    options = parser.parse_args()
    bench = Bench(options.repeat)
    if options.render:
        bench.load()
        render(bench)
        sys.exit()
    bench.machine = machine()
    say(", ".join(f"{k}: {v}" for k, v in bench.machine.items()))
    if options.add or options.only:
        bench.write = lambda: None
    for part in options.add or options.only or PARTS:
        PARTS[part](bench)
    if options.add:
        whole = Bench(options.repeat)
        whole.load()
        whole.raw.update(bench.raw)
        here = "" if bench.machine["processor"] == whole.machine["processor"] else f", {bench.machine['processor']}, {bench.machine['blas']}"
        when = f"{bench.machine['date']} at {bench.machine['commit']}, runs: {options.repeat}{here}"
        whole.machine.setdefault("added", {}).update({part: when for part in options.add})
        whole.write()
        render(whole)
    elif options.only:
        print(json.dumps({name: [{k: v for k, v in run.items() if k not in ("curve", "objectives")} for run in runs] for name, runs in bench.raw.items()}, indent=1))
    else:
        render(bench)
