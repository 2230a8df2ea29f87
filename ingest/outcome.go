package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/format/typed"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/examples"
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
		o.Options = layout.Options{Encoding: o.Encoding, Delimiter: o.Delimiter, BatchRows: o.BatchRows, Missing: o.Missing,
			MissingValues: o.MissingValues, Columns: layout.ColumnChoice{Use: []string{o.JoinKey}}, Mode: layout.Unlabelled}
		k.opened, err = o.openTopic()
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

// Check returns the reason why the rows of a message can't be added. Nil means that they can, and may have been added.
func (v *Values) Check(ctx context.Context, m TopicMessage) error {
	said := ""
	if v.whole.Mode == layout.LabelLater {
		said = v.says.Any()
	}
	_, err := v.AddLabelled(ctx, m, said)
	return err
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
func (o Options) later() predicted {
	p := predicted{Label: o.Outcome.Label, Absent: o.Outcome.Absent}
	switch {
	case len(o.Targets) > 0:
		p.Task, p.Columns = examples.Numbers, o.Targets
	case o.Several():
		p.Task, p.Columns = examples.SeveralLabels, o.LabelColumns
	}
	return p
}

// WhenAbsent returns the content that [Values.AddLabelled] adds to a row without an outcome; false: the row is skipped.
func (o Options) WhenAbsent() (said string, ok bool) { return o.later().WhenAbsent() }

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

// predicted describes the content of outcomes: it reads the labels or targets of an outcome, and fills the columns of rows that come
// from outcomes. [Options.later] returns it.
//
// Until its row is an example, package outcome stores the content of an outcome, also on disk, as the encoding of the cells that the row
// gets: the label, a list of several labels or a text of them, or the targets.
type predicted struct {
	Task    examples.Task
	Label   string   // path of the label, or of several
	Columns []string // paths of the targets, or of 0/1 columns for each of several labels; then there is no Label
	Absent  []string // values for rows without an outcome: see [outcome.Options]
}

// Paths returns the paths that are read in an outcome.
func (p predicted) Paths() []string {
	if len(p.Columns) > 0 {
		return p.Columns
	}
	return []string{p.Label}
}

// Rule returns the settings that affect the labels and targets of rows; for a single label, its path and the default.
func (p predicted) Rule() []any {
	if p.Task == examples.OneLabel {
		return []any{p.Label, p.absentLabel()}
	}
	return []any{p.Paths(), p.Absent, p.Task.Noun()}
}

// Read encodes the content of an outcome. cell returns the value at a path.
func (p predicted) Read(cell func(path string) *tabular.Cell) (said string, err error) {
	if len(p.Columns) == 0 {
		label, err := p.label(cell(p.Label))
		if err != nil {
			return "", fmt.Errorf("examples.outcome.label: %s: %w", value.Quote(p.Label), err)
		}
		return encode(label), nil
	}
	cells, key := make([]tabular.Cell, len(p.Columns)), "targets"
	if p.Task == examples.SeveralLabels {
		cells, key = nil, "label_columns"
	}
	for i, path := range p.Columns {
		c := cell(path)
		if p.Task == examples.Numbers {
			var v float64
			if v, err = c.Number(value.Missing{}); err == nil {
				err = layout.CheckTarget(v)
			}
			cells[i] = tabular.Float(v)
		} else {
			text, has := "", false
			if text, err = c.Text(); err == nil {
				has, err = layout.Indicate(strings.TrimSpace(text))
			}
			if has {
				cells = append(cells, tabular.Word(path))
			}
		}
		if err != nil {
			return "", fmt.Errorf("examples.%s: %s: %w", key, value.Quote(path), err)
		}
	}
	if p.Task == examples.SeveralLabels {
		return encode(tabular.Items(cells)), nil
	}
	return encode(cells...), nil
}

// label returns the label or the labels of an outcome.
func (p predicted) label(c *tabular.Cell) (label tabular.Cell, err error) {
	if p.Task == examples.SeveralLabels && c.IsList() {
		_, err := c.Texts()
		return *c, err
	}
	text, err := c.Text()
	if err == nil && (c.Null() || text == "" && p.Task == examples.OneLabel) {
		err = errors.New("no label")
	}
	return tabular.Word(text), err
}

// encode encodes the cells that a row gets.
func encode(cells ...tabular.Cell) string {
	return string(tabular.AppendRows(nil, [][]tabular.Cell{cells}))
}

// Put puts the content of an outcome into the later columns of rows: see [layout.Options.WithLabelLater]. If columns have names, the rows
// have room for it.
func (p predicted) Put(rows [][]tabular.Cell, said string, named bool) {
	cells := tabular.ReadRows([]byte(said))[0]
	for i, row := range rows {
		if named {
			copy(row, cells)
		} else {
			rows[i] = slices.Concat(row, cells)
		}
	}
}

// WhenAbsent returns the content for a row without an outcome; false: it is not an example.
func (p predicted) WhenAbsent() (said string, ok bool) {
	if p.Skips() {
		return "", false
	}
	var cells []tabular.Cell
	switch p.Task {
	case examples.OneLabel:
		return encode(tabular.Word(p.absentLabel())), true
	case examples.SeveralLabels:
		for _, label := range p.Absent {
			cells = append(cells, tabular.Word(label))
		}
		return encode(tabular.Items(cells)), true
	}
	for i := range p.Columns {
		cells = append(cells, tabular.Word(p.Absent[min(i, len(p.Absent)-1)]))
	}
	return encode(cells...), true
}

// check finds invalid values of the keys under `examples` for the content of outcomes. classes are the possible labels; nil: any.
func (p predicted) check(found *option.Problems, classes []string) {
	columns := map[examples.Task]string{examples.Numbers: "targets", examples.SeveralLabels: "label_columns"}[p.Task]
	switch {
	case p.Label != "" && len(p.Columns) > 0:
		found.Add("outcome.label", value.Quote(p.Label), "no label with examples."+columns+", which are the paths in an outcome")
	case p.Label == "" && len(p.Columns) == 0:
		found.Add("outcome.label", "not set", "the path of the label in an outcome, such as kind; or examples.targets, the paths of numbers")
	}
	if p.Skips() {
		return
	}
	isLabel := func(text string) bool {
		return text != "" && text == strings.TrimSpace(text) && (len(classes) == 0 ||
			slices.ContainsFunc(classes, func(class string) bool { return value.Label(class) == value.Label(text) }))
	}
	isTarget := func(text string) bool {
		v, err := value.Number(text)
		return err == nil && layout.CheckTarget(v) == nil
	}
	want, counts, valid := "the label of a row without an outcome", len(p.Absent) == 1, isLabel
	switch p.Task {
	case examples.Numbers:
		want = fmt.Sprintf("one number for all targets of a row without an outcome, such as 0, or one for each of %d", len(p.Columns))
		counts, valid = counts || len(p.Absent) == len(p.Columns), isTarget
	case examples.SeveralLabels:
		want, counts = "the labels of a row without an outcome, such as []", p.Absent != nil
	}
	if p.Task != examples.Numbers && len(classes) > 0 {
		want += ", among examples.classes"
	}
	if !counts || slices.ContainsFunc(p.Absent, func(text string) bool { return !valid(text) }) {
		found.Add("outcome.absent", option.Shown(p.Absent), want+", or skip to leave the row out")
	}
}

// Skips reports whether rows without an outcome are skipped.
func (p predicted) Skips() bool { return len(p.Absent) == 1 && p.Absent[0] == outcome.AbsentSkip }

// absentLabel returns the single label of rows without an outcome.
func (p predicted) absentLabel() string { return strings.Join(p.Absent, ",") }

// Any returns a valid content, for rows with unknown outcomes.
func (p predicted) Any() string {
	if p.Task == examples.Numbers {
		return encode(slices.Repeat([]tabular.Cell{tabular.Integer(0)}, len(p.Columns))...)
	}
	return encode(tabular.Cell{}) // a row may have no label
}
