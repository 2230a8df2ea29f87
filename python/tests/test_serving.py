"""Triton's client of the Open Inference Protocol, and MLflow's frames, have the predictions of /predict."""

import json
import pathlib
import subprocess
import tempfile
import unittest
import urllib.request
from typing import Any

import numpy as np
import pandas
import tritonclient.grpc
import tritonclient.http as triton
from stagewise import program as package
from tritonclient.utils import InferenceServerException

from . import program

FRAME = pandas.DataFrame({"age": np.arange(60) + 0.5, "city": ["Oslo", "Rome", "Lima"] * 20, "height": np.arange(60) % 7})


class Serving(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        FRAME.assign(kind=["a", "b"] * 30).to_csv(pathlib.Path(folder, "people.csv"), index=False)
        stages = [{"features": {"kind": "rff", "size": 16}, "link": "softmax", "passes": 2}]
        model = program.train(folder, "people", examples={"train": ["people.csv"], "label": "kind", "categorical": ["city"]}, stages=stages)
        serve = [package.find(), "serve", "--model", model, "--listen", "127.0.0.1:0"]
        server = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True)
        cls.addClassCleanup(server.communicate)
        cls.addClassCleanup(server.kill)
        assert server.stderr
        line = next(line for line in server.stderr if "url=" in line)
        cls.address = line.split("url=http://")[1].split("/")[0]
        cls.want = cls.post("/predict", {"columns": list(FRAME), "rows": FRAME.values.tolist()})

    @classmethod
    def post(cls, path: str, content: Any) -> Any:
        request = urllib.request.Request(f"http://{cls.address}{path}", json.dumps(content).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def test_triton(self) -> None:
        client = triton.InferenceServerClient(self.address)
        self.addCleanup(client.close)
        self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("people", "1"))
        self.assertFalse(client.is_model_ready("others"))
        metadata = client.get_model_metadata("people")
        kinds = {tensor["name"]: tensor["datatype"] for tensor in metadata["inputs"]}
        self.assertEqual(kinds, {"age": "FP64", "city": "BYTES", "height": "FP64"})
        for binary in (True, False):
            inputs = []
            for name, kind in kinds.items():
                values = FRAME[name].to_numpy(object if kind == "BYTES" else np.float64)
                inputs.append(triton.InferInput(name, [len(values)], kind).set_data_from_numpy(values, binary_data=binary))
            some = [triton.InferRequestedOutput("probabilities", binary_data=not binary), triton.InferRequestedOutput("label", binary_data=binary)]
            for outputs in (None, some):
                answer = client.infer("people", inputs, outputs=outputs, request_id="7", request_compression_algorithm="gzip")
                labels = [label.decode() if isinstance(label, bytes) else label for label in answer.as_numpy("label")]
                self.assertEqual(labels, self.want["labels"])
                np.testing.assert_array_equal(answer.as_numpy("probabilities"), np.float32(self.want["probabilities"]))
                self.assertEqual((answer.get_response()["id"], answer.get_response()["model_version"]), ("7", "1"))
            with self.assertRaisesRegex(InferenceServerException, "only version 1"):
                client.infer("people", inputs, model_version="2")

    def test_grpc(self) -> None:
        client = tritonclient.grpc.InferenceServerClient(self.address)
        self.addCleanup(client.close)
        self.assertTrue(client.is_server_live() and client.is_server_ready() and client.is_model_ready("people", "1"))
        self.assertEqual(client.get_server_metadata().name, "stagewise")
        inputs = []
        for tensor in client.get_model_metadata("people").inputs:
            values = FRAME[tensor.name].to_numpy(object if tensor.datatype == "BYTES" else np.float64)
            inputs.append(tritonclient.grpc.InferInput(tensor.name, [len(values)], tensor.datatype).set_data_from_numpy(values))
        for compression in (None, "gzip"):
            answer = client.infer("people", inputs, request_id="7", compression_algorithm=compression)
            self.assertEqual([label.decode() for label in answer.as_numpy("label")], self.want["labels"])
            np.testing.assert_array_equal(answer.as_numpy("probabilities"), np.float32(self.want["probabilities"]))
            self.assertEqual((answer.get_response().id, answer.get_response().model_version), ("7", "1"))
        with self.assertRaisesRegex(InferenceServerException, "NOT_FOUND.*only version 1"):
            client.infer("people", inputs, model_version="2")

    def test_mlflow(self) -> None:
        split = json.loads(FRAME.to_json(orient="split"))
        for body in (
            {"dataframe_split": split},
            {"dataframe_records": FRAME.to_dict("records")},
            {"instances": FRAME.values.tolist()},
            {"inputs": FRAME.to_dict("list")},
        ):
            self.assertEqual(self.post("/invocations", body), {"predictions": self.want["labels"]})
