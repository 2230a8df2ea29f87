package screen

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
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
		var ridges []string // of the stages, each once
		for stage := range m.Plan.Stages {
			if ridge := m.Ridge(stage).String(); !slices.Contains(ridges, ridge) {
				ridges = append(ridges, ridge)
			}
		}
		table.Row(v.Version, v.Run, date(v.Written), v.Rows[examples.Train.String()], len(v.Blocks), strings.Join(ridges, ", "),
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

// Describe writes the first lines of a run: the pipeline, its brokers, and the BLAS.
func Describe(w io.Writer, c *config.Config, blas *kernel.BLAS) {
	fmt.Fprintf(w, "%s on %s, %s\n", c.Name, Brokers(c), blas.Name())
	if hint := blas.Hint(); hint != "" {
		fmt.Fprintln(w, hint)
	}
}

// Brokers describes how the brokers of a configuration are reached.
func Brokers(c *config.Config) string {
	if len(c.Brokers) == 0 {
		text := "the embedded broker in " + c.DataDir
		if c.Listen != "" {
			text += " at " + c.Listen
		}
		return text
	}
	text := "Kafka at " + strings.Join(c.Brokers, ", ")
	if c.Security.TLS.Enabled {
		text += " over TLS"
	}
	switch s := c.Security.SASL; {
	case s.Username != "":
		text += fmt.Sprintf(" as %s (%s)", s.Username, s.Mechanism)
	case s.Mechanism != "":
		text += " with " + s.Mechanism
	}
	return text
}

// taskMetrics describes the metrics of numbers, of several labels per row, or of two classes; "" for more classes, or
// without rows.
func taskMetrics(s schemas.SplitReport) string {
	var parts []string
	if s.Hamming != nil && s.MicroF1 != nil {
		parts = append(parts, fmt.Sprintf("Hamming loss %.3f, micro-F1 %.3f", *s.Hamming, *s.MicroF1))
	}
	if s.AUC != nil && len(s.F1) == 2 {
		parts = append(parts, fmt.Sprintf("AUC %.4f", *s.AUC))
	}
	if d := s.Decided; d != nil {
		parts = append(parts, fmt.Sprintf("at the threshold %.4g: error %.2f %%, precision %.4f, recall %.4f, F1 %.4f", d.Threshold, d.Error,
			d.Precision, d.Recall, d.F1))
	}
	for i, name := range slices.Sorted(maps.Keys(s.Targets)) {
		if i == mostTargets {
			parts = append(parts, "…")
			break
		}
		d := s.Targets[name]
		text := fmt.Sprintf("%s: RMSE %.4g, R² %.3f", name, d.RMSE, d.R2)
		if d.R2 <= 0 {
			text += ", no better than always predicting the mean"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// againstMajority compares the error of rows with that of always predicting the most common class; "" if it is clearly lower: by more than
// two standard deviations of McNemar's test, over the rows for which exactly one of the two is right.
func againstMajority(split string, s schemas.SplitReport, labels []string, majority string) string {
	class := slices.Index(labels, majority)
	if s.MajorityError == nil || s.Rows == 0 || class < 0 || class >= len(s.Confusion) {
		return ""
	}
	var common, better, worse float64 // rows of the class; rows where only the model is right; rows where only the class is right
	for i, row := range s.Confusion {
		for j, n := range row {
			switch {
			case i == class && j == class:
				common += float64(n)
			case i == class:
				common, worse = common+float64(n), worse+float64(n)
			case i == j:
				better += float64(n)
			}
		}
	}
	share, rows := *s.MajorityError/100, float64(s.Rows)
	// heavy and light are the mean weights of rows of the class and of other rows; that of all rows is 1.
	heavy, light := (1-share)*rows/max(common, 1), share*rows/max(rows-common, 1)
	lower := (*s.MajorityError - s.Error) / 100 * rows
	if better == 0 { // equal errors may differ in their last digits
		lower = min(lower, 0)
	}
	if lower > 2*math.Sqrt(better*light*light+worse*heavy*heavy) {
		return ""
	}
	text := fmt.Sprintf("%s error %s is no better than that of always predicting %q: %s", split, Percent(&s.Error), majority,
		Percent(s.MajorityError))
	if lower > 0 {
		text = fmt.Sprintf("%s error %s is not clearly better than that of always predicting %q, %s: %s rows are too few to tell", split,
			Percent(&s.Error), majority, Percent(s.MajorityError), humanize.Comma(s.Rows))
	}
	// The standard deviation of the area for random ranks is that of the Mann-Whitney U test.
	if few := common * (rows - common); s.AUC != nil && len(labels) == 2 && few > 0 && *s.AUC-0.5 > 2*math.Sqrt((rows+1)/(12*few)) {
		text += "; the AUC is clearly better than chance"
		if lower <= 0 && s.Decided == nil {
			text += ": set threshold, for example to best_f1"
		}
	}
	return text + "\n"
}

// mostTargets is the maximum number of targets in the last lines of a run. The report has all.
const mostTargets = 5

// Conclude writes the last lines of a run: the errors, and where the version and its report are. report and model are the paths
// that train wrote to, or empty.
func Conclude(w io.Writer, r *schemas.Report, report, model string) {
	if r.TestError != nil {
		fmt.Fprintf(w, "test error %s, ", Percent(r.TestError))
	}
	if holdout := r.Stages[len(r.Stages)-1].Final().HoldoutError; holdout != nil {
		fmt.Fprintf(w, "holdout error %s, ", Percent(holdout))
	}
	fmt.Fprintf(w, "train error %s, %.1f s\n", Percent(&r.TrainError), r.Seconds)
	for _, split := range []examples.Split{examples.Test, examples.Holdout, examples.Train} {
		s := r.Splits[split.String()]
		text := taskMetrics(s)
		if text == "" && s.MajorityError == nil {
			continue
		}
		if text != "" {
			fmt.Fprintf(w, "%s: %s\n", split, text)
		}
		fmt.Fprint(w, againstMajority(split.String(), s, r.Labels, r.Majority))
		break
	}
	fmt.Fprintf(w, "model: version %d on the topic %s.versions", r.Version, r.Name)
	if model != "" && model != StandardOutput {
		fmt.Fprintf(w, ", and in %s", model)
	}
	fmt.Fprintln(w)
	if report != "" && report != StandardOutput {
		fmt.Fprintf(w, "report: %s\n", report)
	}
}

// ConcludeChain writes the last lines of a chain.
func ConcludeChain(w io.Writer, r *pipeline.Retraining) {
	fmt.Fprintf(w, "%s of %s rows in %.1f s", english.Plural(len(r.Updates), "version", ""), humanize.Comma(r.Rows), r.Seconds)
	if r.PrequentialError != nil {
		fmt.Fprintf(w, ", %s rows a second; prequential error %.2f %%", humanize.Comma(int64(r.RowsPerSecond)), *r.PrequentialError)
	}
	fmt.Fprintln(w)
}

// Preparation describes what is done to features before the first stage.
func Preparation(p schemas.Prepare) string {
	text := "scale " + p.Scale
	if p.PCA > 0 {
		text += fmt.Sprintf(", %d principal components", p.PCA)
	}
	if p.MinRows > 1 {
		text += fmt.Sprintf(", columns of %d rows or more", p.MinRows)
	}
	if p.Values != "" && p.Values != stages.ValuesNone {
		text += ", values " + p.Values
	}
	if p.IDF > 0 {
		text += fmt.Sprintf(", idf %g", p.IDF)
	}
	return text
}

func features(s schemas.Stage) string {
	text := stages.Describe(s.Features)
	if s.Scores {
		text += " and scores"
	}
	return text
}

// parameters describes the preparation of a run and the features and links of its stages.
func parameters(plan *schemas.Plan) string {
	var parts []string
	if p := plan.Prepare; p != (schemas.Prepare{Scale: stages.ScaleNone}) {
		parts = append(parts, Preparation(p))
	}
	list := plan.Stages[:plan.MemberStages()]
	if plan.Members() > 1 {
		parts = append(parts, fmt.Sprintf("mean of %d members", plan.Members()))
	}
	for first := 0; first < len(list); {
		text, next := kind(list[first]), first+1
		for next < len(list) && kind(list[next]) == text {
			next++
		}
		if next > first+1 {
			text = fmt.Sprintf("%d × %s", next-first, text)
		}
		parts, first = append(parts, text), next
	}
	return strings.Join(parts, ", ")
}

// kind describes the features and the link of a stage.
func kind(s schemas.Stage) string { return fmt.Sprintf("%s %s", features(s), s.Link) }
