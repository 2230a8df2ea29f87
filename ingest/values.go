package ingest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/format/typed"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/internal/signature"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Values batches the examples in message values, one or several per message, in the format of the options. It uses the same code as files
// to assign roles to columns and positions to features. A message is read completely or not at all. Create it with NewValues.
type Values struct {
	opened
	layout.Layout
	says  predicted     // content of outcomes
	names []string      // nil: columns have numbers, and the first row determines how many
	laid  bool          // the columns are known from a row, and have their positions
	cells tabular.Block // rows of the last message that is not read together with others
	block tabular.Block // cells, or the last rows that were read together
	batch layout.Batch
	keys  []string // message keys, for each row of the batch

	archived int            // maximum number of rows of an archive that AddRows reads at a time, which is small after invalid ones
	seen     int            // number of rows, of the first layout.OffsetRows
	spreads  layout.Spreads // of the columns without an offset in these rows
	present  []bool         // by column: whether one of these rows has a value

	presences map[string]*layout.Presence // by column
}

// NewValues returns empty Values, for options that pass Check and have a FromTopic. It returns an error if an option is
// invalid, or if the columns can't follow those of the chain.
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
	v := &Values{opened: r, says: says, spreads: layout.Spreads{}, presences: map[string]*layout.Presence{},
		archived: layout.OffsetRows}
	if r.format.Width == nil {
		v.names = format.Columns(o.Options)
	}
	v.Options = o.Options
	v.begin(0)
	return v, v.checkColumns(len(v.names))
}

// begin resets the layout to n columns without roles.
func (v *Values) begin(n int) {
	fields := make([]tabular.Field, n)
	for i := range fields {
		if fields[i].Kind, fields[i].Digits = tabular.Any, true; v.names != nil {
			fields[i].Name = v.names[i]
		}
	}
	v.Layout = layout.New(v.Options, v.format.Label, fields, v.names != nil, v.locate)
	v.Names, v.ByName, v.Encoded = v.names, v.names != nil, true
}

// locate adds a column to an error; -1: none.
func (v *Values) locate(column int, err error) error {
	switch {
	case column < 0:
		return err
	case v.names == nil:
		return fmt.Errorf("column %d: %w", column, err)
	}
	return fmt.Errorf("column %s: %w", value.Quote(v.names[column]), err)
}

// failAt returns an error at a value of the last message. The row number is omitted for a message with one row.
func (v *Values) failAt(row, column int, err error) error {
	if err = v.locate(column, err); v.block.Rows > 1 {
		return fmt.Errorf("row %d, counted from 0: %w", row, err)
	}
	return err
}

// assign assigns roles to n columns. The first row determines which columns are lists.
func (v *Values) assign(n int, first []tabular.Cell) error {
	v.begin(n)
	if last := n - 1; n == len(first) && n > 0 && len(v.Options.Columns.Use) == 1 && v.names != nil {
		switch kind, length := first[last].Kind(); kind {
		case tabular.List, tabular.TextList:
			v.Cells[last].Kind, v.Cells[last].Length = tabular.List, length
		case tabular.Pairs:
			v.Cells[last].Kind = tabular.Pairs
		}
	}
	if err := v.Assign(); err != nil {
		return err
	}
	return v.CheckTypes()
}

// lay is assign, and also assigns positions to the features.
func (v *Values) lay(n int, first []tabular.Cell) error {
	if err := v.assign(n, first); err != nil {
		return err
	}
	err := v.Lay()
	v.laid = err == nil
	return err
}

// checkColumns returns an error if the columns of the options can't follow those of the chain, as far as this is known
// before the first row: the only column may be a list, and without columns.use a row of CSV has any number. n is the
// number of columns with names.
func (v *Values) checkColumns(n int) error {
	learnt, use := v.whole.Found.Learnt, len(v.whole.Columns.Use)
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
	if v.lay(n, nil) != nil { // its words are not known yet
		return nil
	}
	return v.follows()
}

// follows returns an error if the columns can't follow those of the chain.
func (v *Values) follows() error { return v.whole.Found.Learnt.Check(v.Width(), v.Table) }

