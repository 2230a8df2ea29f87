package ingest

import (
	"cmp"
	"slices"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/wire"
)

// WithFolder returns the options with a directory for waiting data that does not fit into memory.
func (o Options) WithFolder(folder string) Options {
	o.Outcome = o.Outcome.WithFolder(folder)
	return o
}

// JoinRule identifies the settings that determine which rows wait, and with which labels they become examples. byPartition
// means that rows are joined with the outcomes of the same partition.
func (o Options) JoinRule(byPartition bool) string {
	out, said := o.Outcome, o.later().Rule()
	rule := append([]any{out.Topic, o.JoinKey, out.Key, said[0], out.Within, out.Early, out.Grace, out.KeyFormat},
		append(said[1:], byPartition)...)
	return wire.Digest(wire.DigestJSON(rule)).Short()
}

// later describes the content of outcomes.
func (o Options) later() predicted { return predictedOf(o.Options, o.Outcome) }

// WhenAbsent returns the content that [Values.AddLabelled] adds to a row without an outcome; false: the row is skipped.
func (o Options) WhenAbsent() (said string, ok bool) { return o.later().WhenAbsent() }

// JoinsByPartition reports whether rows and outcomes with the same key are in partitions with the same number, given the
// numbers of partitions of the topics: both are joined by message key, which determines the partition.
func (o Options) JoinsByPartition(rows, outcomes int) bool {
	return rows == outcomes && o.JoinKey == "" && o.Outcome.Key == ""
}

// checkOutcome checks the keys of outcomes that depend on their content and format.
func (o Options) checkOutcome(p *problems) {
	out := o.Outcome
	if out.Topic == "" && !out.IsZero() {
		p.add("outcome.topic", "not set", "the topic of the outcomes, because other keys of examples.outcome are set")
	}
	if out.Topic == "" || o.FromTopic == "" {
		return
	}
	if out.Topic == o.FromTopic {
		p.add("outcome.topic", out.Topic, "another topic than examples.from_topic")
	}
	if out.Within <= 0 {
		p.add("outcome.within", out.Within.String(), "how long a row waits for its outcome, such as 24h; at most ten years")
	}
	if f, ok := o.messageFormat(); ok && f.Width != nil && layout.Column(o.JoinKey).IsName() {
		p.add("key", o.JoinKey, "the number of a column, from 0: values in "+f.Name+" have no names")
	}
	o.later().check(p, o.Classes)
	read := o.ofOutcomes()
	f, ok := read.messageFormat()
	if !ok {
		p.add("outcome.format", option.Shown(read.Format), wantMessageFormat(nil))
		return
	}
	for _, of := range []named{{key: "outcome.key", columns: []string{out.Key}}, {key: "outcome.label", columns: []string{out.Label}},
		{key: "label_columns", columns: o.LabelColumns}, {key: "targets", columns: o.Targets}} {
		for _, c := range of.columns {
			if f.Width != nil && layout.Column(c).IsName() {
				p.add(of.key, c, "the number of a column, from 0: values in "+f.Name+" have no names")
			}
		}
	}
	var schema problems
	read.checkSchema(&schema, f)
	if f.Width != nil && read.Rows != "" {
		schema.add("rows", read.Rows, "no path: each line is an outcome")
	}
	for _, problem := range schema {
		p.add("outcome."+problem.Key, problem.Value, problem.Want)
	}
}

// wantMessageFormat lists the message formats, or those that are accepted.
func wantMessageFormat(accepted func(message.Format) bool) string {
	var names []string
	for _, f := range messageFormats() {
		if accepted == nil || accepted(f) {
			names = append(names, f.Name)
		}
	}
	return option.Enumerate(names, "or")
}

// ofOutcomes returns the options for reading outcomes: the columns are the key, if it is in the value, and the label or
// targets.
func (o Options) ofOutcomes() Options {
	out := o.Outcome
	read := Options{FromTopic: out.Topic, Format: cmp.Or(out.Format, o.Format), Settings: out.Settings, Registry: out.Registry,
		Options: layout.Defaults()}
	read.Mode = layout.Unlabelled
	read.Columns.Use = slices.Clone(o.later().Paths())
	if out.Key != "" && !slices.Contains(read.Columns.Use, out.Key) {
		read.Columns.Use = append(read.Columns.Use, out.Key)
	}
	if read.Format == o.Format {
		read.Encoding, read.Delimiter = o.Encoding, o.Delimiter
		if read.Schema == "" && read.Registry.URL == "" {
			read.Schema, read.Registry = o.Schema, o.Registry
		}
		if read.Schema == o.Schema {
			read.Message = cmp.Or(read.Message, o.Message)
		}
	}
	return read
}

// ofKeys returns the options for reading the keys of rows.
func (o Options) ofKeys() Options {
	o.Options = layout.Options{Encoding: o.Encoding, Delimiter: o.Delimiter, BatchRows: o.BatchRows, Missing: o.Missing,
		MissingValues: o.MissingValues, Columns: layout.ColumnChoice{Use: []string{o.JoinKey}}, Mode: layout.Unlabelled}
	return o
}
