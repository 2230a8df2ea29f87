package schemas

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindPrediction is the kind of a [Prediction].
const KindPrediction wire.Kind = "prediction"

// Prediction has a version's predictions for the rows of an examples message, or the reason why there are none. With many
// classes, the rows are split into parts, one per message.
type Prediction struct {
	Topic     string `header:"topic"`           // of the examples message
	Partition int    `header:"partition,count"` // of the examples message
	Offset    int64  `header:"offset,count"`    // of the examples message
	// After is the position of predictions before this part: messages from here to Offset need no predictions. See [Scored].
	After    int64  `header:"after,count"`
	Checksum string `header:"checksum"`         // of the message: see [MessageChecksum]
	Version  int    `header:"version,count"`    // version number
	Run      string `header:"run"`              // run that made the version
	Row      int    `header:"row,count"`        // first row of this part
	Until    int    `header:"until,count"`      // row after the last
	Rows     int    `header:"rows,count"`       // rows of all parts
	Seen     int64  `header:"seen,count"`       // offset up to which the writer had read this topic
	Reason   string `header:"reason,omitempty"` // why the message is unusable; it then has no rows here
	// Generation counts how often the examples topic has lost messages with predictions.
	Generation int `header:"generation,count,omitempty"`
	// Lost is true in the first part of a generation: messages from After on were lost.
	Lost bool `header:"lost,omitempty"`
	// Trace is the header traceparent of the examples message, if it has one.
	Trace string `header:"traceparent,omitempty"`

	Task          examples.Task // prediction task of the version
	Labels        []string      // k classes, or the names of the targets
	Classes       []int32       // index in Labels of each row's most probable label; nil for regression
	Probabilities []float32     // rows × k: label probabilities; nil for regression
	Numbers       []float64     // rows × k: predicted targets; nil for labels
	Given         []bool        // rows × k: whether the label is predicted; nil unless multi-label
	Contributions []string      // what columns add to the scores of each row, as JSON; nil unless they were asked for
}

// Names of the columns that depend on the prediction task.
const (
	columnProbabilities = "probabilities"
	columnNumbers       = "numbers"
	columnGiven         = "given"
	columnContributions = "contributions"
)

// predictedBy returns a prediction without rows, with the task and the number of classes of a predictions message, and with contributions
// if it has them, by its schema; single-label for other messages.
func predictedBy(schema *arrow.Schema) *Prediction {
	p := &Prediction{}
	for _, field := range schema.Fields() {
		if list, ok := field.Type.(*arrow.FixedSizeListType); ok {
			p.Labels = make([]string, list.Len())
		}
		switch field.Name {
		case columnGiven:
			p.Task = examples.SeveralLabels
		case columnNumbers:
			p.Task = examples.Numbers
		case columnContributions:
			p.Contributions = []string{}
		}
	}
	return p
}

// Encode encodes the message, whose values match the rows of the part and the columns of Labels. It returns an error if the value exceeds
// [wire.MaxMessage], which is possible with more than [MaxPredictionRows] rows.
func (p *Prediction) Encode(mem memory.Allocator) (wire.Message, error) {
	record := p.record(mem)
	defer record.Release()
	value, err := stream.Encode(record, mem)
	if err == nil && len(value) > wire.MaxMessage {
		err = fmt.Errorf("%d rows of %d classes take %d bytes with the labels and contributions, expected at most %d", p.Until-p.Row,
			len(p.Labels), len(value), wire.MaxMessage)
	}
	if err != nil {
		return wire.Message{}, fmt.Errorf("encode predictions of %s[%d]@%d: %w", p.Topic, p.Partition, p.Offset, err)
	}
	headers := append([]wire.Header{{Key: "kind", Value: string(KindPrediction)}}, wire.HeadersOf(p)...)
	at := 1 + slices.IndexFunc(headers, func(h wire.Header) bool { return h.Key == "seen" })
	headers = slices.Insert(headers, at, wire.Header{Key: "schema", Value: wire.Fingerprint(record.Schema())})
	return wire.Message{Key: fmt.Sprintf("%s/%d/%d/%d", p.Topic, p.Partition, p.Offset, p.Row), Headers: headers, Value: value}, nil
}

