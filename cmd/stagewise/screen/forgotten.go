package screen

import (
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/admin"
)

// WriteForgot writes what was forgotten, what becomes of the versions, and how long the rest stays.
func WriteForgot(w io.Writer, done *admin.Forgot, now bool) error {
	fmt.Fprintf(w, "forgot %s of %s\n", english.Plural(int(done.Rows), "row", ""), english.Plural(int(done.Messages), "message", ""))
	if done.Unknown > 0 {
		fmt.Fprintf(w, "%s may have others: an earlier program ingested them without keys and offsets. Name their rows\n",
			english.Plural(int(done.Unknown), "message", ""))
	}
	if len(done.Removed) > 0 {
		fmt.Fprintf(w, "removed versions that learnt from forgotten rows: %s\n", listOf(done.Removed))
	}
	for _, c := range done.Compacts {
		when := "at the first write after segment.ms"
		if c.After > 0 {
			when = fmt.Sprintf("at the first compaction after a write from %s on", date(time.Now().Add(c.After)))
		}
		fmt.Fprintf(w, "%s: brokers erase the data of these versions %s\n", c.Topic, when)
	}
	switch {
	case len(done.Learnt) == 0:
	case now:
		fmt.Fprintf(w, "kept for unfinished runs, versions that learnt from forgotten rows: %s; run removes them after its next "+
			"version\n", listOf(done.Learnt))
	default:
		fmt.Fprintf(w, "versions that learnt from forgotten rows: %s; train or run removes them after its next version, --now "+
			"immediately\n", listOf(done.Learnt))
	}
	var table artifact.Table
	for _, s := range done.Stays {
		until := "forever"
		if !s.Until.IsZero() {
			until = "until " + date(s.Until) + " at the latest"
		}
		table.Row(s.Topic, fmt.Sprintf("%s stay %s", s.What, until))
	}
	return table.Write(w)
}

// WriteRepaired writes what was damaged, and what is lost of it.
func WriteRepaired(w io.Writer, repaired []kafkalog.Repaired) {
	for _, r := range repaired {
		fmt.Fprintf(w, "%s was damaged at byte %d; the messages of %s[%d] from offset %d to %d are lost\n", r.File, r.Position, r.Topic,
			r.Partition, r.From, r.To-1)
	}
}