// TopicMessage is a message of a topic of values, with its position.
type TopicMessage struct {
	Partition int
	Offset    int64
	Key       string // "": none
	Time      int64  // timestamp in milliseconds since 1970; 0: none
	SchemaID  string // from the header SchemaHeader; "": none
	Trace     string // from the header traceparent; "": none
	Value     []byte
	Row       *tabular.Cell    // the value, if an archive has decoded it; nil: Value has it
	Changed   string           // which column of its file in an archive has another type than in the first; "": none
	rows      [][]tabular.Cell // the rows, if they were packed; nil: they are decoded from the value
}

// sourceKeyOverhead is the size of a row in the key column besides its key: the offset of the key, and a validity bit.
const sourceKeyOverhead = 5

// Add adds the examples of a message to the batch. If they don't fit, it returns full and adds nothing: Take the batch,
// and add the message again. A message is not split between batches. If one of its examples is invalid, Add returns the
// reason and adds none.
func (v *Values) Add(ctx context.Context, m TopicMessage) (full bool, err error) {
	return v.AddLabelled(ctx, m, "")
}

// AddLabelled is Add for a message whose examples have the content of an outcome from [Outcomes.Read]; "": they have labels.
func (v *Values) AddLabelled(ctx context.Context, m TopicMessage, said string) (full bool, err error) {
	defer func() { err = v.explain(ctx, err, m) }()
	cells, err := v.rowsOf(ctx, m)
	if err != nil || len(cells) == 0 {
		return false, err
	}
	if said != "" {
		v.says.Put(cells, said, v.format.Width == nil)
		return v.add(m, cells)
	}
	full, err = v.add(m, cells)
	if err = v.adviseMissing(err); m.Changed != "" && errors.As(err, new(value.NumberError)) {
		err = fmt.Errorf("%s: %w; %w", m.Changed, err, errChanged)
	}
	return full, err
}

// add is Add for the rows of a message.
func (v *Values) add(m TopicMessage, cells [][]tabular.Cell) (full bool, err error) {
	first := !v.laid
	if first {
		err := v.lay(len(cells[0]), cells[0])
		if err == nil {
			err = v.follows()
		}
		if err != nil {
			v.forget()
			return false, err
		}
	}
	full, err = v.put(m, cells)
	if errors.As(err, new(*value.UnitError)) { // the first number in a column of times
		if err = v.findUnits(cells); err == nil {
			full, err = v.put(m, cells)
		}
	}
	if err != nil && first {
		v.forget() // an invalid value does not determine the number of columns
	}
	return full, err
}

// put is add for rows whose columns are known.
func (v *Values) put(m TopicMessage, cells [][]tabular.Cell) (full bool, err error) {
	v.take(cells)
	n, before, added := len(cells), v.batch.Len(), 0
	if n <= v.MostRows() {
		origin := v.batch.Examples.Origins.Bytes(m.Partition, m.Offset, n)
		var troubles []layout.Trouble
		added, troubles = v.Append(&v.batch, &v.block, func(row int) int {
			if row > 0 {
				return sourceKeyOverhead + len(m.Key)
			}
			return sourceKeyOverhead + len(m.Key) + origin
		})
		if troubles != nil {
			return false, v.failAt(troubles[0].Row, troubles[0].Column, troubles[0].Err)
		}
		full = before > 0 && (added < n || v.batch.Len() > v.whole.BatchRows)
	}
	switch {
	case full:
		v.batch.Cut(before)
		return true, nil
	case added < n:
		v.batch.Cut(before)
		return false, fmt.Errorf("%d examples do not fit a message of %d bytes: send fewer in a value", n, wire.MaxMessage)
	}
	v.see()
	v.note(m.Partition, m.Offset, n, m.Key)
	return false, nil
}

// note records the message of the next rows of the batch.
func (v *Values) note(partition int, offset int64, rows int, key string) {
	v.batch.Examples.Origins = v.batch.Examples.Origins.Append(partition, offset, rows)
	for range rows {
		v.keys = append(v.keys, key)
	}
}

// forget makes the next message determine the columns.
func (v *Values) forget() {
	v.begin(0)
	v.reader.Forget()
	v.laid, v.present, v.seen = false, nil, 0
}

