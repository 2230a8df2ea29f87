"""make bench: compares stagewise with its kernel floor and its peers on this machine.

All that is compared runs in turn, three times or --repeat times, and the medians are compared. The raw measurements go to
bench/results.json, the table to bench/table.md, some of its lines to README.md, the figure to bench/figure.svg. scripts/bench.sh installs what
this needs."""

import argparse
import csv
import datetime
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from types import SimpleNamespace

import mnist
import numpy as np
from tables import TABLES as SETS

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
WORK = os.path.join(ROOT, ".demo", "bench")
BINARY, FLOOR = os.path.join(ROOT, "bin", "stagewise"), os.path.join(WORK, "floor")
DATA, REPORT = os.path.join(WORK, "data"), os.path.join(WORK, "report.json")
# what this program writes
README, TABLES = os.path.join(ROOT, "README.md"), os.path.join(HERE, "tables.md")
RESULTS, TABLE, FIGURE = (os.path.join(HERE, name) for name in ("results.json", "table.md", "figure.svg"))

ALL = 60_000
PAPER, AUTO = ["stages.0.method=paper", "stages.0.passes=12"], ["stages.0.passes=12"]
IDENTITY = ["stages.0.link=identity", "stages.0.passes=1", "stages.0.ridge=1e-5"]
# the runs that are compared with the calls of BLAS and vector functions that they can't do without: settings, rows of the Gram matrix, link
FLOORS = {"paper": (PAPER, ALL, "softmax"), "auto": (AUTO, 10_000, "softmax"), "identity": (IDENTITY, ALL, "identity")}
# columns of the blocks of the runs with 4 passes, which reach a given error sooner
SIZES = (768, 1024, 1536, 3072)
SOLVERS = ["1", "2", "3", "7"]  # of liblinear
# title of each peer, and the least that its seconds must be, divided by those of ours to its error
PEERS = {"logistic": ("`LogisticRegression`, 1024 features", 10), "sgd": ("`SGDClassifier`, 1024 features", 10),
         "vowpal": ("Vowpal Wabbit, 1024 features", 10), "liblinear": ("liblinear, best solver (-s {solver}), 1024 features", 10),
         "spark": ("Spark MLlib, 1024 features", 10), "ridge": ("`RidgeClassifier`, 4000 features", 5), "mlp": ("`MLPClassifier`, components", 2),
         "neighbors": ("3 nearest neighbours, components", None), "svc": ("`SVC`, components", None)}
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
PATCH_PRODUCTS = ["-patches", "-columns", "4096"]
GOOD = 0.75  # error in percent to which the network and ours are timed
# memory in megabytes for rows of ten million columns: the matrices of the run take 2240
WIDE = 2500
# the lines of the table that the README has, by how they begin
HEADLINES = ("stream, 1 × 512, rows a second from", "stream, River", "stream, Vowpal Wabbit")


def say(*words):
    print("bench:", *words, flush=True)


def call(command, cores=None, env=None):
    """Runs a command, and returns its output, its seconds and its peak memory in bytes."""
    command = ["taskset", "-c", cores, *command] if cores else command
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.perf_counter()
        child = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=err, env=env)
        _, status, usage = os.wait4(child.pid, 0)
        seconds, child.returncode = time.perf_counter() - began, os.waitstatus_to_exitcode(status)
        stdout, stderr = (file.seek(0) or file.read() for file in (out, err))
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{stderr.strip()}")
    return SimpleNamespace(stdout=stdout, stderr=stderr, seconds=seconds, bytes=usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024))


def read(path):
    with open(path) as f:
        return f.read()


def write(path, text):
    with open(path, "w") as f:
        f.write(text)
    return path


