package ingest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/avro"
	"github.com/stagewise/stagewise/ingest/format/csv"
	"github.com/stagewise/stagewise/ingest/format/jsonl"
	"github.com/stagewise/stagewise/ingest/format/protobuf"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// messageFormats are the formats of messages, on topics other than examples topics, in the order of the documentation.
func messageFormats() []message.Format {
	return []message.Format{jsonl.Messages(), csv.Messages(), arrow.Messages(), avro.Messages(), protobuf.Messages()}
}

// messageFormat returns the format of the messages of FromTopic.
func (o Options) messageFormat() (f message.Format, ok bool) {
	all := messageFormats()
	if o.Format == "" && o.Archive.Alone { // its files have formats
		return all[0], true
	}
	i := slices.IndexFunc(all, func(f message.Format) bool { return f.Name == o.Format })
	if i < 0 {
		return message.Format{}, false
	}
	return all[i], true
}

// messageOptions are the options for readers of messages.
func (o Options) messageOptions() message.Options {
	m := message.Options{Options: o.Options, Settings: o.Settings}
	m.Rows = o.rowsPath()
	return m
}

// Values batches the examples in message values, one or several per message, in the format of the options. Create it with
// NewValues.
type Values struct {
	*format.Messages
	opened
	says   predicted // content of outcomes
	wanted int       // number of columns of each row; 0: not known yet
	batch  examples.Rows
	sparse examples.SparseRows
	keys   []string // message keys, for each row of the batch
	size   int      // size of the batch in a message

	spreads layout.Spreads // of the columns without an offset

	presences map[string]*layout.Presence // by column
	lacks     [][]bool                    // by column: which rows of the batch have no value; nil: it is not watched
}

// NewValues returns empty Values, for options that pass Check and have a FromTopic. The error is an invalid option, or that
// the columns can't follow those of the chain.
func NewValues(o Options) (*Values, error) {
	var says predicted
	if o.Outcome.Topic != "" {
		says = o.later()
		o.Options = o.Options.WithLabelLater()
	}
	r, err := o.openTopic()
	if err != nil {
		return nil, err
	}
	var names []string
	if r.format.Width == nil {
		names = message.Columns(o.Options)
	}
	v := &Values{opened: r, says: says, Messages: format.NewMessages(o.Options, r.format.Label, names), spreads: layout.Spreads{},
		presences: map[string]*layout.Presence{}}
	return v, v.checkColumns(len(names))
}

// checkColumns returns an error if the columns of the options can't follow those of the chain, as far as this is known
// before the first row: the only column may be a list, and without columns.use a row of CSV has any number. n is the
// number of columns with names.
func (v *Values) checkColumns(n int) error {
	learnt, use := v.whole.Learnt(), len(v.whole.Columns.Use)
	if learnt == nil || use == 0 && !v.whole.Mixed() || use == 1 && learnt.Columns == nil {
		return nil
	}
	if v.format.Width != nil {
		var err error
		if n, _, err = v.format.Width(v.whole.Options, math.MaxInt); err != nil {
			return err
		}
	}
	defer v.forget()
	if v.Lay(n, nil) != nil { // its words are not known yet
		return nil
	}
	return v.follows()
}

// follows returns an error if the columns can't follow those of the chain.
func (v *Values) follows() error {
	width := v.Features
	if v.IsSparse() {
		width = 0
	}
	return v.whole.Learnt().Check(width, v.Table)
}

// TopicMessage is a message of a topic of values, with its position.
type TopicMessage struct {
	Partition int
	Offset    int64
	Key       string // "": none
	Time      int64  // timestamp in milliseconds since 1970; 0: none
	SchemaID  string // from the header SchemaHeader; "": none
	Trace     string // from the header traceparent; "": none
	Value     []byte
	Row       *message.Row // the decoded value; nil: Value has it
}

// sourceKeyOverhead is the size of a row in the key column besides its key: the offset of the key, and a validity bit.
const sourceKeyOverhead = 5

// Add adds the examples of a message to the batch. If they don't fit, it returns full and adds nothing: Take the batch,
// and add the message again. A message is not split between batches. If one of its examples is invalid, Add returns the
// reason and adds none.
func (v *Values) Add(ctx context.Context, m TopicMessage) (full bool, err error) {
	defer func() { err = v.explain(ctx, err, m) }()
	cells, err := v.rowsOf(ctx, m)
	if err != nil || len(cells) == 0 {
		return false, err
	}
	full, err = v.add(m, cells)
	return full, v.adviseMissing(err)
}

