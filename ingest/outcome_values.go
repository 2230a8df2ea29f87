package ingest

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/ingest/registry"
	"github.com/stagewise/stagewise/schemas/value"
)

// opened is what reads the values of a topic.
type opened struct {
	whole   Options
	format  message.Format
	reader  message.Reader
	schemas *registry.Client // nil: there is no registry
}

// openTopic opens what reads the values of FromTopic.
func (o Options) openTopic() (r opened, err error) {
	r.whole = o
	r.format, _ = o.messageFormat()
	if r.reader, err = r.format.Open(o.messageOptions()); err != nil {
		return r, err
	}
	if o.Registry.URL != "" {
		r.schemas, err = registry.Open(o.Registry)
	}
	return r, err
}

// field returns the text at a path of Columns.Use in a row; "" if there is none.
func (v opened) field(row []tabular.Cell, path string) (string, error) {
	if v.format.Width != nil {
		at, err := strconv.Atoi(path)
		if err != nil || at < 0 || at >= len(row) {
			return "", nil
		}
		return row[at].Text()
	}
	for at, name := range v.whole.Columns.Use {
		if name == path {
			return row[at].Text()
		}
	}
	return "", nil
}

// RowKeys finds the keys by which rows of a topic are joined with outcomes. [NewRowKeys] makes it.
type RowKeys struct {
	opened
	path string // "": the keys of the messages
}

// NewRowKeys returns what finds the keys of rows, for options that pass Check and have an Outcome.
func NewRowKeys(o Options) (*RowKeys, error) {
	k := &RowKeys{path: o.JoinKey}
	var err error
	if o.JoinKey != "" {
		k.opened, err = o.ofKeys().openTopic()
	}
	return k, err
}

// Of returns the key of a message. ok is false if it has no rows. Errors are as those of Values.Add.
func (k *RowKeys) Of(ctx context.Context, m TopicMessage) (key string, ok bool, err error) {
	switch {
	case len(m.Value) == 0 && m.Key != "":
		return "", false, nil
	case k.path == "" && m.Key == "":
		return "", false, errors.New("the message has no key, by which its outcome could be found: set examples.key to the path of one in " +
			"its value")
	case k.path == "":
		return m.Key, true, nil
	}
	rows, err := k.rowsOf(ctx, m)
	if err != nil {
		return "", false, err
	}
	for i, row := range rows {
		has, err := k.field(row, k.path)
		if err != nil {
			return "", false, fmt.Errorf("examples.key: %s: %w", value.Quote(k.path), err)
		}
		if has == "" {
			return "", false, fmt.Errorf("nothing at %s, where examples.key says that the key is", value.Quote(k.path))
		}
		if i > 0 && has != key {
			return "", false, fmt.Errorf("rows with the keys %s and %s: expected one key in a message, as its rows become examples together",
				value.Quote(key), value.Quote(has))
		}
		key = has
	}
	return key, len(rows) > 0, nil
}

// Outcomes reads the outcomes of rows. [NewOutcomes] makes it.
type Outcomes struct {
	opened
	key, label string
}

// NewOutcomes returns what reads outcomes, for options that pass Check and have an Outcome.
func NewOutcomes(o Options) (*Outcomes, error) {
	x := &Outcomes{key: o.Outcome.Key, label: o.Outcome.Label}
	var err error
	x.opened, err = o.ofOutcomes().openTopic()
	return x, err
}

// Read returns the labels of a message, and of which rows they are; none if its value is empty: it moves the time on. Errors are as those
// of Values.Add.
func (x *Outcomes) Read(ctx context.Context, m TopicMessage) (labels []outcome.Labelled, err error) {
	if len(m.Value) == 0 {
		return nil, nil
	}
	rows, err := x.rowsOf(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		l := outcome.Labelled{Key: m.Key}
		if x.key != "" {
			if l.Key, err = x.field(row, x.key); err != nil {
				return nil, fmt.Errorf("examples.outcome.key: %s: %w", value.Quote(x.key), err)
			}
		}
		if l.Label, err = x.field(row, x.label); err != nil {
			return nil, fmt.Errorf("examples.outcome.label: %s: %w", value.Quote(x.label), err)
		}
		switch {
		case l.Key == "" && x.key == "":
			return nil, errors.New("the outcome has no key, by which its row could be found: set examples.outcome.key to the path of one in " +
				"its value")
		case l.Key == "":
			return nil, fmt.Errorf("nothing at %s, where examples.outcome.key says that the key is", value.Quote(x.key))
		case l.Label == "":
			return nil, fmt.Errorf("nothing at %s, where examples.outcome.label says that the label is", value.Quote(x.label))
		}
		labels = append(labels, l)
	}
	return labels, nil
}

// AddLabelled is Add for a message whose examples have a label that has come later.
func (v *Values) AddLabelled(ctx context.Context, m TopicMessage, label string) (full bool, err error) {
	rows, err := v.rowsOf(ctx, m)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	if rows, err = v.withLabel(rows, label); err != nil {
		return false, err
	}
	return v.add(m, rows)
}

// withLabel returns rows with a label in the column of labels that come later.
func (v *Values) withLabel(rows [][]tabular.Cell, label string) ([][]tabular.Cell, error) {
	if v.format.Width == nil {
		for _, row := range rows {
			row[0] = tabular.Word(label)
		}
		return rows, nil
	}
	n, exact, err := v.format.Width(v.whole.Options, len(rows[0]))
	if err != nil {
		return nil, err
	}
	labelled := make([][]tabular.Cell, len(rows))
	for i, row := range rows {
		if !exact {
			row = row[:min(n, len(row))]
		}
		labelled[i] = append(append(make([]tabular.Cell, 0, len(row)+1), row...), tabular.Word(label))
	}
	return labelled, nil
}