// take makes the rows of a message the rows of the block.
func (v *Values) take(rows [][]tabular.Cell) {
	v.cells.Reset(len(v.Cells))
	v.cells.Rows, v.cells.Cells = len(rows), rows
	v.block = v.cells
}

// AddRows adds leading messages of an archive, with consecutive offsets, to the batch, and returns their number. It returns 0 if the first
// one needs Add, because it is invalid or does not fit, the layout may depend on it, or it has values other than numbers and texts. rows
// are as for MessageOf.
func (v *Values) AddRows(partition int, offset int64, rows any) (added int) {
	of, is := rows.(archived)
	if !is || !v.laid || v.IsSparse() || v.format.Width != nil || v.whole.rowsPath() != "" {
		return 0
	}
	all, from := of.All()
	var block tabular.Block
	if all == nil || !arrow.Fill(&block, all, v.names) {
		return 0
	}
	before, origin := v.batch.Len(), v.batch.Examples.Origins.Bytes(partition, offset, 1)
	beside := func(row int) int {
		if row > 0 {
			return sourceKeyOverhead + len(of.Key(row)) + 1 // each further message continues the origin of the first
		}
		return sourceKeyOverhead + len(of.Key(row)) + origin
	}
	for n := min(of.Len(), v.archived, v.whole.BatchRows-before, v.MostRows()); n > 0; n = added {
		rows, troubles := block.Part(from, from+n), []layout.Trouble(nil)
		if added, troubles = v.Append(&v.batch, &rows, beside); troubles == nil {
			v.archived = min(2*v.archived, layout.OffsetRows)
			break
		}
		added = troubles[0].Row
		v.archived = max(added, 1)
	}
	if added == 0 {
		return 0
	}
	v.block = block.Part(from, from+added)
	v.see()
	for i := range added {
		v.note(partition, offset+int64(i), 1, of.Key(i))
	}
	return added
}

// addWords adds the words of the categorical columns and texts of valid rows.
func (v *Values) addWords(rows [][]tabular.Cell, found *layout.FoundWords) error {
	v.take(rows)
	if troubles := v.Examine(&v.block, found); troubles != nil {
		return v.failAt(troubles[0].Row, troubles[0].Column, troubles[0].Err)
	}
	return nil
}

// findUnits determines the units of times that are not known yet, from the rows of a message. The rows before had no numbers
// there, so their columns are the same.
func (v *Values) findUnits(rows [][]tabular.Cell) error {
	found := layout.NewFoundWords(v.Options)
	if err := v.addWords(rows, found); err != nil {
		return err
	}
	before := v.Options
	v.Options = before.WithUnits(found)
	if err := v.CheckUnits(); err != nil {
		v.Options = before
		return err
	}
	return v.lay(len(v.Cells), rows[0])
}

// NeededOffsets returns the offsets needed by columns without one in the options, because float32 does not resolve the
// differences in the first rows. For a topic they are not applied automatically, because processes that read other rows
// would determine others.
func (v *Values) NeededOffsets() layout.Offsets { return v.spreads.Offsets(2) }

// Full reports whether the batch has the maximum number of examples.
func (v *Values) Full() bool { return v.batch.Len() >= v.whole.BatchRows }

// Take returns the batch, which is valid until the next Add, and starts another one. It returns nil if there are no
// examples.
func (v *Values) Take() *examples.Rows {
	if v.batch.Len() == 0 {
		return nil
	}
	taken := v.batch.Take()
	if slices.ContainsFunc(v.keys, func(key string) bool { return key != "" }) {
		taken.SourceKeys = v.keys
	}
	v.keys = v.keys[:0]
	return taken
}

// TopicWords finds the words of the categorical columns of a topic of values and the units of its times, as Sources does for
// files. Create it with NewTopicWords.
type TopicWords struct {
	values *Values
	found  *layout.FoundWords
	rows   int
	last   error // why the last unusable message is unusable
}

// NewTopicWords returns empty TopicWords, for options that pass Check and have a FromTopic.
func NewTopicWords(o Options) (*TopicWords, error) {
	v, err := NewValues(o)
	return &TopicWords{values: v, found: layout.NewFoundWords(o.Options)}, err
}

