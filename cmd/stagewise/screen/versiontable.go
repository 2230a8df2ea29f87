package screen

import (
	"io"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// WriteVersions writes a row for each version.
func WriteVersions(w io.Writer, versions []protocol.Finished) error {
	var table artifact.Table
	table.Row("version", "run", "date", "rows", "stages", "ridge", "train error", "holdout error", "test error", "digest", "offered",
		"parameters")
	for _, v := range versions {
		m := v.Manifest
		table.Row(v.Version, v.Run, date(v.Written), v.Rows[examples.Train.String()], len(v.Blocks), ridges(m),
			metric(m, "train_error"), metric(m, "holdout_error"), metric(m, "test_error"), v.WeightsDigest.Short(), offered(v), parameters(v.Plan))
	}
	return table.Write(w)
}

// offered says whether a version is offered to subscribers, or pinned.
func offered(v protocol.Finished) string {
	switch {
	case v.Pinned:
		return "pinned"
	case v.Offered:
		return "yes"
	}
	return "no"
}

// metric returns an error of a version, in percent.
func metric(m schemas.Manifest, name string) string {
	if v, ok := m.Metrics[name]; ok {
		return Percent(&v)
	}
	return none
}
