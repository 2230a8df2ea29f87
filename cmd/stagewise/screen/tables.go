package screen

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Table is a table on a terminal, with two spaces between columns. The zero value has no rows.
type Table struct {
	Right bool // columns after the first are right-aligned, except bars
	Width int  // of lines: the last cells of rows are cut to it; 0: no limit
	rows  [][]string
}

// Row adds a row of cells, which are formatted as by fmt.Sprint.
func (t *Table) Row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = fmt.Sprint(cell)
	}
	t.rows = append(t.rows, row)
}

// Write writes all rows; w keeps errors of writes. A column is as wide as its longest cell; of a left-aligned table, the last cells of rows
// do not count.
func (t *Table) Write(w io.Writer) {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if t.Right || i < len(row)-1 {
				widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			}
		}
	}
	var out strings.Builder
	for _, row := range t.rows {
		line := ""
		for i, cell := range row {
			if i > 0 {
				line += "  "
			}
			if t.Width > 0 && i == len(row)-1 {
				cell = Cut(cell, t.Width-utf8.RuneCountInString(line))
			}
			pad := strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
			if t.Right && i > 0 && !strings.HasPrefix(cell, "█") {
				line += pad + cell
			} else {
				line += cell + pad
			}
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, _ = io.WriteString(w, out.String())
}

// Cut shortens a text to a number of characters, the last of which is then an ellipsis.
func Cut(text string, to int) string {
	if utf8.RuneCountInString(text) <= to {
		return text
	}
	return string([]rune(text)[:max(to-1, 0)]) + "…"
}

// none stands for a value that does not exist.
const none = "-"

// Percent formats an error in percent; nil stands for none.
func Percent(v *float64) string {
	if v == nil {
		return none
	}
	return fmt.Sprintf("%.2f %%", *v)
}

// loss formats a mean loss; nil stands for none.
func loss(v *float64) string {
	if v == nil {
		return none
	}
	return fmt.Sprintf("%.4f", *v)
}

// date formats a time in RFC 3339, so that scripts can sort it.
func date(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// amount formats a number of bytes, such as 42 MB.
func amount(bytes int64) string { return humanize.Bytes(uint64(bytes)) }

// listOf formats a list of numbers.
func listOf(list []int) string {
	var texts []string
	for _, n := range list {
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, ", ")
}

// WriteVersions writes a row for each version.
func WriteVersions(w io.Writer, versions []protocol.Finished) {
	var table Table
	table.Row("version", "run", "date", "rows", "stages", "ridge", "train error", "holdout error", "test error", "digest", "offered",
		"parameters")
	for _, v := range versions {
		m := v.Manifest
		table.Row(v.Version, v.Run, date(v.Written), v.Rows[examples.Train.String()], len(v.Blocks), ridges(m),
			metric(m, "train_error"), metric(m, "holdout_error"), metric(m, "test_error"), v.WeightsDigest.Short(), offered(v), parameters(v.Plan))
	}
	table.Write(w)
}

// WriteVersionsJSON writes a line of JSON for each version.
func WriteVersionsJSON(w io.Writer, versions []protocol.Finished) {
	lines := json.NewEncoder(w)
	for _, v := range versions { // all of a manifest can be encoded
		_ = lines.Encode(map[string]any{"offered": offered(v), "written": v.Written.UTC(), "manifest": v.Manifest})
	}
}

// offered returns whether subscribers are offered a version: yes, no, or pinned.
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

// WriteSources writes a row for each source.
func WriteSources(w io.Writer, sources []source.SourceState) {
	var table Table
	table.Row("source", "state", "since", "split", "rows", "messages", "left", "files")
	for _, s := range sources {
		rows, split, files := none, none, none
		id, messages, left := short(s.ID, sources), strconv.FormatInt(s.Messages, 10), strconv.FormatInt(s.Left, 10)
		switch s.State {
		case source.Followed:
			id, messages, left, split, files = s.ID, none, none, s.Split, "read to"
			for _, p := range s.Read {
				files += fmt.Sprintf(" [%d]@%d", p.Partition, p.Next)
			}
		case source.Unfinished:
		default:
			rows, split, files = strconv.FormatInt(s.Rows, 10), s.Split, strings.Join(s.Files, ", ")
		}
		table.Row(id, s.State, date(s.Since), split, rows, messages, left, files)
	}
	table.Write(w)
}

// short returns the first digits of a source id: as many as other ids show, or more if the id of another source begins
// with the same digits.
func short(id string, sources []source.SourceState) string {
	digits := len(wire.Digest(id).Short())
	for _, other := range sources {
		for other.ID != id && digits < len(id) && strings.HasPrefix(other.ID, id[:digits]) {
			digits++
		}
	}
	return id[:digits]
}

// WriteTopics writes a row for each topic.
func WriteTopics(w io.Writer, list []kafkalog.Topic) {
	var table Table
	table.Row("topic", "partitions", "replicas", "cleanup")
	for _, t := range list {
		cleanup := "delete"
		if t.Compact {
			cleanup = "compact"
		}
		table.Row(t.Name, t.Partitions, t.Replication, cleanup)
	}
	table.Write(w)
}

// WriteDifferences writes how topics differ from the configuration.
func WriteDifferences(w io.Writer, differences []topics.Difference) {
	if len(differences) == 0 {
		return
	}
	var table Table
	fmt.Fprintln(w)
	table.Row("topic", "setting", "current", "configured", "")
	for _, d := range differences {
		how := "changed by topics apply"
		if !d.Applies() {
			how = "changed by Kafka's own tools"
		}
		table.Row(d.Topic, d.Name, d.Has, d.Configured, how)
	}
	table.Write(w)
}

// WriteQuarantine writes a row for each reason: the number of messages, the positions of the first and the last, and the reason.
func WriteQuarantine(w io.Writer, reasons []source.QuarantineReason) {
	var table Table
	table.Row("messages", "first", "last", "reason")
	place := func(q schemas.Quarantined) string { return fmt.Sprintf("%s[%d]@%d", q.Topic, q.Partition, q.Offset) }
	for _, r := range reasons {
		table.Row(r.Messages, place(r.First), place(r.Last), r.Reason)
	}
	table.Write(w)
}

// WriteForgot writes the forgotten rows, the affected versions, and how long data of the rows remains.
func WriteForgot(w io.Writer, done *source.Forgot, now bool) {
	fmt.Fprintf(w, "forgot %s of %s\n", english.Plural(int(done.Rows), "row", ""), english.Plural(int(done.Messages), "message", ""))
	if len(done.Removed) > 0 {
		fmt.Fprintf(w, "removed versions that learnt from forgotten rows: %s\n", listOf(done.Removed))
	}
	for _, c := range done.Compacts {
		when := "at the first write after segment.ms"
		if !c.From.IsZero() {
			when = fmt.Sprintf("at the first compaction after a write from %s on", date(c.From))
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
	var table Table
	for _, s := range done.Stays {
		until := "forever"
		if !s.Until.IsZero() {
			until = "until " + date(s.Until) + " at the latest"
		}
		table.Row(s.Topic+s.Files, fmt.Sprintf("%s stay %s", s.What, until))
	}
	table.Write(w)
}

// WriteRepaired writes the damaged files and the lost messages.
func WriteRepaired(w io.Writer, repaired []kafkalog.Repaired) {
	for _, r := range repaired {
		fmt.Fprintf(w, "%s was damaged at byte %d; the messages of %s[%d] from offset %d to %d are lost\n", r.File, r.Position, r.Topic,
			r.Partition, r.From, r.To-1)
	}
}