// Add adds the words of a value. It ignores invalid values, which Values reports. It is an error if a column has too many
// words.
func (w *TopicWords) Add(ctx context.Context, m TopicMessage) error {
	v := w.values
	rows, err := v.rowsOf(ctx, m)
	if unusable, _ := Unusable(err); err != nil && (!unusable || ctx.Err() != nil) {
		return err
	}
	if err != nil || len(rows) == 0 {
		w.last = cmp.Or(err, w.last)
		return nil
	}
	if v.whole.Mode == layout.LabelLater {
		v.says.Put(rows, v.says.Any(), v.format.Width == nil)
	}
	if len(v.Cells) == 0 {
		if err := v.assign(len(rows[0]), rows[0]); err != nil {
			v.forget()
			w.last = err
			return nil
		}
	}
	w.rows += len(rows)
	return v.addWords(rows, w.found)
}

// Enough reports whether further values are unlikely to change the result.
func (w *TopicWords) Enough() bool { return w.found.More(w.rows) == 0 }

// Options returns the options with the words and units found. It is an error if a column of words has none, or if the numbers
// of a column of times fit no unit.
func (w *TopicWords) Options() (Options, error) {
	o := w.values.whole
	with, err := o.WithWords(w.found)
	if err != nil {
		return o, err
	}
	o.Options = with
	for _, c := range o.Categorical {
		switch {
		case len(o.Found.Categories[c]) > 0 || o.Mixed():
		case w.last != nil && w.rows == 0:
			return o, fmt.Errorf("no message can be used: %s", schemas.WithoutValues(w.last.Error()))
		default:
			return o, fmt.Errorf("no message has a word in the column %s of examples.categorical yet: "+
				"words are collected when the topic is first read", c)
		}
	}
	w.values.Options = with
	return o, w.values.CheckUnits()
}

// rowsOf returns the rows of a message.
func (v opened) rowsOf(ctx context.Context, m TopicMessage) ([][]tabular.Cell, error) {
	switch {
	case m.rows != nil:
		return m.rows, nil
	case m.Row != nil:
		return v.reader.ReadRow(*m.Row)
	}
	if len(m.Value) == 0 && m.Key != "" {
		return nil, nil // a tombstone, as change data capture writes after a deletion
	}
	if len(m.Value) == 0 {
		return nil, fmt.Errorf("an empty value: expected %s", cmp.Or(v.format.Values, v.format.Meaning))
	}
	p, err := v.payload(ctx, m)
	if err != nil {
		return nil, err
	}
	if v.whole.Encoding != "" && v.format.IsText {
		if p.Value, err = signature.DecodeText(p.Value, v.whole.Encoding); err != nil {
			return nil, fmt.Errorf("%w, which examples.encoding expects", err)
		}
	}
	if v.format.IsText {
		p.Value = bytes.TrimPrefix(p.Value, []byte("\ufeff")) // as for files
	}
	return v.reader.Read(ctx, p)
}

// explain replaces the reason why a message is unusable if its value is not of the format.
func (v opened) explain(ctx context.Context, err error, m TopicMessage) error {
	if unusable, _ := Unusable(err); err == nil || ctx.Err() != nil || !unusable || m.Row != nil {
		return err
	}
	key := func(name string) string { return cmp.Or(v.under, "examples") + "." + name }
	id, _, framed := format.Framed(m.Value)
	form, known := signature.Of(m.Value)
	if v.under != "" {
		form.Encoding = "" // outcomes have no such key
	}
	switch {
	case known && form.Values == v.format.Name || form.Encoding != "" && v.whole.Encoding != "":
		return err
	case known && !(framed && form.Format != ""): // a frame may begin as idx does
		return fmt.Errorf("%s: %s", form.Name, form.OfValue(key))
	case framed && v.schemas == nil && v.format.Schema.Type != "":
		return fmt.Errorf("%w It begins with the prefix of schema registry serializers and the schema ID %s: set %s", err, id,
			key("registry.url"))
	case v.format.IsText && v.whole.Encoding == "" && !framed && signature.IsBinary(m.Value):
		return fmt.Errorf("binary data: set %s to what the producer writes: %s", key("format"),
			formatNames("", "or", func(f format.Format) bool { return f.IsOfMessages() && !f.IsText }))
	}
	return err
}

