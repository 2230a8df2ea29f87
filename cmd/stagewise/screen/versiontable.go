package screen

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// WriteVersions writes a row for each version.
func WriteVersions(w io.Writer, versions []protocol.Finished) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "version\trun\tdate\trows\tstages\tridge\ttrain error\tholdout error\ttest error\tdigest\toffered\tparameters")
	for _, v := range versions {
		m := v.Manifest
		fmt.Fprintf(table, "%d\t%s\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			v.Version, v.Run, date(v.Written), v.Rows[examples.Train.String()], len(v.Blocks), ridges(m),
			metric(m, "train_error"), metric(m, "holdout_error"), metric(m, "test_error"), v.WeightsDigest.Short(), offered(v), parameters(v.Plan))
	}
	return table.Flush()
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
