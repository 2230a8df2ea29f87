package ingest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/charset"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
)

// valueFormat is a format of the values of messages, of a topic that is no
// examples topic. Its value owns everything that is particular to it. To add one,
// write one file with its value and list it in valueFormats.
type valueFormat struct {
	// name is its value of examples.format.
	name string
	// meaning says what a value holds, for the documentation.
	meaning string
	// label is the column of the label, if no key says another.
	label layout.Column
	// keys are the keys under examples that this format reads, other than those
	// that all formats read.
	keys []string
	// check finds impossible values of these keys, other than columns.
	check func(Options) []option.Problem
	// rows returns the rows of a value.
	rows func(v *Values, value []byte) ([]layout.Row, error)
	// assign makes the layout one of rows like this one, whose columns have their roles and no places.
	assign func(v *Values, row layout.Row) error
}

// valueFormats are the formats of values, in the order of the documentation.
func valueFormats() []valueFormat {
	return []valueFormat{jsonValues(), csvValues()}
}

// valueFormatOf returns the format of the values of FromTopic.
func (o Options) valueFormatOf() (f valueFormat, ok bool) {
	all := valueFormats()
	i := slices.IndexFunc(all, func(f valueFormat) bool { return f.name == o.Format })
	if i < 0 {
		return valueFormat{}, false
	}
	return all[i], true
}

// checkFromTopic finds what is impossible if the examples come from a topic of
// values.
func (o Options) checkFromTopic() (problems []option.Problem) {
	wrong := func(key, value, want string) {
		problems = append(problems, option.Problem{Key: key, Value: value, Want: want})
	}
	if len(o.Train)+len(o.Test) > 0 {
		wrong("from_topic", o.FromTopic, "no files under examples.train and examples.test with it: ingest files first, or follow the topic")
	}
	f, ok := o.valueFormatOf()
	if !ok {
		var names []string
		for _, f := range valueFormats() {
			names = append(names, f.name)
		}
		wrong("format", value.Quote(o.Format), option.Enumerate(names, "or")+", as examples.from_topic is set")
		return problems
	}
	if o.Header != nil && *o.Header {
		wrong("header", "true", "false: the values of a topic have no header")
	}
	for _, name := range slices.Sorted(maps.Keys(o.Offsets)) {
		_, notNumber := strconv.Atoi(name)
		if isFeature := slices.Contains(o.Columns.Use, name); !isFeature && (o.Format != csvValues().name || notNumber != nil) {
			wrong("offsets", value.Quote(name), "columns of examples.columns.use; of CSV, the numbers of columns")
		}
	}
	problems = append(problems, o.checkColumns([]format.Format{{Label: f.label, Keys: f.keys}})...)
	return append(problems, f.check(o)...)
}

// Values makes batches of examples of the values of messages, each with one
// example or several, in the format of the options. NewValues makes it.
type Values struct {
	layout.Layout
	whole  Options
	format valueFormat
	places map[string]int // of JSON: of the columns, by their names; nil: not known yet
	wanted int            // columns of each row, once a row had them; 0: not known yet
	batch  examples.Rows
	keys   []string // of the messages, for each row of the batch
	size   int      // bytes of the batch in a message

	seen    int            // rows that spreads has, at most layout.OffsetRows
	spreads layout.Spreads // of the columns without an offset
}

// NewValues returns Values without examples, for options that pass Check and have
// a FromTopic.
func NewValues(o Options) *Values {
	f, _ := o.valueFormatOf()
	return &Values{whole: o, format: f, Layout: layout.New(o.Options, f.label, 0, nil)}
}

// TopicMessage is a message of a topic of values, and where it is there.
type TopicMessage struct {
	Partition int
	Offset    int64
	Key       string // "": it has none
	Value     []byte
}

// sourceKeyOverhead is how many bytes a row takes in the column of keys beside its
// key: the offset of the key, and a bit for its validity.
const sourceKeyOverhead = 5

// Add adds the examples of a message to the batch. If they don't fit, it returns
// full and adds nothing: Take the batch, and add the message again. A message is in
// one batch. If one of its examples can't be used, Add returns the reason and adds
// none.
func (v *Values) Add(m TopicMessage) (full bool, err error) {
	rows, err := v.rowsOf(m.Value)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	first := len(v.Cells) == 0
	if first {
		if err := v.lay(rows[0]); err != nil {
			v.Cells, v.wanted = nil, 0
			return false, err
		}
	}
	b := &v.batch
	if b.Rows == 0 {
		v.size = len(v.TableText)
		*b = examples.Rows{
			Cols: v.Features, Columns: v.Table, Floats: b.Floats[:0], Words: b.Words[:0], NoLabel: b.NoLabel[:0], LabelLists: b.LabelLists[:0],
			Targets: b.Targets[:0], Weights: b.Weights[:0], Origins: b.Origins[:0],
		}
		if v.Rows.Reset(); v.Text >= 0 {
			b.Sparse, b.Floats = &v.Rows, nil
		}
		v.keys = v.keys[:0]
	}
	before, size, sparse := *b, v.size, v.Rows
	for i, row := range rows {
		if err = v.add(row); err != nil {
			if len(rows) > 1 {
				err = fmt.Errorf("row %d, counted from 0: %w", i, err)
			}
			break
		}
	}
	v.size += len(rows)*(sourceKeyOverhead+len(m.Key)) + b.Origins.Bytes(m.Partition, m.Offset, len(rows))
	tooMany := b.Rows > v.Options.BatchRows && before.Rows > 0
	tooLarge := v.size > layout.MaxBatchBytes
	if err == nil && !tooMany && !tooLarge {
		b.Origins = b.Origins.Append(m.Partition, m.Offset, len(rows))
		for range rows {
			v.keys = append(v.keys, m.Key)
		}
		return false, nil
	}
	before.Floats, v.size, v.Rows = b.Floats[:len(before.Floats)], size, sparse
	*b = before
	if first {
		v.Cells, v.wanted = nil, 0 // a value that can't be used does not say how many columns there are
	}
	if err == nil && before.Rows == 0 {
		err = fmt.Errorf("%d examples do not fit a message of %d bytes: send fewer in a value", len(rows), wire.MaxMessage)
	}
	return err == nil, err
}