// payload returns the value of a message without framing, with its schema if a registry has it.
func (v opened) payload(ctx context.Context, m TopicMessage) (p format.Payload, err error) {
	kind := v.format.Schema
	if v.schemas == nil {
		if id, _, framed := format.Framed(m.Value); framed && kind.Type == "" && !v.format.Unframed {
			return p, fmt.Errorf("it begins with the prefix of schema registry serializers (a zero byte and the schema ID %s): expected %s: "+
				"set examples.registry.url, or configure the producer without a registry", id, cmp.Or(v.format.Values, v.format.Meaning))
		}
		return format.Payload{Value: m.Value}, nil
	}
	p.Value = m.Value
	indexes := []byte(nil)
	var id format.SchemaID
	if m.SchemaID != "" {
		if id, indexes, err = format.FramedHeader(m.SchemaID); err != nil {
			return p, err
		}
	} else {
		framed := false
		if id, p.Value, framed = format.Framed(m.Value); !framed {
			instead := ""
			if kind.Type != "" {
				instead = ", and set examples.schema"
			}
			return p, fmt.Errorf("no schema ID, neither before the value nor in the header %s: configure the producer with the registry, "+
				"or remove examples.registry%s", format.SchemaHeader, instead)
		}
	}
	if kind.Type == "" {
		return p, nil
	}
	if p.Schema, err = v.schemas.Schema(ctx, id); err != nil {
		return p, err
	}
	if p.Schema.Type != kind.Type {
		return p, fmt.Errorf("%s is %s: expected %s, because examples.format is %s", p.Schema.Name, p.Schema.Type, kind.Type, v.format.Name)
	}
	if kind.Named {
		if len(indexes) > 0 {
			p.Indexes, _, err = typed.Indexes(indexes)
		} else {
			p.Indexes, p.Value, err = typed.Indexes(p.Value)
		}
	}
	return p, err
}

// Unusable reports whether an error of Add is due to the message, which is then quarantined. Any other error is due to its file in an
// archive, or to the schema registry: away means that the registry is unavailable.
func Unusable(err error) (unusable, away bool) {
	of, is := errors.AsType[*format.RegistryError](err)
	return !is && !errors.Is(err, errChanged), is && of.Away
}

// archived are messages of an archive. [archive.Rows] implements it.
type archived interface {
	Len() int
	Key(row int) string
	Value(row int) (value []byte, decoded *tabular.Cell)
	All() (all *stream.Values, from int)
}

// MessageOf converts a message of a topic of values. rows are the rows of an archive that begin with the message: an [archive.Rows], or a
// type that embeds it. Nil means that the value is not decoded.
func MessageOf(partition int, offset int64, at time.Time, m wire.Message, rows any) TopicMessage {
	value := TopicMessage{Partition: partition, Offset: offset, Key: m.Key, Value: m.Value}
	if of, is := rows.(archived); is {
		_, value.Row = of.Value(0)
	}
	if len(m.Headers) > 0 {
		value.SchemaID, value.Trace = m.Get(format.SchemaHeader), m.Trace()
	}
	if t := outcome.TimeOf(at); t != outcome.Never {
		value.Time = t
	}
	return value
}

// RowsOf describes the rows of an examples message, given its value, for later rows of a topic or of files. It returns nil if
// they can't be decoded: their reader reports the error with its position.
func RowsOf(value []byte, topic string) *layout.Learnt {
	batch, err := examples.Decode(value, memory.DefaultAllocator)
	if err != nil {
		return nil
	}
	columns, err := examples.ParseColumns(batch.ColumnsText())
	if err != nil {
		return nil
	}
	l := &layout.Learnt{Sparse: batch.Sparse != nil, Width: batch.Cols, Columns: columns, Topic: topic, Rows: batch.Rows}
	if columns == nil {
		return l
	}
	l.Lacking = map[string]int{}
	width := columns.Features()
	features := make([]float32, batch.Rows*width)
	if batch.Sparse != nil {
		batch.Sparse.Leading(features, width)
	} else {
		batch.Features(features, width)
	}
	at := 0
	for _, c := range columns {
		lacking := 0
		for row := range batch.Rows {
			if x := features[row*width+at]; x != x {
				lacking++
			}
		}
		l.Lacking[c.Source()] = lacking
		at += c.Features()
	}
	return l
}