// record builds the Arrow record. The caller releases it.
func (p *Prediction) record(mem memory.Allocator) arrow.Record {
	n, k := p.Until-p.Row, int32(len(p.Labels))
	offsets, rows := make([]int64, n), make([]int32, n)
	for i := range n {
		offsets[i], rows[i] = p.Offset, int32(p.Row+i)
	}
	// The dictionary of the labels has all classes, in the order of the probabilities.
	label := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	columns := []stream.Column{
		{Field: arrow.Field{Name: "offset", Type: arrow.PrimitiveTypes.Int64}, Values: offsets},
		{Field: arrow.Field{Name: "row", Type: arrow.PrimitiveTypes.Int32}, Values: rows},
		{Field: arrow.Field{Name: "label", Type: label}, Values: stream.Indexed{Indices: p.Classes, Of: p.Labels}},
	}
	add := func(name string, of arrow.DataType, values any) {
		columns = append(columns, stream.Column{Field: arrow.Field{Name: name, Type: of}, Values: values})
	}
	if p.Task == examples.Numbers {
		none := &columns[2]
		none.Nullable, none.Valid, none.Values = true, make([]bool, n), stream.Indexed{Indices: make([]int32, n), Of: p.Labels}
		add(columnNumbers, arrow.FixedSizeListOf(k, arrow.PrimitiveTypes.Float64), p.Numbers)
	} else {
		add(columnProbabilities, arrow.FixedSizeListOf(k, arrow.PrimitiveTypes.Float32), p.Probabilities)
	}
	if p.Task == examples.SeveralLabels {
		add(columnGiven, arrow.FixedSizeListOf(k, arrow.FixedWidthTypes.Boolean), p.Given)
	}
	if p.Contributions != nil {
		add(columnContributions, arrow.BinaryTypes.String, p.Contributions)
	}
	return stream.NewRecord(mem, n, nil, columns...)
}

// MaxPredictionRows returns the maximum number of rows of a message, at least 1, for a task, its labels or target names, and the number
// of bytes of the longest contributions to a row.
func MaxPredictionRows(task examples.Task, labels []string, contributions int) int {
	left, k := wire.MaxMessage-8<<10, len(labels)
	for _, label := range labels {
		left -= len(label) + 4
	}
	row := 16 + 4*k
	if contributions > 0 {
		row += 4 + contributions
	}
	switch task {
	case examples.SeveralLabels:
		row += 1 + (k+7)/8
	case examples.Numbers:
		row += 1 + 4*k
	}
	return max(1, left/row)
}

// PredictionHeader decodes the headers of a predictions message, but not its value. The error wraps [wire.ErrDamaged].
func PredictionHeader(m wire.Message) (*Prediction, error) {
	if m.Kind() != KindPrediction {
		return nil, fmt.Errorf("%w: kind %s, expected %q", wire.ErrDamaged, stream.Quote(string(m.Kind())), KindPrediction)
	}
	p := &Prediction{}
	if err := wire.ReadHeaders(m, p); err != nil {
		return nil, err
	}
	if n := max(len(p.Checksum), len(p.Run)); n > wire.MaxName {
		return nil, fmt.Errorf("%w: a run or checksum of %d bytes, expected at most %d", wire.ErrDamaged, n, wire.MaxName)
	}
	if p.After > p.Offset || p.Row > 0 && p.After < p.Offset {
		return nil, fmt.Errorf("%w: row %d of offset %d after offset %d", wire.ErrDamaged, p.Row, p.Offset, p.After)
	}
	if p.Lost && (p.Generation == 0 || p.Row > 0) {
		return nil, fmt.Errorf("%w: row %d begins generation %d", wire.ErrDamaged, p.Row, p.Generation)
	}
	if p.Row > p.Until || p.Until > p.Rows {
		return nil, fmt.Errorf("%w: rows %d to %d of %d", wire.ErrDamaged, p.Row, p.Until, p.Rows)
	}
	return p, nil
}