// rowsOf returns the rows of a value.
func (v *Values) rowsOf(value []byte) ([]layout.Row, error) {
	if len(value) == 0 {
		return nil, fmt.Errorf("an empty value: expected %s", v.format.meaning)
	}
	if err := checkFrame(value, v.format.meaning); err != nil {
		return nil, err
	}
	if v.Options.Encoding != "" {
		text, err := charset.Decode(value, v.Options.Encoding)
		if err != nil {
			return nil, fmt.Errorf("%w, which examples.encoding expects", err)
		}
		value = text
	}
	return v.format.rows(v, value)
}

// lay makes the layout one of rows like this one.
func (v *Values) lay(row layout.Row) error {
	if err := v.format.assign(v, row); err != nil {
		return err
	}
	return v.Lay()
}

// add adds a row to the batch.
func (v *Values) add(row layout.Row) error {
	fields := row.Fields
	if v.wanted > 0 && len(fields) != v.wanted {
		return fmt.Errorf("%d features, expected %d as in earlier values", len(fields)-v.others(), v.wanted-v.others())
	}
	if len(fields) < len(v.Cells) {
		return fmt.Errorf("%d columns, expected at least %d", len(fields), len(v.Cells))
	}
	label := strings.Join(row.Labels, ",")
	if v.Label >= 0 && !row.IsList {
		label = fields[v.Label]
	}
	if v.Text >= 0 {
		if err := v.Words.Count(fields[v.Text]); err != nil {
			return v.Locate(v.Text, err)
		}
	}
	bytes, err := v.RowBytes(label)
	if err != nil {
		return v.Locate(v.Label, err)
	}
	v.size += bytes
	if err := v.AppendRow(&v.batch, row, v.parse); err != nil {
		return err
	}
	if v.seen < layout.OffsetRows {
		v.seen++
		v.addSpreads(fields)
	}
	return nil
}

// addSpreads adds the numbers of a row.
func (v *Values) addSpreads(fields []string) {
	if v.spreads == nil {
		v.spreads = layout.Spreads{}
	}
	for at, cell := range v.Cells {
		if _, said := v.Options.Offsets[v.NameOf(at)]; said || cell.Role != layout.Feature || cell.List {
			continue
		}
		if number, err := strconv.ParseFloat(fields[at], 64); err == nil {
			v.spreads.Add(v.NameOf(at), number)
		}
	}
}

// NeededOffsets returns the offsets that columns need to which the options give none, as float32 does not hold how
// their numbers differ in the first rows that were added. Those of a topic are not found by themselves: processes that
// read other rows would find others.
func (v *Values) NeededOffsets() layout.Offsets {
	needed := v.spreads.Offsets()
	if v.seen == layout.OffsetRows {
		v.spreads = layout.Spreads{} // they say no more
	}
	return needed
}

// others returns how many columns are no features: the label and the weight, and in a CSV what is left out.
func (v *Values) others() (n int) {
	for _, c := range v.Cells {
		if c.Role != layout.Feature && c.Role != layout.Category && c.Role != layout.Time {
			n++
		}
	}
	return n
}

// parse parses a feature; NaN if it is missing.
func (v *Values) parse(field string) (float32, error) {
	if field == "" {
		return float32(math.NaN()), v.CheckMissing("no value")
	}
	return v.Layout.Parse(field)
}

// Full reports whether the batch has as many examples as a message may have.
func (v *Values) Full() bool { return v.batch.Rows >= v.Options.BatchRows }

// Take returns the batch, which is valid until the next Add, and begins another
// one. It returns nil if there are no examples.
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

// at adds a column to an error; -1: no particular one.
func (v *Values) at(column int, err error) error {
	switch {
	case column < 0:
		return err
	case v.Names == nil:
		return fmt.Errorf("column %d: %w", column, err)
	}
	return fmt.Errorf("column %s: %w", value.Quote(v.Names[min(column, len(v.Names)-1)]), err)
}

// begin makes the layout one of n columns.
func (v *Values) begin(n int) {
	v.Layout = layout.New(v.Options, v.format.label, n, v.at)
	v.Encoded = true
}

// largest returns the largest number of a column that a key names.
func largest(o layout.Options) (n int) {
	for _, c := range o.NamedColumns() {
		if at, err := strconv.Atoi(string(c)); err == nil {
			n = max(n, at)
		}
	}
	return n
}
