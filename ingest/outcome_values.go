package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/ingest/registry"
	"github.com/stagewise/stagewise/schemas/value"
)

// opened is a reader of the values of a topic.
type opened struct {
	whole   Options
	format  message.Format
	reader  message.Reader
	schemas *registry.Client // nil: there is no registry
	under   string           // the key above those of the values; "": examples

	archived decoded
}

// openTopic opens a reader of the values of FromTopic.
func (o Options) openTopic() (r opened, err error) {
	r.whole, r.archived = o, decoded{}
	r.format, _ = o.messageFormat()
	if r.reader, err = r.format.Open(o.messageOptions()); err != nil {
		return r, err
	}
	if o.Registry.URL != "" {
		r.schemas, err = registry.Open(o.Registry)
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
	path string // "": the message key
}

// NewRowKeys returns RowKeys for options that pass Check and have an Outcome.
func NewRowKeys(o Options) (*RowKeys, error) {
	k := &RowKeys{path: o.JoinKey}
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
		key, err = outcome.ReadKey(m.Key, outcome.KeyAuto)
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
	says        predicted
}

// NewOutcomes returns a decoder for options that pass Check and have an Outcome.
func NewOutcomes(o Options) (*Outcomes, error) {
	x := &Outcomes{key: o.Outcome.Key, format: o.Outcome.KeyFormat, says: o.later()}
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
		} else if l.Key, err = outcome.ReadKey(m.Key, x.format); l.Key == "" && err == nil {
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
	if rows, err = v.says.Put(rows, said, v.widthOf()); err != nil {
		return false, err
	}
	return v.add(m, rows)
}

// widthOf returns the function for the number of columns to read; nil if they have names.
func (v *Values) widthOf() rowWidth {
	if v.format.Width == nil {
		return nil
	}
	return func(n int) (int, bool, error) { return v.format.Width(v.whole.Options, n) }
}