class Bench:
    def __init__(self, repeat):
        self.repeat = repeat
        self.raw = {}  # name: list of runs

    def keep(self, name, run):
        say(f"{name}:", ", ".join(f"{key} {value:,.6g}" for key, value in run.items() if isinstance(value, int | float)))
        self.raw.setdefault(name, []).append(run)
        self.write()
        return run

    def write(self):
        lines = [f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(run) for run in runs) + "]" for name, runs in self.raw.items()]
        write(RESULTS, f'{{"machine": {json.dumps(self.machine)},\n"runs": {{\n' + ",\n".join(lines) + "}}\n")

    def load(self):
        saved = json.loads(read(RESULTS))
        self.machine, self.raw = saved["machine"], saved["runs"]
        self.repeat = len(self.raw["auto"])

    def median(self, name, key="seconds"):
        return statistics.median(run[key] for run in self.raw[name])

    def middle(self, name):
        """Returns the run of median seconds."""
        return sorted(self.raw[name], key=lambda r: r["seconds"])[len(self.raw[name]) // 2]

    def ratio(self, above, below, key="seconds"):
        """Returns the median of the ratios of runs made in turn."""
        return statistics.median(a[key] / b[key] for a, b in zip(self.raw[above], self.raw[below]))

    def train(self, name, *settings, config="examples/mnist.yaml", model=None, cores=None, env=None):
        """Makes one run from files to weights. Its curve has the seconds since the plan and the test error, after each pass."""
        shutil.rmtree(DATA, ignore_errors=True)
        command = [BINARY, "train", "-c", config, "--log", "json", "--report", REPORT, *(["--model", model] if model else [])]
        done = call([*command, *(word for s in (f"data_dir={DATA}", *settings) for word in ("--set", s))], cores, env)
        r = json.loads(read(REPORT))
        events = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
        began = next(stamp(e) for e in events if e["msg"] == "began")
        curve = [[round(stamp(e) - began, 3), e["test_error"]] for e in events if e["msg"] in ("passed", "stage ended") and "test_error" in e]
        return self.keep(name, {
            "seconds": r["seconds"], "ingest_seconds": r["ingest_seconds"], "error": r.get("test_error"), "bytes": done.bytes, "curve": curve,
            "stages": [[s["passes"], round(s["seconds"], 3), s.get("test_error")] for s in r["stages"]],
            "objectives": [e["objective"] for e in events if e["msg"] == "passed"] if len(r["stages"]) == 1 else None,
        })

    def chain(self, name, blocks, columns, rows, refresh):
        """Makes versions of MNIST's training rows in the order of the file, from topic to versions."""
        shutil.rmtree(DATA, ignore_errors=True)
        train = ", ".join(os.path.join(mnist.FOLDER, f"train-{kind}-ubyte") for kind in ("images-idx3", "labels-idx1"))
        config = write(os.path.join(WORK, "chain.yaml"), f"name: chain\ndata_dir: {DATA}\nsegment: 1\n"
                       f"examples: {{format: idx, train: [{train}], partitions: 1}}\nprepare: {{scale: unit, pca: 50}}\n"
                       f"stages: [{{features: {{kind: rff, size: {columns}, bandwidth_scale: 2}}, link: softmax, ridge: 1e-4, repeat: {blocks}}}]\n"
                       f"retrain: {{rows: {rows}, refresh: {refresh}, full: {{growth: 0}}}}\n")
        call([BINARY, "run", "-c", config, "--until", "end", "--quiet", "--report", REPORT])
        r = json.loads(read(REPORT))
        self.keep(name, {"rows": r["rows"], "seconds": r["seconds"], "rows_per_second": round(r["rows_per_second"]), "error": r["prequential_error"]})

    def floor(self, name, passes, gram_rows, link="softmax", own=True, further=(), cores=None, env=None):
        """Measures the kernel floor of so many passes a stage, or of a run's. With own, the products with few columns use the program's loops, which
        are faster than a BLAS."""
        passes = [s[0] for s in passes["stages"]] if isinstance(passes, dict) else passes
        command = [FLOOR, "-passes", ",".join(map(str, passes)), "-gram-rows", str(gram_rows), "-link", link, f"-own={str(own).lower()}", *further]
        self.keep(name, {"seconds": json.loads(call(command, cores, env).stdout)["seconds"]})

    def floors(self, prefix="", env=None):
        """Makes the runs of FLOORS, and measures their floors."""
        for name, (settings, rows, link) in FLOORS.items():
            run = self.train(prefix + name, *settings, env=env)
            for kind, own in (("floor", False), ("own floor", True)):
                self.floor(f"{prefix}{name} {kind}", run, rows, link, own, env=env)

    def predict(self, name, model, passes=(0,) * 10, further=(), env=None):
        """Measures `predict` of all training images on one core, and the floors of its products."""
        command = [BINARY, "predict", "--model", model, "-o", os.devnull, "-i", ".demo/mnist/train-images-idx3-ubyte"]
        self.keep(name, {"seconds": call(command, "0", env).seconds})
        for kind, own in (("floor", False), ("own floor", True)):
            self.floor(f"{name} {kind}", passes, ALL, own=own, further=["-train", str(ALL), "-test", "0", "-predict", *further], cores="0", env=env)

    def python(self, name, script, *arguments):
        try:
            return self.keep(name, json.loads(call([sys.executable, os.path.join(HERE, script), *arguments]).stdout.splitlines()[-1]))
        except RuntimeError as reason:
            say(name, "failed:", str(reason).splitlines()[-1])
            return None

    def seconds_to(self, error, names=("auto", *(f"auto, {size}, 4 passes" for size in SIZES))):
        """Returns the seconds until runs of ours first reach a test error: the median over those of the fastest configuration."""
        every = [[next((t for t, e in run["curve"] if e <= error), None) for run in self.raw.get(name, [])] for name in names]
        return min((statistics.median(times) for times in every if times and None not in times), default=None)


def stamp(event):
    return datetime.datetime.fromisoformat(event["time"]).timestamp()


# The parts of the measurement. Each function makes runs; lines() below makes the table of them.


def floors(b):
    for _ in range(b.repeat):
        b.floors()
        b.train("auto, 8 passes", "stages.0.passes=8")
        for size in SIZES:
            b.train(f"auto, {size}, 4 passes", "stages.0.passes=4", f"stages.0.features.size={size}")
        b.python("numpy, paper", "memory.py", "softmax", "12")
        b.python("numpy, identity", "memory.py", "identity", "1")


def methods(b):
    """Counts the passes to a loss, and compares the solution from a sampled Gram matrix with the exact one. Neither is a time, so one
    run is enough."""
    one, solved = ["stages.0.repeat=1", "stages.0.ridge=1e-4"], []
    b.train("paper, 60 passes", *one, "stages.0.method=paper", "stages.0.passes=60")
    b.train("auto, to that loss", *one, "stages.0.passes=12")
    wide = ["stages.0.repeat=1", "stages.0.link=identity", "stages.0.features.size=4000", "stages.0.ridge=1e-5"]
    for name, passes in (("exact", 1), ("sampled", 30)):
        model, out = os.path.join(WORK, name + ".model"), os.path.join(WORK, "predictions.csv")
        b.train(f"identity 4000, {name}", *wide, f"stages.0.passes={passes}", model=model)
        call([BINARY, "predict", "--model", model, "-i", ".demo/mnist/t10k-images-idx3-ubyte", "-o", out])
        with open(out) as f:
            solved.append(np.array([[float(v) for v in row[1:]] for row in list(csv.reader(f))[1:]]))
    b.keep("identity, sampled against exact", {"rms": float(np.sqrt(((solved[0] - solved[1]) ** 2).mean()))})


def machinery(b):
    """Measures barriers, cores, scale, memory, ingest, real Kafka."""
    digits = ["stages.0.repeat=1", "stages.0.features.size=16", "stages.0.method=paper", "stages.0.passes=500"]
    half, folder = [*PAPER, "stages.0.passes=5", "stages.0.repeat=5"], os.path.join(WORK, "kafka")
    broker = call(["scripts/kafka.sh", "start", "--dir", folder, "--port", "free"]).stdout.strip().splitlines()[-1].partition("=")[2]
    doubled = changed("twice", lambda part, x, y: (np.tile(x, (2, 1, 1)), np.tile(y, 2)) if part == "train" else (x, y))
    try:
        b.train("real Kafka, first", *AUTO, f"brokers=[{broker}]", "name=first")  # the JVM compiles during the first run
        for i in range(b.repeat):
            run = b.train("barriers", *digits, config="examples/digits.yaml")
            b.keep("barrier", {"seconds": run["stages"][0][1] / run["stages"][0][0]})
            run = b.train("one core", *PAPER, cores="0")
            b.train("two cores", *PAPER)
            b.floor("one core floor", run, ALL, cores="0")
            b.floor("two cores floor", run, ALL)
            run = b.train("one core, auto", *AUTO, cores="0")
            b.floor("one core floor, auto", run, 10_000, cores="0")
            b.floor("two cores floor, auto", run, 10_000)
            before = core_seconds(folder)
            b.train("real Kafka", *AUTO, f"brokers=[{broker}]", f"name=bench{i}")
            b.keep("broker", {"seconds": core_seconds(folder) - before})
            b.train("embedded", *AUTO)
            b.train("fixed", *half)
            b.train("twice the rows", *half, config=doubled)
            b.train("twice the stages", *half, "stages.0.repeat=10")
    finally:
        call(["scripts/kafka.sh", "wipe", "--dir", folder])
    for _ in range(b.repeat):
        for stages in (10, 40):
            b.train(f"memory, {stages} stages", "memory=1GiB", "stages.0.passes=4", f"stages.0.repeat={stages}")


def core_seconds(folder):
    """Returns the processor time of the broker's process so far."""
    fields = read(f"/proc/{read(os.path.join(folder, 'n1', 'pid')).strip()}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def changed(name, change):
    """Writes MNIST with other images and labels, and returns the path of a configuration with them."""
    folder = os.path.join(WORK, name)
    os.makedirs(folder, exist_ok=True)
    for part in ("train", "t10k"):
        files = [f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"]
        for file, array in zip(files, change(part, *map(mnist.idx, files))):
            with open(os.path.join(folder, file), "wb") as f:
                f.write(bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.astype(np.uint8).tobytes())
    return write(folder + ".yaml", read(os.path.join(ROOT, "examples", "mnist.yaml")).replace("../.demo/mnist", folder))


def prediction(b):
    model = os.path.join(WORK, "auto.model")
    b.train("model", *AUTO, model=model)
    for _ in range(b.repeat):
        b.predict("predict", model)


def instructions(b):
    """Measures runs with more classes, whose labels are made up: the digit and ten times the sum of some pixels. And runs with an OpenBLAS that takes
    the processor for a Haswell, which has AVX2 but not AVX-512."""
    for _ in range(b.repeat):
        for classes in (26, 100):
            config = changed(f"classes-{classes}", lambda _, x, y: (x, (y + 10 * (x.reshape(len(x), -1)[:, 300:400].astype(int).sum(axis=1) // 64)) % classes))
            run = b.train(f"{classes} classes", config=config)
            b.floor(f"{classes} classes floor", run, 10_000, own=False, further=["-classes", str(classes)])
    if b.machine["vector"] != "avx2":
        say(f"the vector instructions are {b.machine['vector']}: there is no AVX2 to measure")
        return
    haswell, model = {**os.environ, "OPENBLAS_CORETYPE": "Haswell"}, os.path.join(WORK, "haswell.model")
    for _ in range(b.repeat):
        b.floors("avx2, ", haswell)
        b.train("avx2, demo", model=model, env=haswell)
        b.predict("avx2, predict", model, env=haswell)


def peers(b):
    for _ in range(b.repeat):
        for name in (name for name in PEERS if name != "liblinear"):
            b.python(name, "peers.py", name)
    ready = [s for s in SOLVERS if b.python(f"liblinear {s}", "peers.py", f"liblinear {s}")]
    best = min(ready, key=lambda s: b.median(f"liblinear {s}") / (b.seconds_to(b.median(f"liblinear {s}", "error")) or 1e9))
    for _ in range(b.repeat - 1):
        b.python(f"liblinear {best}", "peers.py", f"liblinear {best}")
    b.raw["liblinear"] = [{**run, "solver": best} for run in b.raw[f"liblinear {best}"]]


def images(b):
    """Measures patches of MNIST's images beside their products, a support vector machine and a small convolutional network."""
    model, patches = os.path.join(WORK, "patches.model"), "examples/mnist-patches.yaml"
    for _ in range(b.repeat):
        for name, (width, filters, blocks) in PATCHES.items():
            settings = f"stages.0.features.patch={width}", f"stages.0.features.filters={filters}", f"stages.0.repeat={blocks}"
            b.train(name, *settings, config=patches, model=model if blocks == 1 else None)
        b.floor("patches floor", [6], ALL, own=False, further=PATCH_PRODUCTS)
        b.predict("patches, predict", model, passes=[0], further=PATCH_PRODUCTS)
        b.python("svc beside patches", "peers.py", "svc")
        b.python("network", "network.py", str(GOOD))
    for name, blocks in (("patches, memory", 1), ("patches, memory of four", 4)):
        b.train(name, "memory=1GiB", f"stages.0.repeat={blocks}", config=patches)


def wide(b):
    """Measures the memory and the time of a million rows of ten million columns."""
    examples = os.path.join(WORK, "wide.arrow")
    if not os.path.exists(examples):
        write_wide(examples, 1_000_000, 10_000_000)
    config = write(os.path.join(WORK, "wide.yaml"),
                   f"name: wide\nmemory: {WIDE}MB\nexamples: {{train: {examples}, format: arrow, partitions: 2, holdout: 0.1}}\n"
                   "stages: [{features: {kind: columns}, link: identity, method: cg}]\n")
    for _ in range(b.repeat):
        b.train(f"wide, {WIDE} MB", config=config)


def write_wide(name, rows, columns, each=100, part=50_000):
    """Writes rows of very many columns, as a hash of words makes them: lists of index and value. Small indices are more frequent, as the square of a
    uniform number is small more often. The label is the sign of the sum of the values, each with the sign of its column, which is drawn."""
    import pyarrow as pa

    random, pairs = np.random.default_rng(1), pa.list_(pa.struct([("index", pa.int32()), ("value", pa.float32())]))
    signs = random.choice(np.array([-1, 1], np.float32), columns)
    schema = pa.schema([("label", pa.utf8()), ("features", pairs)])
    with pa.OSFile(name, "wb") as file, pa.ipc.new_file(file, schema) as out:
        for _ in range(rows // part):
            index = np.sort((random.random((part, each)) ** 2 * (columns - each)).astype(np.int32), axis=1) + np.arange(each, dtype=np.int32)  # ascending
            value = random.exponential(1, (part, each)).astype(np.float32)
            items = pa.StructArray.from_arrays([pa.array(index.ravel()), pa.array(value.ravel())], names=["index", "value"])
            lists = pa.ListArray.from_arrays(np.arange(0, part * each + 1, each, dtype=np.int32), items)
            labels = pa.array(np.where((signs[index] * value).sum(axis=1) > 0, "more", "less"))
            out.write(pa.record_batch([labels, lists], schema=schema))


def stream(b):
    for _ in range(b.repeat):
        for name, setting in CHAINS.items():
            b.chain(f"stream, {name}", *setting)
            b.python(f"stream, NumPy, {name}", "memory.py", "chain", *map(str, setting))
        for name in STREAMS:
            b.python(f"stream, {name}", "peers.py", "stream", name)


def tables(b):
    """Measures tables that packages ship, beside other learners: each with as many seeds as there are repetitions."""
    for seed in range(1, b.repeat + 1):
        b.python("tables, predict", "tables.py", "speed")
        for learner in TABULAR:
            for name in SETS:
                b.python(f"tables, {name}, {learner}", "tables.py", learner, name, str(seed))
    print("\n".join(matrices(b)))


PARTS = {"floors": floors, "methods": methods, "machinery": machinery, "prediction": prediction, "instructions": instructions, "peers": peers,
         "images": images, "wide": wide, "stream": stream, "tables": tables}


def line(measure, value, target="stated", form=".2f", unit="", holds=None):
    """Returns a line of the table: measure, value, target, and whether the value meets the target, such as "≤ 1.3"."""
    if holds is None and (limit := re.match(r"([≤≥]) ([\d.,e-]*\d)", target)):
        holds = value <= float(limit[2].replace(",", "")) if limit[1] == "≤" else value >= float(limit[2].replace(",", ""))
    return measure, value if isinstance(value, str) else f"{value:{form}}{unit}", target, "" if holds is None else "yes" if holds else "no"


def lines(b):
    """Yields the lines of the table."""
    for name, title in (("paper", "`method: paper`, all rows"), ("auto", "`auto`"), ("identity", "identity")):
        yield line(f"`train`, {title} ÷ kernel floor ({b.median(name):.1f} s ÷ {b.median(name + ' floor'):.1f} s)", b.ratio(name, name + " floor"), "≤ 1.3")
        yield line(f"the same ÷ the floor of our own loops ({b.median(name + ' own floor'):.1f} s)", b.ratio(name, name + " own floor"))
    yield line(f"NumPy, 12 passes of the paper's step ({b.median('numpy, paper'):.1f} s) ÷ `train`, `method: paper`", b.ratio("numpy, paper", "paper"), "≥ 1.7", ".1f")
    yield line("the same ÷ `auto` with 8 passes", b.ratio("numpy, paper", "auto, 8 passes"), "≥ 3", ".1f")
    yield line(f"NumPy, identity ({b.median('numpy, identity'):.1f} s) ÷ `train`", b.ratio("numpy, identity", "identity"), "≥ 2.2", ".1f")
    for name, (title, limit) in PEERS.items():
        if name in b.raw:
            error, seconds, target = b.median(name, "error"), b.median(name), f"≥ {limit}" if limit else "stated"
            measure = f"{title.format(**b.raw[name][0])}, {error:.2f} % in {seconds:.1f} s ÷ ours to its error"
            if (ours := b.seconds_to(error)) is None:
                yield line(measure, "not reached", target, holds=False if limit else None)
            else:
                yield line(f"{measure}, {ours:.1f} s", seconds / ours, target, ".1f")
    in_time = [min(e for t, e in run["curve"] if t <= b.median("svc")) for run in b.raw[f"auto, {SIZES[-1]}, 4 passes"]]
    yield line(f"ours in the time of `SVC` ({b.median('svc'):.1f} s), 10 × {SIZES[-1]}, 4 passes", statistics.median(in_time), unit=" %")
    goal = b.raw["paper, 60 passes"][0]["objectives"][-1]
    reached = next((n + 1 for n, j in enumerate(b.raw["auto, to that loss"][0]["objectives"]) if j <= goal), 99)
    yield line("passes of `auto` to the J of 60 of the paper's", reached, "≤ 8", ".0f")
    yield line("identity, 4000: predictions from a sampled Gram matrix, RMS", b.raw["identity, sampled against exact"][0]["rms"], "≤ 1e-4", ".1e")
    yield line("a barrier and a visit of 1,797 rows", 1000 * b.median("barrier"), "≤ 5 ms", ".1f", " ms")
    for title, end, two in (("`method: paper`", "", "two cores"), ("`auto`", ", auto", "embedded")):
        own = b.ratio("one core floor" + end, "two cores floor" + end)
        yield line(f"one core ÷ two cores, {title} (the floor's own: {own:.2f})", b.ratio("one core" + end, two), "≥ 1.85")
    yield line("real Kafka ÷ embedded broker", b.ratio("real Kafka", "embedded"), "≤ 1.15")
    yield line("what Kafka's process takes of the same cores in such a run", b.median("broker"), form=".1f", unit=" core-s")
    for what in ("rows", "stages"):
        yield line(f"twice the {what}", b.ratio(f"twice the {what}", "fixed"), "≤ 2.1")
    yield from memory(b, "peak memory, `memory: 1GiB`, 10 stages", "memory, 10 stages", "the same, 40 stages", "memory, 40 stages")
    features = 70_000 * 784 * 4 / 1e6
    yield line("ingest, idx to Arrow on the topic", statistics.median(features / run["ingest_seconds"] for run in b.raw["auto"]), "≥ 200 MB/s", ".0f", " MB/s")
    speed = ALL / b.median("predict")
    yield line(f"`predict`, 10 × 1024, one core ({speed:,.0f} rows/s): floor of its products ÷ time", b.ratio("predict floor", "predict"), "≥ 0.7")
    yield line("the same, the floor of our own loops", b.ratio("predict own floor", "predict"))
    for first, group in (("avx2, auto", avx2), ("100 classes", classes), ("network", patches), (f"wide, {WIDE} MB", columns), ("stream, river", streams),
                         ("tables, predict", speeds)):
        if first in b.raw:
            yield from group(b)


def memory(b, title, name, other_title, other):
    """Yields the lines of two runs of which the longer one must not take more memory."""
    least, most = (b.median(run, "bytes") / 2**30 for run in (name, other))
    yield line(title, least, "≤ 1.3 GiB", unit=" GiB")
    yield line(other_title, most, "no more (± 10 %)", unit=" GiB", holds=most <= 1.1 * least)


def avx2(b):
    for name in FLOORS:
        run, floor = f"avx2, {name}", f"avx2, {name} floor"
        yield line(f"AVX2: `train`, {name} ÷ kernel floor ({b.median(run):.1f} s ÷ {b.median(floor):.1f} s)", b.ratio(run, floor), "≤ 1.35")
    yield line("AVX2: `predict`, 10 × 1024, one core: floor of its products ÷ time", b.ratio("avx2, predict floor", "avx2, predict"), "≥ 0.7")


def classes(b):
    for n in (26, 100):
        run, floor = f"{n} classes", f"{n} classes floor"
        yield line(f"{run} (made-up labels), 10 × 1024, softmax ÷ kernel floor ({b.median(run):.1f} s ÷ {b.median(floor):.1f} s)", b.ratio(run, floor), "≤ 1.4")


def patches(b):
    """Yields the lines about patches of MNIST's images."""
    block, speed = b.median("patches floor"), ALL / b.median("patches, predict")
    each = statistics.median(sum(s[1] for s in run["stages"]) / 4 for run in b.raw["patches, four blocks"])
    yield line(f"patches of images, one block of 4096 columns ({b.median('patches, one block'):.1f} s)", b.median("patches, one block", "error"), "≤ 0.76 %", unit=" %")
    yield line(f"that run, with the survey and the first reading of all messages, ÷ the products of a block ({block:.1f} s)",
               b.ratio("patches, one block", "patches floor"))
    yield line(f"a block of four in one run ({each:.1f} s) ÷ these products", each / block, "≤ 1.5")
    yield line(f"four such blocks ({b.median('patches, four blocks'):.1f} s)", b.median("patches, four blocks", "error"), "≤ 0.60 %", unit=" %")
    for name, title, error, least in (("svc beside patches", "`SVC`, components,", b.median("svc beside patches", "error"), 3),
                                      ("network", "a small convolutional network, JAX,", GOOD, 1)):
        theirs = [next((t for t, e in run.get("curve", [[run["seconds"], run["error"]]]) if e <= error), None) for run in b.raw[name]]
        ours = b.seconds_to(error, PATCHES)
        if ours is None or None in theirs:
            last = ", ".join(f"{run['error']:.2f} % after {run['seconds']:.0f} s" for run in b.raw[name])
            yield line(f"{title} to {error:.2f} % ({last}) ÷ ours", f"ours: {ours:.1f} s" if ours else "not reached", f"≥ {least}", holds=ours is not None)
        else:
            seconds = statistics.median(theirs)
            yield line(f"{title} to {error:.2f} % ({seconds:.1f} s) ÷ ours ({ours:.1f} s)", seconds / ours, f"≥ {least}", ".1f")
    yield line(f"`predict`, one block, one core ({speed:,.0f} images/s): floor of its products ÷ time", b.ratio("patches, predict floor", "patches, predict"), "≥ 0.7")
    yield from memory(b, "peak memory of one block, `memory: 1GiB`", "patches, memory", "the same, four blocks", "patches, memory of four")


def columns(b):
    """Yields the line about rows of ten million columns."""
    weights = 8 * 2 * 10_000_000
    yield line(f"a million rows of ten million columns, 100 values a row, two classes, `memory: {WIDE}MB`: peak memory",
               b.median(f"wide, {WIDE} MB", "bytes") / 1e9, f"≤ {WIDE / 1e3 + weights / 1e9:.2f} GB, with weights", unit=" GB")


def streams(b):
    """Yields the lines about MNIST as a stream: errors are of rows before they are learnt."""
    def measured(name):
        return b.median(f"stream, {name}", "error"), b.median(f"stream, {name}", "rows_per_second")

    ours = {name: measured(name) for name in CHAINS}
    for (name, (_, _, rows, refresh)), most in zip(CHAINS.items(), ("4.7", "3.0", "2.7")):
        error, speed = ours[name]
        yield line(f"stream, {name}, {rows} rows an update, refresh {refresh} ({speed:,.0f} rows/s): error before learning", error, f"≤ {most} %", unit=" %")
    yield line("stream, 1 × 512, rows a second from topic to version", ours["1 × 512"][1], "≥ 50,000", ",.0f")
    for name, target in zip(CHAINS, ("stated", "≥ 2.5", "≥ 3")):
        error, speed = measured(f"NumPy, {name}")
        yield line(f"stream, rows a second ÷ those of the same updates in NumPy, {name} ({error:.2f} % at {speed:,.0f} rows/s)",
                   b.ratio(f"stream, {name}", f"stream, NumPy, {name}", "rows_per_second"), target, ".1f")
    for name, title in STREAMS.items():
        error, speed = measured(name)
        better = [n for n in CHAINS if ours[n][0] < error and ours[n][1] > speed]
        # beside a peer the fastest setting of ours that is better in both, or the one that is nearest in speed
        beside = max(better, key=lambda n: ours[n][1]) if better else min(CHAINS, key=lambda n: abs(np.log(ours[n][1] / speed)))
        target, holds = ("lower, faster", bool(better)) if speed < 100_000 else ("stated", None)
        value = f"{beside}: {ours[beside][0]:.2f} % at {ours[beside][1]:,.0f}"
        yield line(f"stream, {title}: {error:.2f} % at {speed:,.0f} rows/s; ours", value, target, holds=holds)


def speeds(b):
    """Yields the line about predictions of tables."""
    predict = b.raw["tables, predict"]
    ours, theirs = (statistics.median(run["rows"] / run[key] for run in predict) for key in ("seconds", "lightgbm"))
    yield line(f"`predict`, 704 trees of 32 leaves, one core ({ours:,.0f} rows/s of a file) ÷ LightGBM's with as many trees ({theirs:,.0f})",
               statistics.median(run["lightgbm"] / run["seconds"] for run in predict), "≥ 1", ".1f")


def matrices(b):
    """Returns the figures of tables for people: a table for each measure, with a line for each set. The best of a line is bold."""
    def head(*cells):
        return ["", "| " + " | ".join(cells) + " |", "|---" * len(cells) + "|"]

    text = []
    for key, title, digits in (("error", "test error, %", 2), ("loss", "log loss", 4)):
        text += head(title, "training rows", *TABULAR.values())
        for name in SETS:
            medians = {learner: b.median(f"tables, {name}, {learner}", key) for learner in TABULAR if f"tables, {name}, {learner}" in b.raw}
            cells = [f"{m:.{digits}f}" if (m := medians.get(learner)) is not None else "" for learner in TABULAR]
            cells = [f"**{cell}**" if cell and medians[learner] == min(medians.values()) else cell for learner, cell in zip(TABULAR, cells)]
            text.append(f"| {name} | {b.raw[f'tables, {name}, trees × 22'][0]['rows']:,} | " + " | ".join(cells) + " |")
    text += head("no higher error, no higher log loss, its processor seconds ÷ ours", *OURS.values())
    for learner in (name for name in TABULAR if name not in OURS):
        cells = []
        for ours in OURS:
            sets = [s for s in SETS if f"tables, {s}, {learner}" in b.raw and f"tables, {s}, {ours}" in b.raw]
            better = [sum(b.median(f"tables, {s}, {ours}", key) <= b.median(f"tables, {s}, {learner}", key) for s in sets) for key in ("error", "loss")]
            times = statistics.median(b.median(f"tables, {s}, {learner}") / b.median(f"tables, {s}, {ours}") for s in sets)
            cells.append(f"{better[0]}, {better[1]}, {times:.2g}")
        text.append(f"| {TABULAR[learner]} | " + " | ".join(cells) + " |")
    return [*text[1:], ""]


def put(path, begin, text):
    """Replaces what a page has between two comments."""
    before, begin, after = read(path).partition(f"<!-- from {begin} -->\n")
    write(path, before + begin + text + after[after.index("<!-- end -->"):])


def render(b):
    m = b.machine
    text = ["| measure | is | must be | holds |", "|---|---|---|---|", *("| " + " | ".join(cells) + " |" for cells in lines(b))]
    put(README, "bench/table.md", "\n".join(one for one in text if not one.startswith("| ") or one.startswith(("| measure", *("| " + h for h in HEADLINES)))) + "\n")
    text += ["", f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['blas']}, {m['date']}, commit {m['commit']}; "
                 f"medians of {b.repeat}. Seconds are of a run after ingest."
                 + "".join(f" {part}: measured {when}." for part, when in m.get("added", {}).items()), ""]
    print(read(write(TABLE, "\n".join(text))))
    if "tables, predict" in b.raw:
        put(TABLES, "bench/results.json", "\n" + "\n".join(matrices(b)) + "\n")
    figure(b)


def figure(b):
    """Draws test errors on MNIST by seconds: curves of ours, and a mark for the median of each peer that was measured. The legend is below, so that it
    covers nothing."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "stagewise"
    from matplotlib import pyplot as plot
    from matplotlib import ticker

    drawing, axes = plot.subplots(figsize=(8, 6))
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="test error on MNIST, %")
    sizes = ((f"auto, {size}, 4 passes", f"stagewise, 10 × {size}, 4 passes") for size in SIZES)
    for name, label in (("auto", "stagewise, 10 × 1024, at most 12 passes"), *sizes, ("identity", "stagewise, identity, 10 × 1024")):
        run = b.middle(name)
        seconds = np.cumsum([run["seconds"] - sum(s[1] for s in run["stages"]), *(s[1] for s in run["stages"])])[1:]
        axes.plot(seconds, [s[2] for s in run["stages"]], "o-", markersize=4, label=label)
    for name, label, look in (("patches, 32 filters", "stagewise, patches, 1024", "o-"), ("patches, four blocks", "stagewise, patches, 4 × 4096", "o-"),
                              ("network", "small convolutional network, JAX", "k--")):
        if name in b.raw:  # the first pass has learnt nothing
            axes.plot(*zip(*((t, e) for t, e in b.middle(name)["curve"] if e < 6)), look, markersize=3, linewidth=1, label=label)
    for name, label in (("mlp", "MLPClassifier"), ("neighbors", "3 nearest\nneighbours"), ("numpy, paper", "NumPy, the same\nin memory"), ("logistic", "LogisticRegression"),
                        ("sgd", "SGDClassifier"), ("liblinear", "liblinear"), ("vowpal", "Vowpal Wabbit"), ("spark", "Spark MLlib"), ("ridge", "Ridge, 4000"), ("svc", "SVC"),
                        ("numpy, identity", "NumPy, identity")):
        if name in b.raw:
            x, y, left = b.median(name), b.median(name, "error"), name == "numpy, identity"
            axes.plot([x], [y], "k^", markersize=5)
            axes.annotate(label, (x, y), textcoords="offset points", xytext=(-6 if left else 6, 0), va="center", ha="right" if left else "left", fontsize=8)
    for axis, digits in ((axes.xaxis, (1, 2, 5)), (axes.yaxis, (1, 1.5, 2, 3, 5, 7))):
        axis.set(major_locator=ticker.LogLocator(subs=digits, numticks=99), major_formatter="{x:g}", minor_locator=ticker.NullLocator())
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.11), ncols=2, frameon=False)
    drawing.tight_layout()
    drawing.savefig(FIGURE, metadata={"Date": None})


def machine():
    processor = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        processor = next((l.partition(":")[2].strip() for l in read("/proc/cpuinfo").splitlines() if l.startswith("model name")), processor)
    out = json.loads(call([FLOOR, "-train", "64", "-test", "0", "-passes", "1", "-gram-rows", "64"]).stdout)
    others = [f":!{path}" for path in (README, TABLES, RESULTS, TABLE, FIGURE)]
    dirty = call(["git", "status", "--porcelain", "--untracked-files=no", "--", ".", *others]).stdout.strip()
    return {
        "processor": processor, "cores": os.cpu_count(), "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "blas": out["blas"], "vector": out["vector"], "system": platform.platform(), "date": datetime.date.today().isoformat(),
        "commit": call(["git", "rev-parse", "--short=12", "HEAD"]).stdout.strip() + (", with changes" if dirty else ""),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each (3)")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="run this part and print what it measured; no table")
    parser.add_argument("--add", action="append", choices=list(PARTS), help="run this part, and put what it measured beside the rest in bench/results.json")
    parser.add_argument("--render", action="store_true", help="make table and figure again from bench/results.json")
    options = parser.parse_args()
    bench = whole = Bench(options.repeat)
    if not options.render:
        bench.machine = machine()
        say(", ".join(f"{k}: {v}" for k, v in bench.machine.items()))
        if options.add or options.only:
            bench.write = lambda: None
        for part in options.add or options.only or PARTS:
            PARTS[part](bench)
    if options.add or options.render:
        whole = Bench(options.repeat)
        whole.load()
        whole.raw.update(bench.raw)
    if options.add:
        here = "" if bench.machine["processor"] == whole.machine["processor"] else f", {bench.machine['processor']}, {bench.machine['blas']}"
        when = f"{bench.machine['date']} at {bench.machine['commit']}, runs: {options.repeat}{here}"
        whole.machine.setdefault("added", {}).update({part: when for part in options.add})
        whole.write()
    if not options.only:
        render(whole)
