"""MLflow's registry in SQLite and the events of OpenLineage have the versions of a pipeline."""

import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from typing import Any
from unittest import mock

import mlflow as library
import numpy as np
import pandas
from openlineage.client.serde import Serde
from stagewise import load, mlflow, openlineage, versions

from . import program

FRAME = pandas.DataFrame({"age": np.arange(60) + 0.5, "height": np.arange(60) % 7})
STAGES = [{"features": {"kind": "rff", "size": 16}, "link": "softmax", "passes": 2}]


class Registered(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.enterContext(contextlib.chdir(self.folder))
        FRAME.assign(kind=["a", "b"] * 30).to_csv("people.csv", index=False)
        self.train()
        self.flags = versions.arguments("mlflow", "").parse_args(["-c", "people.yaml", "--once"])

    def train(self) -> str:
        return program.train(self.folder, "people", examples={"train": ["people.csv"], "label": "kind"}, stages=STAGES)

    def test_mlflow(self) -> None:
        os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true"}
        library.set_tracking_uri(f"sqlite:///{self.folder}/mlflow.db")
        client = library.MlflowClient()
        registry = mlflow.Registry("people.yaml", client)

        def registered() -> list[Any]:
            versions.follow(self.flags, registry.register)
            versions.follow(self.flags, registry.register)  # adds nothing
            return sorted(client.search_model_versions("name = 'people'"), key=lambda one: int(one.version))

        first = registered()[0]
        run = client.get_run(first.run_id)
        self.assertEqual((run.data.params["stages.0.link"], run.data.params["seed"]), ("softmax", "1"))
        self.assertIn("train_error", run.data.metrics)
        self.assertEqual([one.dataset.name for one in run.inputs.dataset_inputs], ["people.examples", "people.examples/train"])
        loaded = library.pyfunc.load_model(first.source)
        self.assertEqual(loaded.predict(FRAME).tolist(), load("people.model").predict(FRAME).tolist())
        self.train()
        half = client.create_run(run.info.experiment_id, tags={"stagewise.run": "interrupted"}).info.run_id
        self.assertEqual([one.tags["stagewise.offered"] for one in registered()], ["yes", "yes"])
        self.assertEqual(client.get_run(half).info.lifecycle_stage, "deleted")
        self.assertEqual(client.get_model_version_by_alias("people", "champion").tags["stagewise.version"], "2")
        program.run(self.folder, "weights", "pin", "-c", "people.yaml", "1")
        self.assertEqual([one.tags["stagewise.offered"] for one in registered()], ["pinned", "yes"])
        self.assertEqual(client.get_model_version_by_alias("people", "champion").tags["stagewise.version"], "1")
        program.run(self.folder, "weights", "remove", "-c", "people.yaml", "1", "--even-latest")
        self.assertEqual([one.tags["stagewise.version"] for one in registered()], ["2"])
        self.assertEqual(client.get_run(first.run_id).info.lifecycle_stage, "deleted")
        self.assertEqual(client.get_model_version_by_alias("people", "champion").tags["stagewise.version"], "2")
        program.run(self.folder, "weights", "remove", "-c", "people.yaml", "2", "--even-latest")
        self.assertEqual(registered(), [])

    def test_openlineage(self) -> None:
        def events() -> list[Any]:
            client.reset_mock()
            versions.follow(self.flags, lineage.register)
            return [Serde.to_dict(call.args[0]) for call in client.emit.call_args_list]

        client = mock.Mock()
        lineage = openlineage.Lineage(client, "kafka://localhost:9092")
        (event,) = first = events()
        self.assertEqual((event["eventType"], event["job"]["name"]), ("COMPLETE", "people"))
        self.assertEqual([one["name"].split("/")[0] for one in event["inputs"]], ["people.examples", "people.examples"])
        self.assertEqual(event["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"], 60)
        self.assertEqual(events(), [])
        lineage = openlineage.Lineage(client, "kafka://localhost:9092")
        self.assertEqual(events(), first)  # of another process
        self.train()
        self.assertEqual(len(events()), 1)
        program.run(self.folder, "weights", "remove", "-c", "people.yaml", "1")
        (dropped,) = events()
        self.assertEqual(dropped["dataset"]["facets"]["lifecycleStateChange"]["lifecycleStateChange"], "DROP")
        self.assertEqual(dropped["dataset"]["name"], event["outputs"][0]["name"])

    def test_outage(self) -> None:
        """An error of the registry is shown, and the versions are handed over again. Ctrl-C ends."""
        self.flags.once, self.flags.interval = False, 0
        register = mock.Mock(side_effect=[ConnectionError("no answer"), ConnectionError("no answer"), None, KeyboardInterrupt])
        with contextlib.redirect_stderr(io.StringIO()) as said:
            versions.follow(self.flags, register)
        self.assertEqual(said.getvalue(), "stagewise: no answer; trying again every 0 s\n")
        self.assertEqual([one.manifest["version"] for one in register.call_args.args[0]], [1])
        pathlib.Path("people.yaml").unlink()
        self.flags.once = True
        with self.assertRaisesRegex(SystemExit, "people.yaml"):
            versions.follow(self.flags, register)
