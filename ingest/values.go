package ingest

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas"
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
	label Column
	// keys are the keys under examples that this format reads, other than those
	// that all formats read.
	keys []string
	// check finds impossible values of these keys, other than columns.
	check func(Options) []schemas.Problem
	// rows returns the rows of a value: the fields of each.
	rows func(v *Values, value []byte) ([][]string, error)
	// lay makes the layout of rows like this one.
	lay func(v *Values, row []string) error
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
func (o Options) checkFromTopic() (problems []schemas.Problem) {
	wrong := func(key, value, want string) {
		problems = append(problems, schemas.Problem{Key: key, Value: value, Want: want})
	}
	if len(o.Train)+len(o.Test) > 0 {
		wrong("from_topic", o.FromTopic, "no files under examples.train and examples.test beside it: ingest files first, or follow the topic")
	}
	f, ok := o.valueFormatOf()
	if !ok {
		var names []string
		for _, f := range valueFormats() {
			names = append(names, f.name)
		}
		wrong("format", quote(o.Format), enumerate(names, "or")+", as examples.from_topic is set")
		return problems
	}
	if o.Header != nil && *o.Header {
		wrong("header", "true", "false: the values of a topic have no header")
	}
	if len(o.Categorical) > 0 {
		wrong("categorical", fmt.Sprint(o.Categorical), "no columns, as examples.from_topic is set: the words of a topic are not known before it is read. Let the producer write a number for each word")
	}
	problems = append(problems, o.checkColumns([]format{{label: f.label, keys: f.keys}})...)
	return append(problems, f.check(o)...)
}

// Values makes batches of examples of the values of messages, each with one
// example or several, in the format of the options. NewValues makes it.
type Values struct {
	layout
	format valueFormat
	wanted int // columns of each row, once a row had them; 0: not known yet
	batch  schemas.ExampleRows
	keys   []string // of the messages, for each row of the batch
	size   int      // bytes of the batch in a message
}

// NewValues returns Values without examples, for options that pass Check and have
// a FromTopic.
func NewValues(o Options) *Values {
	f, _ := o.valueFormatOf()
	return &Values{format: f, layout: newLayout(o, f.label, 0, nil)}
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
	value := m.Value
	if len(value) == 0 {
		return false, fmt.Errorf("an empty value: expected %s", v.format.meaning)
	}
	rows, err := v.format.rows(v, value)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	first := len(v.cells) == 0
	if first {
		if err := v.format.lay(v, rows[0]); err != nil {
			v.cells, v.wanted = nil, 0
			return false, err
		}
	}
	b := &v.batch
	if b.Rows == 0 {
		v.size = len(v.tableText)
		*b = schemas.ExampleRows{Cols: v.features, Columns: v.table, Floats: b.Floats[:0], Words: b.Words[:0], Weights: b.Weights[:0], Origins: b.Origins[:0]}
		v.keys = v.keys[:0]
	}
	before, size := *b, v.size
	for i, row := range rows {
		if err = v.add(row); err != nil {
			if len(rows) > 1 {
				err = fmt.Errorf("row %d, counted from 0: %w", i, err)
			}
			break
		}
	}
	v.size += len(rows)*(sourceKeyOverhead+len(m.Key)) + b.Origins.Bytes(m.Partition, m.Offset, len(rows))
	tooMany := b.Rows > v.options.BatchRows && before.Rows > 0
	tooLarge := v.size > maxBatchBytes
	if err == nil && !tooMany && !tooLarge {
		b.Origins = b.Origins.Append(m.Partition, m.Offset, len(rows))
		for range rows {
			v.keys = append(v.keys, m.Key)
		}
		return false, nil
	}
	before.Floats, v.size = b.Floats[:len(before.Floats)], size
	*b = before
	if first {
		v.cells, v.wanted = nil, 0 // a value that can't be used does not say how many columns there are
	}
	if err == nil && before.Rows == 0 {
		err = fmt.Errorf("%d examples do not fit a message of %d bytes: send fewer in a value", len(rows), schemas.MaxMessage)
	}
	return err == nil, err
}

// add adds a row to the batch.
func (v *Values) add(row []string) error {
	if v.wanted > 0 && len(row) != v.wanted {
		others := v.wanted - v.features // the label and the weight, and in a CSV what is left out
		return fmt.Errorf("%d features, expected %d as in the values before", len(row)-others, v.features)
	}
	if len(row) < len(v.cells) {
		return fmt.Errorf("%d columns, expected at least %d", len(row), len(v.cells))
	}
	bytes, err := v.rowBytes(row[v.label])
	if err != nil {
		return v.locate(v.layout.label, err)
	}
	v.size += bytes
	return v.appendRow(&v.batch, row, v.parse)
}

// parse parses a feature; NaN if it is missing.
func (v *Values) parse(field string) (float32, error) {
	if field == "" {
		return float32(math.NaN()), v.checkMissing("no value")
	}
	return v.layout.parse(field)
}

// Full reports whether the batch has as many examples as a message may have.
func (v *Values) Full() bool { return v.batch.Rows >= v.options.BatchRows }

// Take returns the batch, which is valid until the next Add, and begins another
// one. It returns nil if there are no examples.
func (v *Values) Take() *schemas.ExampleRows {
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
	case v.names == nil:
		return fmt.Errorf("column %d: %w", column, err)
	}
	return fmt.Errorf("column %s: %w", quote(v.names[min(column, len(v.names)-1)]), err)
}

// begin makes the layout one of n columns.
func (v *Values) begin(n int) {
	v.layout = newLayout(v.options, v.format.label, n, v.at)
}

// largest returns the largest number of a column that a key names.
func (o Options) largest() (n int) {
	for _, c := range o.namedColumns() {
		if at, err := strconv.Atoi(string(c)); err == nil {
			n = max(n, at)
		}
	}
	return n
}
