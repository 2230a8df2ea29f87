"""Registers the versions of a pipeline with MLflow: python -m stagewise.mlflow -c FILE.

The registered model has the name of the pipeline, and a version for each of its versions. The alias champion is what subscribers get as latest: the
pinned version, or else the newest offered one. The tag stagewise.offered is yes, pinned, or no for a withheld version. Versions that the pipeline
has removed, because rows were forgotten or by keep, are deleted with their runs; `mlflow gc` deletes the files.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from . import program, versions
from .model import load

_RUN, _OFFERED = "stagewise.run", "stagewise.offered"
_ALIAS = "champion"
_AT_ONCE = 100  # parameters that MLflow takes in a request

_MODEL = """flavors:
  python_function:
    loader_module: stagewise.mlflow
    data: stagewise.model
"""

_load_pyfunc = load  # for mlflow.pyfunc.load_model


class Registry:
    """The registered model of a pipeline."""

    def __init__(self, configuration: str, client: Any) -> None:
        self._configuration, self._client = configuration, client
        self._name = ""  # of the pipeline, when a version was listed
        self._library = program.needs("mlflow", "mlflow")

    def register(self, listed: Sequence[versions.Listed]) -> None:
        """Makes the registered model that of the listed versions."""
        self._name = listed[0].manifest["name"] if listed else self._name
        if not self._name:
            return
        name, client = self._name, self._client
        if not client.search_registered_models(f"name = '{name}'"):
            client.create_registered_model(name)
        experiment = client.get_experiment_by_name(name)
        experiment_id = experiment.experiment_id if experiment else client.create_experiment(name)
        known = {one.tags[_RUN]: one for one in self._library.search_model_versions(filter_string=f"name = '{name}'") if _RUN in one.tags}
        kept = {version.run for version in listed}
        for run in known.keys() - kept:
            client.delete_model_version(name, known[run].version)
        registered = {known[run].run_id for run in known.keys() & kept}
        for run in self._library.search_runs([experiment_id], f"tags.`{_RUN}` != ''", output_format="list"):
            if run.info.run_id not in registered:  # its version is removed, or it was interrupted
                client.delete_run(run.info.run_id)
        for version in listed:
            one = known.get(version.run) or self._add(experiment_id, version)
            known[version.run] = one
            if one.tags.get(_OFFERED) != version.offered:
                client.set_model_version_tag(name, one.version, _OFFERED, version.offered)
        latest = [v for v in listed if v.offered == "pinned"] or [v for v in listed if v.offered == "yes"]
        number = str(known[latest[-1].run].version) if latest else None
        now = client.get_registered_model(name).aliases.get(_ALIAS)
        if number is None and now is not None:
            client.delete_registered_model_alias(name, _ALIAS)
        elif number is not None and str(now) != number:
            client.set_registered_model_alias(name, _ALIAS, number)

    def _add(self, experiment_id: str, version: versions.Listed) -> Any:
        """Adds a version, with its run."""
        client, of, m = self._client, self._library.entities, version.manifest
        written = int(datetime.fromisoformat(version.written).timestamp() * 1000)
        tags = {_RUN: version.run, "stagewise.version": str(m["version"]), "stagewise.digest": m["weights_digest"]}
        run = client.create_run(experiment_id, start_time=written, run_name=f"{m['name']}-{m['version']}", tags=tags).info
        params = [of.Param(key, value) for key, value in version.parameters()]
        for first in range(0, len(params), _AT_ONCE):
            client.log_batch(run.run_id, params=params[first : first + _AT_ONCE])
        client.log_batch(run.run_id, metrics=[of.Metric(key, value, written, 0) for key, value in m["metrics"].items()])
        read = json.dumps({"topic": version.topic, "spans": json.loads(version.spans())})
        inputs = [of.Dataset(version.topic, versions.digest(version.spans()), "kafka", read)]
        for source in m["plan"]["sources"] or ():
            inputs.append(of.Dataset(f"{version.topic}/{source['split']}", source["id"][:36], "stagewise", json.dumps(source)))
        client.log_inputs(run.run_id, datasets=[of.DatasetInput(one) for one in inputs])
        with tempfile.TemporaryDirectory() as folder:
            versions.ask("weights", "export", "-c", self._configuration, "--version", version.run, "-o", f"{folder}/stagewise.model")
            with open(f"{folder}/MLmodel", "w") as file:
                file.write(_MODEL)
            client.log_artifacts(run.run_id, folder, "model")
        client.set_terminated(run.run_id, end_time=written)
        return client.create_model_version(m["name"], f"{run.artifact_uri}/model", run.run_id, tags=tags | {_OFFERED: version.offered})


def main() -> None:
    """Follows the versions until Ctrl-C."""
    flags = versions.arguments("mlflow", "Registers the versions of a pipeline with MLflow, at MLFLOW_TRACKING_URI.").parse_args()
    client = versions.imported("mlflow", "mlflow").MlflowClient()
    versions.follow(flags, Registry(flags.config, client).register)


if __name__ == "__main__":
    main()
