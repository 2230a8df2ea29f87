package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/format/typed"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// opened is a reader of the values of a topic.
type opened struct {
	whole   Options
	format  format.Format
	reader  *format.RowReader
	schemas *typed.Client // nil: there is no registry
	under   string        // the key above those of the values; "": examples
}

// openTopic opens a reader of the values of FromTopic.
func (o Options) openTopic() (r opened, err error) {
	r.whole = o
	r.format, _ = o.messageFormat()
	of := format.Options{Options: o.Options, Settings: o.Settings}
	of.Rows = o.rowsPath()
	if r.reader, err = r.format.NewReader(of); err != nil {
		return r, err
	}
	if o.Registry.URL != "" {
		r.schemas, err = typed.Open(o.Registry)
	}
	return r, err
}

// field returns the value at a path of Columns.Use in a row; null if there is none.
func (v opened) field(row []tabular.Cell, path string) *tabular.Cell {
	at := slices.Index(v.whole.Columns.Use, path)
	if v.format.Width != nil {
		var err error
		if at, err = strconv.Atoi(path); err != nil {
			at = -1
		}
	}
	if at < 0 || at >= len(row) {
		return &tabular.Cell{}
	}
	return &row[at]
}

// keyOf returns the join key at a path in a row. name is the key of the configuration with the path.
func (v opened) keyOf(row []tabular.Cell, path, name string) (string, error) {
	key, err := v.field(row, path).Text()
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %s: %w", name, value.Quote(path), err)
	case key == "":
		return "", fmt.Errorf("no key at %s (%s)", value.Quote(path), name)
	}
	return key, nil
}

// RowKeys returns the join keys of rows. Create it with [NewRowKeys].
type RowKeys struct {
	opened
	path    string // "": the message key
	schemas []int  // of message keys
}

// NewRowKeys returns RowKeys for options that pass Check and have an Outcome. The schemas are those of [outcome.SchemasOf].
func NewRowKeys(o Options, schemas []int) (*RowKeys, error) {
	k := &RowKeys{path: o.JoinKey, schemas: schemas}
	var err error
	if o.JoinKey != "" {
		k.opened, err = o.ofKeys().openTopic()
	}
	return k, err
}

// Of returns the key of a message. ok is false if it has no rows. Errors are as in Values.Add.
func (k *RowKeys) Of(ctx context.Context, m TopicMessage) (key string, ok bool, err error) {
	switch {
	case len(m.Value) == 0 && m.Row == nil && m.Key != "":
		return "", false, nil
	case k.path == "" && m.Key == "":
		return "", false, errors.New("the message has no key to join its outcome by: set examples.key to the path of a key in its " +
			"value")
	case k.path == "":
		key, err = outcome.ReadKey(m.Key, outcome.KeyAuto, k.schemas)
		return key, err == nil, err
	}
	defer func() { err = k.explain(ctx, err, m) }()
	rows, err := k.rowsOf(ctx, m)
	if err != nil {
		return "", false, err
	}
	for i, row := range rows {
		has, err := k.keyOf(row, k.path, "examples.key")
		if err != nil {
			return "", false, err
		}
		if i > 0 && has != key {
			return "", false, fmt.Errorf("rows with the keys %s and %s: expected one key per message, because its rows become "+
				"examples together",
				value.Quote(key), value.Quote(has))
		}
		key = has
	}
	return key, len(rows) > 0, nil
}

// Outcomes decodes outcomes. Create it with [NewOutcomes].
type Outcomes struct {
	opened
	key, format string
	schemas     []int // of message keys
	says        predicted
}

// NewOutcomes returns a decoder for options that pass Check and have an Outcome. The schemas are as for [NewRowKeys].
func NewOutcomes(o Options, schemas []int) (*Outcomes, error) {
	x := &Outcomes{key: o.Outcome.Key, format: o.Outcome.KeyFormat, schemas: schemas, says: o.later()}
	var err error
	x.opened, err = o.ofOutcomes().openTopic()
	x.under = "examples.outcome"
	return x, err
}

// Read returns the labels in a message with the keys of their rows; nil if its value is empty, which only advances the
// time. Errors are as in Values.Add.
func (x *Outcomes) Read(ctx context.Context, m TopicMessage) (labels []outcome.Labelled, err error) {
	if len(m.Value) == 0 {
		return nil, nil
	}
	defer func() { err = x.explain(ctx, err, m) }()
	rows, err := x.rowsOf(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		l := outcome.Labelled{}
		if x.key != "" {
			l.Key, err = x.keyOf(row, x.key, "examples.outcome.key")
		} else if l.Key, err = outcome.ReadKey(m.Key, x.format, x.schemas); l.Key == "" && err == nil {
			err = errors.New("the outcome has no key to join its row by: set examples.outcome.key to the path of a key in its value")
		}
		if err != nil {
			return nil, err
		}
		if l.Label, err = x.says.Read(func(path string) *tabular.Cell { return x.field(row, path) }); err != nil {
			return nil, err
		}
		labels = append(labels, l)
	}
	return labels, nil
}

// AddLabelled is Add for a message whose examples have the content of an outcome from Outcomes.Read.
func (v *Values) AddLabelled(ctx context.Context, m TopicMessage, said string) (full bool, err error) {
	defer func() { err = v.explain(ctx, err, m) }()
	rows, err := v.rowsOf(ctx, m)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	v.says.Put(rows, said, v.format.Width == nil)
	return v.add(m, rows)
}

// Check returns the reason why the rows of a message can't be added. Nil means that they can, and may have been added.
func (v *Values) Check(ctx context.Context, m TopicMessage) error {
	add := v.Add
	if v.whole.Mode == layout.LabelLater {
		add = func(ctx context.Context, m TopicMessage) (bool, error) {
			return v.AddLabelled(ctx, m, v.says.Any(v.whole.Classes))
		}
	}
	_, err := add(ctx, m)
	return err
}

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
func (o Options) checkOutcome(p *option.Problems) {
	out := o.Outcome
	if out.Topic == "" && !out.IsZero() {
		p.Add("outcome.topic", "not set", "the topic of the outcomes, because other keys of examples.outcome are set")
	}
	if out.Topic == "" || o.FromTopic == "" {
		return
	}
	if out.Topic == o.FromTopic {
		p.Add("outcome.topic", out.Topic, "another topic than examples.from_topic")
	}
	if out.Within <= 0 {
		p.Add("outcome.within", out.Within, "how long a row waits for its outcome, such as 24h; at most ten years")
	}
	if f, ok := o.messageFormat(); ok && f.Width != nil && layout.Column(o.JoinKey).IsName() {
		p.Add("key", o.JoinKey, "the number of a column, from 0: values in "+f.Name+" have no names")
	}
	o.later().check(p, o.Classes)
	read := o.ofOutcomes()
	f, ok := read.messageFormat()
	if !ok {
		p.Add("outcome.format", option.Shown(read.Format), formatNames("", "or", format.Format.IsOfMessages))
		return
	}
	for _, of := range []struct {
		key     string
		columns []string
	}{{"outcome.key", []string{out.Key}}, {"outcome.label", []string{out.Label}}, {"label_columns", o.LabelColumns}, {"targets", o.Targets}} {
		for _, c := range of.columns {
			if f.Width != nil && layout.Column(c).IsName() {
				p.Add(of.key, c, "the number of a column, from 0: values in "+f.Name+" have no names")
			}
		}
	}
	var schema option.Problems
	read.checkSchema(&schema, f)
	if f.Width != nil && read.Rows != "" {
		schema.Add("rows", read.Rows, "no path: each line is an outcome")
	}
	p.Under("outcome", schema)
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
