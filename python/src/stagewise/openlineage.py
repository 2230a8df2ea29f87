"""Sends the versions of a pipeline to OpenLineage: python -m stagewise.openlineage -c FILE.

Each version is a COMPLETE event of a run of the job NAME. Its inputs are the topic of the examples, the ingested sources and the version that it
continues from; its output is the dataset NAME.versions/RUN. The id of the run and the time of the event are those of the version, so an event that is
sent again after a restart is the same. A version that is removed while this program runs is a dataset that is dropped.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from . import program, versions

_PRODUCER = "https://github.com/stagewise/stagewise"
_PACKAGE = "openlineage-python"


class Lineage:
    """The events of a pipeline."""

    def __init__(self, client: Any, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._events = program.needs("openlineage.client.event_v2", _PACKAGE)
        self._facets = program.needs("openlineage.client.facet_v2", _PACKAGE)
        self._facets.set_producer(_PRODUCER)
        self._sent: dict[str, versions.Listed] = {}  # by run

    def register(self, listed: Sequence[versions.Listed]) -> None:
        """Sends what has changed since the last list."""
        for version in listed:
            if self._sent.get(version.run) != version:
                self._client.emit(self.event(version))
                self._sent[version.run] = version
        for run in self._sent.keys() - {version.run for version in listed}:
            self._client.emit(self._dropped(self._sent[run]))
            del self._sent[run]

    def event(self, version: versions.Listed) -> Any:
        """Returns the event of a version."""
        of, facets, m = self._events, self._facets, version.manifest
        parameters = [facets.execution_parameters_run.ExecutionParameter(key, key, value=value) for key, value in version.parameters()]
        run = of.Run(
            str(uuid.uuid5(uuid.NAMESPACE_URL, f"{_PRODUCER}/runs/{version.run}")),
            {"executionParameters": facets.execution_parameters_run.ExecutionParametersRunFacet(parameters=parameters)},
        )
        kind = facets.job_type_job.JobTypeJobFacet("STREAMING" if version.manifest["plan"].get("chain") else "BATCH", "STAGEWISE", "TRAINING")
        inputs = [self._input(version.topic, f"{versions.digest(version.spans())} {version.spans()}", sum(m["rows"].values()))]
        for source in m["plan"]["sources"] or ():
            inputs.append(self._input(f"{version.topic}/{source['id']}", source["id"], source["rows"]))
        if version.parent:
            inputs.append(of.InputDataset(self._namespace, f"{m['name']}.versions/{version.parent}"))
        tag = facets.tags_dataset.TagsDatasetFacetFields
        tags = {"offered": version.offered, "version": m["version"], **m["metrics"]}
        output = of.OutputDataset(
            self._namespace,
            f"{m['name']}.versions/{version.run}",
            facets={
                "version": facets.dataset_version_dataset.DatasetVersionDatasetFacet(m["weights_digest"]),
                "tags": facets.tags_dataset.TagsDatasetFacet([tag(key, str(value), "STAGEWISE") for key, value in tags.items()]),
            },
        )
        return of.RunEvent(
            eventTime=version.written,
            producer=_PRODUCER,
            run=run,
            job=of.Job(self._namespace, m["name"], {"jobType": kind}),
            eventType=of.RunState.COMPLETE,
            inputs=inputs,
            outputs=[output],
        )

    def _input(self, name: str, version: str, rows: int) -> Any:
        return self._events.InputDataset(
            self._namespace,
            name,
            {"inputStatistics": self._facets.input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=rows)},
            facets={"version": self._facets.dataset_version_dataset.DatasetVersionDatasetFacet(version)},
        )

    def _dropped(self, version: versions.Listed) -> Any:
        change = self._facets.lifecycle_state_change_dataset
        facet = change.LifecycleStateChangeDatasetFacet(change.LifecycleStateChange.DROP)
        name = f"{version.manifest['name']}.versions/{version.run}"
        dataset = self._events.StaticDataset(self._namespace, name, facets={"lifecycleStateChange": facet})
        return self._events.DatasetEvent(eventTime=datetime.now(UTC).isoformat(), producer=_PRODUCER, dataset=dataset)


def main() -> None:
    """Follows the versions until Ctrl-C."""
    parser = versions.arguments("openlineage", "Sends the versions of a pipeline to OpenLineage, as OPENLINEAGE_URL or openlineage.yml says.")
    parser.add_argument("--namespace", default="stagewise", help="of the datasets and the job, such as kafka://HOST:PORT (default stagewise)")
    flags = parser.parse_args()
    client = versions.imported("openlineage.client", _PACKAGE).OpenLineageClient()
    versions.follow(flags, Lineage(client, flags.namespace).register)


if __name__ == "__main__":
    main()
