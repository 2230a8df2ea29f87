package ingest

import (
	"cmp"
	"slices"

	"github.com/stagewise/stagewise/ingest/later"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/value"
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
func (o Options) later() later.Predicted { return later.Of(o.Options, o.Outcome) }

// WhenAbsent returns the content that [Values.AddLabelled] adds to a row without an outcome; false: the row is skipped.
func (o Options) WhenAbsent() (said string, ok bool) { return o.later().WhenAbsent() }

// JoinsByPartition reports whether rows and outcomes with the same key are in partitions with the same number, given the
// numbers of partitions of the topics: both are joined by message key, which determines the partition.
func (o Options) JoinsByPartition(rows, outcomes int) bool {
	return rows == outcomes && o.JoinKey == "" && o.Outcome.Key == ""
}

// checkOutcome finds invalid keys of outcomes.
func (o Options) checkOutcome() (problems []option.Problem) {
	wrong := func(key, shown, want string) {
		problems = append(problems, option.Problem{Key: key, Value: shown, Want: want})
	}
	out := o.Outcome
	if out.Topic == "" {
		if o.JoinKey != "" {
			wrong("key", value.Quote(o.JoinKey), "examples.outcome too: rows are joined with outcomes by the key")
		}
		if !out.IsZero() {
			wrong("outcome.topic", "not set", "the topic of the outcomes, because other keys of examples.outcome are set")
		}
		return problems
	}
	if o.FromTopic == "" {
		wrong("outcome.topic", value.Quote(out.Topic), "examples.from_topic too: the topic of the rows that wait for outcomes")
		return problems
	}
	if out.Topic == o.FromTopic {
		wrong("outcome.topic", value.Quote(out.Topic), "another topic than examples.from_topic")
	}
	if f, ok := o.messageFormat(); ok && f.Width != nil && layout.Column(o.JoinKey).IsName() {
		wrong("key", value.Quote(o.JoinKey), "the number of a column, from 0: values in "+f.Name+" have no names")
	}
	if o.Label != "" {
		wrong("label", value.Quote(string(o.Label)), "no value with examples.outcome: set examples.outcome.label instead")
	}
	problems = append(problems, option.ProblemsUnder("outcome", out.Check())...)
	problems = append(problems, o.later().Check(o.Classes)...)
	return append(problems, o.checkOutcomeFormat()...)
}

// checkOutcomeFormat finds invalid keys for reading outcomes.
func (o Options) checkOutcomeFormat() (problems []option.Problem) {
	read := o.ofOutcomes()
	f, ok := read.messageFormat()
	if !ok {
		if o.Outcome.Format == "" {
			return nil // that of the rows is also invalid
		}
		return []option.Problem{{Key: "outcome.format", Value: value.Quote(read.Format), Want: wantMessageFormat(nil)}}
	}
	if f.Width != nil {
		numbered := func(key string, columns ...string) {
			for _, c := range columns {
				if layout.Column(c).IsName() {
					problems = append(problems, option.Problem{Key: key, Value: value.Quote(c),
						Want: "the number of a column, from 0: values in " + f.Name + " have no names"})
				}
			}
		}
		numbered("outcome.key", o.Outcome.Key)
		numbered("outcome.label", o.Outcome.Label)
		numbered("label_columns", o.LabelColumns...)
		numbered("targets", o.Targets...)
	}
	for _, p := range slices.Concat(read.checkSchema(f), f.Check(read.messageOptions())) {
		if p.Key != "columns.use" && p.Key != "format" {
			problems = append(problems, option.Problem{Key: "outcome." + p.Key, Value: p.Value, Want: p.Want})
		}
	}
	return problems
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
		Options: layout.Defaults().WithoutLabel()}
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
		MissingValues: o.MissingValues, Columns: layout.ColumnChoice{Use: []string{o.JoinKey}}}.WithoutLabel()
	return o
}