// add is Add for the rows of a message.
func (v *Values) add(m TopicMessage, cells [][]tabular.Cell) (full bool, err error) {
	first := !v.Laid()
	if first {
		n, err := v.width(cells[0])
		if err == nil {
			err = v.Lay(n, cells[0])
		}
		if err == nil {
			err = v.follows()
		}
		if err != nil {
			v.forget()
			return false, err
		}
	}
	b := &v.batch
	rows, size, err := v.read(cells)
	if errors.As(err, new(*value.UnitError)) { // the first number in a column of times
		if err = v.FindUnits(cells); err == nil {
			rows, size, err = v.read(cells)
		}
	}
	if err == nil {
		var origins examples.RowOrigins
		if size += len(cells) * (sourceKeyOverhead + len(m.Key)); b.Rows == 0 {
			size += len(v.TableText) + origins.Bytes(m.Partition, m.Offset, len(cells))
		} else {
			size += v.size + b.Origins.Bytes(m.Partition, m.Offset, len(cells))
		}
		switch tooLarge := size > layout.MaxBatchBytes; {
		case b.Rows > 0 && (tooLarge || b.Rows+len(cells) > v.whole.BatchRows):
			return true, nil
		case tooLarge:
			err = fmt.Errorf("%d examples do not fit a message of %d bytes: send fewer in a value", len(cells), wire.MaxMessage)
		}
	}
	if err != nil {
		if first {
			v.forget() // an invalid value does not determine the number of columns
		}
		return false, err
	}
	v.size = size
	v.see()
	v.append(rows)
	b.Origins = b.Origins.Append(m.Partition, m.Offset, len(cells))
	for range cells {
		v.keys = append(v.keys, m.Key)
	}
	v.AddSpreads(v.spreads)
	return false, nil
}

// forget makes the next message determine the columns.
func (v *Values) forget() {
	v.Forget()
	v.wanted = 0
}

// append adds rows to the batch, which it creates if necessary.
func (v *Values) append(rows *examples.Rows) {
	b := &v.batch
	if b.Rows == 0 {
		*b = examples.Rows{
			Cols: rows.Cols, Columns: rows.Columns, Floats: b.Floats[:0], Words: b.Words[:0], NoLabel: b.NoLabel[:0],
			LabelLists: b.LabelLists[:0], Targets: b.Targets[:0], Weights: b.Weights[:0], Served: b.Served[:0], Origins: b.Origins[:0],
		}
		if v.sparse.Reset(); rows.Sparse != nil {
			b.Sparse, b.Floats = &v.sparse, nil
		}
		v.keys = v.keys[:0]
	}
	if len(b.NoLabel)+len(rows.NoLabel) > 0 {
		b.NoLabel = append(b.NoLabel, make([]bool, b.Rows-len(b.NoLabel))...)
		b.NoLabel = append(b.NoLabel, rows.NoLabel...)
		b.NoLabel = append(b.NoLabel, make([]bool, b.Rows+rows.Rows-len(b.NoLabel))...)
	}
	b.Floats, b.Words = append(b.Floats, rows.Floats...), append(b.Words, rows.Words...)
	b.LabelLists = append(b.LabelLists, rows.LabelLists...)
	b.Targets, b.Weights = append(b.Targets, rows.Targets...), append(b.Weights, rows.Weights...)
	b.Served = append(b.Served, rows.Served...)
	if rows.Sparse != nil {
		for row := range rows.Rows {
			indices, values := rows.Sparse.Row(row)
			for i, index := range indices {
				v.sparse.Append(index, values[i])
			}
			v.sparse.End()
		}
	}
	b.Rows += rows.Rows
}

// width returns the number of columns, if this is the first row.
func (v *Values) width(row []tabular.Cell) (int, error) {
	if v.format.Width == nil {
		return len(row), nil
	}
	if v.whole.LabelComesLater() { // already reduced to the columns to read
		v.wanted = len(row)
		return len(row), nil
	}
	n, exact, err := v.format.Width(v.whole.Options, len(row))
	if exact {
		v.wanted = n
	}
	return n, err
}

// read decodes the rows of a message, and returns their size.
func (v *Values) read(cells [][]tabular.Cell) (rows *examples.Rows, size int, err error) {
	for i, row := range cells {
		switch n := len(row); {
		case v.wanted > 0 && n != v.wanted:
			err = fmt.Errorf("%d features, expected %d as in earlier values", n-v.Others(), v.wanted-v.Others())
		case n < len(v.Cells):
			err = fmt.Errorf("%d columns, expected at least %d", n, len(v.Cells))
		}
		if err != nil && len(cells) > 1 {
			err = fmt.Errorf("row %d, counted from 0: %w", i, err)
		}
		if err != nil {
			return nil, 0, err
		}
	}
	if !v.IsSparse() && len(cells)*layout.FloatRowBytes(v.Features)+len(v.TableText) > layout.MaxBatchBytes {
		return nil, 0, fmt.Errorf("%d examples do not fit a message of %d bytes: send fewer in a value", len(cells), wire.MaxMessage)
	}
	return v.Messages.Read(cells)
}

// NeededOffsets returns the offsets needed by columns without one in the options, because float32 does not resolve the
// differences in the first rows. For a topic they are not applied automatically, because processes that read other rows
// would determine others.
func (v *Values) NeededOffsets() layout.Offsets { return v.spreads.Offsets() }

// Full reports whether the batch has the maximum number of examples.
func (v *Values) Full() bool { return v.batch.Rows >= v.whole.BatchRows }

// Take returns the batch, which is valid until the next Add, and starts another one. It returns nil if there are no
// examples.
func (v *Values) Take() *examples.Rows {
	if v.batch.Rows == 0 {
		return nil
	}
	taken := v.batch
	v.batch.Rows = 0
	if slices.ContainsFunc(v.keys, func(key string) bool { return key != "" }) {
		taken.SourceKeys = v.keys
	}
	return &taken
}