// DecodePrediction decodes a predictions message. The error wraps [wire.ErrDamaged].
func DecodePrediction(m wire.Message, mem memory.Allocator) (*Prediction, error) {
	p, err := PredictionHeader(m)
	if err != nil {
		return nil, err
	}
	record, err := stream.Decode(m.Value, mem, nil)
	if err != nil {
		return nil, err
	}
	defer record.Release()
	empty := predictedBy(record.Schema())
	task, classes, expected := empty.Task, len(empty.Labels), empty.record(mem)
	defer expected.Release()
	if want := expected.Schema(); !record.Schema().Equal(want) {
		return nil, fmt.Errorf("%w: schema %s, expected %s", wire.ErrDamaged, wire.Fingerprint(record.Schema()), wire.Fingerprint(want))
	}
	columns, n := record.Columns(), int(record.NumRows())
	offsets, rows, label := columns[0].(*array.Int64), columns[1].(*array.Int32), columns[2].(*array.Dictionary)
	labels := label.Dictionary().(*array.String)
	if task == examples.Numbers {
		if label.NullN() < n {
			return nil, fmt.Errorf("%w: labels beside numbers", wire.ErrDamaged)
		}
		columns = slices.Concat(columns[:2], columns[3:])
	}
	if wire.Nulls(append(columns, labels)...) > 0 {
		return nil, fmt.Errorf("%w: nulls among predictions", wire.ErrDamaged)
	}
	if labels.Len() != classes {
		return nil, fmt.Errorf("%w: %d labels, and probabilities of %d", wire.ErrDamaged, labels.Len(), classes)
	}
	for i := range labels.Len() {
		p.Labels = append(p.Labels, labels.Value(i))
	}
	if n != p.Until-p.Row {
		return nil, fmt.Errorf("%w: %d predictions of rows %d to %d", wire.ErrDamaged, n, p.Row, p.Until)
	}
	for i := range n {
		if offsets.Value(i) != p.Offset || int(rows.Value(i)) != p.Row+i {
			return nil, fmt.Errorf("%w: row %d of offset %d at place %d, expected row %d of offset %d", wire.ErrDamaged, rows.Value(i),
				offsets.Value(i), i, p.Row+i, p.Offset)
		}
		if task != examples.Numbers {
			p.Classes = append(p.Classes, int32(label.GetValueIndex(i)))
		}
	}
	p.Task = task
	p.Numbers, p.Probabilities = valuesOfRows[float64](record.Column(3), classes), valuesOfRows[float32](record.Column(3), classes)
	if task == examples.SeveralLabels {
		given := record.Column(4).(*array.FixedSizeList)
		first := given.Data().Offset() * classes
		for i := range n * classes {
			p.Given = append(p.Given, given.ListValues().(*array.Boolean).Value(first+i))
		}
	}
	if empty.Contributions != nil {
		texts := record.Column(int(record.NumCols()) - 1).(*array.String)
		p.Contributions = make([]string, n)
		for i := range p.Contributions {
			p.Contributions[i] = strings.Clone(texts.Value(i))
		}
	}
	return p, nil
}

// Scored is the position up to which the messages of a partition have valid predictions. The zero value is the beginning.
//
// Several processes may predict the same messages, with different versions, and each may stop at any time. Each continues
// at the position reached by all of them, according to the topic. So of two predictions of the same row the first is
// valid, and no row is skipped.
//
// If the examples topic loses messages with predictions, for example in an unclean leader election, other messages may get
// their offsets. A new generation of predictions then starts at the first lost message.
type Scored struct {
	Next       int64 // first message without complete predictions. Some offsets before it may have had no message
	Row        int   // its first row without a prediction
	Generation int   // how often messages with predictions were lost
}

// Count applies the next prediction of the partition, and reports whether it is valid.
func (s *Scored) Count(p *Prediction) bool {
	if p.Lost && p.Generation == s.Generation+1 {
		*s = Scored{Next: p.After, Generation: p.Generation}
	}
	if p.After != s.Next || p.Row != s.Row || p.Generation != s.Generation {
		return false
	}
	if s.Next, s.Row = p.Offset, p.Until; s.Row >= p.Rows || p.Reason != "" {
		s.Next, s.Row = p.Offset+1, 0
	}
	return true
}

// Begins returns the position at which a prediction starts. If it starts a generation, only the generation of the position
// is known: the previous one.
func (p *Prediction) Begins() Scored {
	if p.Lost {
		return Scored{Next: math.MaxInt64, Generation: p.Generation - 1}
	}
	return Scored{p.After, p.Row, p.Generation}
}

// ScoredBy returns the position after the last predictions of a partition, given in order from the Seen offset of the last
// one. Without predictions, it is the start of the partition.
//
// A writer starts at the position reached before Seen, and continues from there. So the first prediction of the writers
// with the same Seen as the last one starts there.
func ScoredBy(last []*Prediction) (s Scored) {
	found := false
	for _, p := range last {
		begins := p.Begins()
		order := cmp.Or(cmp.Compare(begins.Generation, s.Generation), cmp.Compare(begins.Next, s.Next), cmp.Compare(begins.Row, s.Row))
		if p.Seen == last[len(last)-1].Seen && (order < 0 || !found) {
			s, found = begins, true
		}
	}
	for _, p := range last {
		s.Count(p)
	}
	return s
}
