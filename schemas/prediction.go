package schemas

import (
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
)

// KindPrediction is the kind of a [Prediction] message.
const KindPrediction Kind = "prediction"

// Prediction is what a version predicts for the rows of one message of examples, or why it can't. With many classes the rows are cut into
// parts, each of which is a message.
type Prediction struct {
	Topic     string // of the message whose rows these are
	Partition int
	Offset    int64
	After     int64  // where predictions have got before this part: there is no message from here to Offset that needs some. See [Scored]
	Checksum  string // of the message, as [MessageChecksum] has it
	Version   int    // that predicts
	Run       string // that made the version
	Reason    string // why the message can't be used; then it has no rows here
	Row       int    // the first row of this part
	Until     int    // the row after its last
	Rows      int    // of all parts
	Seen      int64  // before which offset of this topic the writer had read all that there is
	// Generation is how often the topic of examples has lost messages that had predictions. Lost says that this part is the first of its
	// generation, and that messages from After on were lost.
	Generation int
	Lost       bool

	Task          Task      // what the version predicts
	Labels        []string  // k classes, or the names of the numbers
	Classes       []int32   // of each row of this part: the place of the most probable label among Labels; nil for numbers
	Probabilities []float32 // rows × k: of each label; or the numbers
	Given         []bool    // rows × k: whether the row is given the label; nil unless it may have several
}

// Names of the columns of predictions that say what is predicted.
const (
	columnProbabilities = "probabilities"
	columnNumbers       = "numbers"
	columnGiven         = "given"
)

// predictionSchema returns the Arrow schema of a message of predictions.
func predictionSchema(classes int, task Task) *arrow.Schema {
	fields := []arrow.Field{
		{Name: "offset", Type: arrow.PrimitiveTypes.Int64},
		{Name: "row", Type: arrow.PrimitiveTypes.Int32},
		{Name: "label", Type: predictionLabel(), Nullable: task == Numbers},
		{Name: columnProbabilities, Type: arrow.FixedSizeListOf(int32(classes), arrow.PrimitiveTypes.Float32)},
	}
	switch task {
	case SeveralLabels:
		fields = append(fields, arrow.Field{Name: columnGiven, Type: arrow.FixedSizeListOf(int32(classes), arrow.FixedWidthTypes.Boolean)})
	case Numbers:
		fields[3].Name = columnNumbers
	}
	return arrow.NewSchema(fields, nil)
}

// predictedBy returns what a message of predictions predicts, of how many classes, by its schema; those of one label if it is another message.
func predictedBy(schema *arrow.Schema) (task Task, classes int) {
	for _, field := range schema.Fields() {
		if list, ok := field.Type.(*arrow.FixedSizeListType); ok {
			classes = int(list.Len())
		}
		switch field.Name {
		case columnGiven:
			task = SeveralLabels
		case columnNumbers:
			task = Numbers
		}
	}
	return task, classes
}

// predictionLabel is the type of labels: its dictionary has all classes, in the order of the probabilities.
func predictionLabel() *arrow.DictionaryType {
	return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
}

// Encode encodes the message. It panics if Classes, Probabilities or Given has other rows than the part, or other columns than Labels. It returns an error if the
// value exceeds [MaxMessage], as it may with more rows than [MaxPredictionRows].
func (p *Prediction) Encode(mem memory.Allocator) (Message, error) {
	n, classes, given := p.Until-p.Row, p.Until-p.Row, 0
	switch p.Task {
	case SeveralLabels:
		given = n * len(p.Labels)
	case Numbers:
		classes = 0
	}
	if len(p.Classes) != classes || len(p.Probabilities) != n*len(p.Labels) || len(p.Given) != given {
		panic(fmt.Sprintf("schemas: %d predictions, %d probabilities and %d given labels of rows %d to %d and %d classes",
			len(p.Classes), len(p.Probabilities), len(p.Given), p.Row, p.Until, len(p.Labels)))
	}
	record := p.record(mem)
	defer record.Release()
	value, err := stream.Encode(record, mem)
	if err == nil && len(value) > MaxMessage {
		err = fmt.Errorf("%d rows of %d classes take %d bytes with the labels, expected at most %d", n, len(p.Labels), len(value), MaxMessage)
	}
	if err != nil {
		return Message{}, fmt.Errorf("encode predictions of %s[%d]@%d: %w", p.Topic, p.Partition, p.Offset, err)
	}
	partition, offset, row := strconv.Itoa(p.Partition), strconv.FormatInt(p.Offset, 10), strconv.Itoa(p.Row)
	headers := []Header{
		{"kind", string(KindPrediction)}, {"topic", p.Topic}, {"partition", partition}, {"offset", offset},
		{"after", strconv.FormatInt(p.After, 10)}, {"checksum", p.Checksum},
		{"version", strconv.Itoa(p.Version)}, {"run", p.Run}, {"row", row}, {"until", strconv.Itoa(p.Until)}, {"rows", strconv.Itoa(p.Rows)},
		{"seen", strconv.FormatInt(p.Seen, 10)}, {"schema", fingerprint(record.Schema())},
	}
	if p.Reason != "" {
		headers = append(headers, Header{"reason", p.Reason})
	}
	if p.Generation > 0 {
		headers = append(headers, Header{"generation", strconv.Itoa(p.Generation)})
	}
	if p.Lost {
		headers = append(headers, Header{"lost", "true"})
	}
	return Message{Key: p.Topic + "/" + partition + "/" + offset + "/" + row, Headers: headers, Value: value}, nil
}

// record makes the Arrow record. The caller releases it.
func (p *Prediction) record(mem memory.Allocator) arrow.Record {
	offsets, rows, indices := array.NewInt64Builder(mem), array.NewInt32Builder(mem), array.NewInt32Builder(mem)
	labels, lists := array.NewStringBuilder(mem), array.NewFixedSizeListBuilder(mem, int32(len(p.Labels)), arrow.PrimitiveTypes.Float32)
	given := array.NewFixedSizeListBuilder(mem, int32(len(p.Labels)), arrow.FixedWidthTypes.Boolean)
	builders := []array.Builder{offsets, rows, indices, labels, lists, given}
	for _, b := range builders {
		defer b.Release()
	}
	n := p.Until - p.Row
	for i := range n {
		offsets.Append(p.Offset)
		rows.Append(int32(p.Row + i))
		lists.Append(true)
		given.Append(true)
	}
	indices.AppendValues(p.Classes, nil)
	if p.Task == Numbers {
		indices.AppendNulls(n)
	}
	labels.AppendValues(p.Labels, nil)
	lists.ValueBuilder().(*array.Float32Builder).AppendValues(p.Probabilities, nil)
	given.ValueBuilder().(*array.BooleanBuilder).AppendValues(p.Given, nil)
	if p.Task != SeveralLabels {
		builders = builders[:5]
	}
	var columns []arrow.Array
	for _, b := range builders {
		column := b.NewArray()
		defer column.Release()
		columns = append(columns, column)
	}
	label := array.NewDictionaryArray(predictionLabel(), columns[2], columns[3])
	defer label.Release()
	fields := append([]arrow.Array{columns[0], columns[1], label}, columns[4:]...)
	return array.NewRecord(predictionSchema(len(p.Labels), p.Task), fields, int64(n))
}

// MaxPredictionRows returns how many rows fit a message, at least 1, given the classes.
func MaxPredictionRows(labels []string) int {
	left := MaxMessage - 8<<10
	for _, label := range labels {
		left -= len(label) + 4
	}
	return max(1, left/(16+4*len(labels)))
}

// MaxSeveralRows is [MaxPredictionRows] for rows that may have several labels.
func MaxSeveralRows(labels []string) int {
	return max(1, MaxPredictionRows(labels)*(16+4*len(labels))/(17+4*len(labels)+(len(labels)+7)/8))
}

// PredictionHeader reads the headers of a message of predictions, and none of its values. An error wraps [ErrDamaged].
func PredictionHeader(m Message) (*Prediction, error) {
	if m.Kind() != KindPrediction {
		return nil, fmt.Errorf("%w: kind %s, expected %q", ErrDamaged, stream.Quote(string(m.Kind())), KindPrediction)
	}
	p := &Prediction{Topic: m.Get("topic"), Checksum: m.Get("checksum"), Run: m.Run(), Reason: m.Get("reason")}
	if n := max(len(p.Checksum), len(p.Run)); n > maxName {
		return nil, fmt.Errorf("%w: a run or checksum of %d bytes, expected at most %d", ErrDamaged, n, maxName)
	}
	var offset, after, seen int
	numbers := map[string]*int{"partition": &p.Partition, "offset": &offset, "version": &p.Version, "row": &p.Row, "until": &p.Until, "rows": &p.Rows, "after": &after, "seen": &seen}
	if m.Get("generation") != "" {
		numbers["generation"] = &p.Generation
	}
	for key, to := range numbers {
		n, err := m.number(key)
		if err != nil {
			return nil, err
		}
		if n < 0 {
			return nil, fmt.Errorf("%w: header %s is %d, expected at least 0", ErrDamaged, key, n)
		}
		*to = n
	}
	p.Offset, p.After, p.Seen = int64(offset), int64(after), int64(seen)
	if p.After > p.Offset || p.Row > 0 && p.After < p.Offset {
		return nil, fmt.Errorf("%w: row %d of offset %d after offset %d", ErrDamaged, p.Row, p.Offset, p.After)
	}
	if p.Lost = m.Get("lost") != ""; p.Lost && (p.Generation == 0 || p.Row > 0) {
		return nil, fmt.Errorf("%w: row %d begins generation %d", ErrDamaged, p.Row, p.Generation)
	}
	if p.Row > p.Until || p.Until > p.Rows {
		return nil, fmt.Errorf("%w: rows %d to %d of %d", ErrDamaged, p.Row, p.Until, p.Rows)
	}
	return p, nil
}

// DecodePrediction decodes a message of predictions. An error wraps [ErrDamaged].
func DecodePrediction(m Message, mem memory.Allocator) (*Prediction, error) {
	p, err := PredictionHeader(m)
	if err != nil {
		return nil, err
	}
	record, err := stream.Decode(m.Value, mem, nil)
	if err != nil {
		return nil, err
	}
	defer record.Release()
	task, classes := predictedBy(record.Schema())
	if want := predictionSchema(classes, task); !record.Schema().Equal(want) {
		return nil, fmt.Errorf("%w: schema %s, expected %s", ErrDamaged, fingerprint(record.Schema()), fingerprint(want))
	}
	lists := record.Column(3).(*array.FixedSizeList)
	offsets, rows := record.Column(0).(*array.Int64), record.Column(1).(*array.Int32)
	label, values := record.Column(2).(*array.Dictionary), lists.ListValues().(*array.Float32)
	labels, n := label.Dictionary().(*array.String), int(record.NumRows())
	nulls := offsets.NullN() + rows.NullN() + labels.NullN() + lists.NullN() + values.NullN()
	if task != Numbers {
		nulls += label.NullN()
	} else if label.NullN() < n {
		return nil, fmt.Errorf("%w: labels beside numbers", ErrDamaged)
	}
	if nulls > 0 {
		return nil, fmt.Errorf("%w: nulls among predictions", ErrDamaged)
	}
	if labels.Len() != classes {
		return nil, fmt.Errorf("%w: %d labels, and probabilities of %d", ErrDamaged, labels.Len(), classes)
	}
	for i := range labels.Len() {
		p.Labels = append(p.Labels, labels.Value(i))
	}
	if n != p.Until-p.Row {
		return nil, fmt.Errorf("%w: %d predictions of rows %d to %d", ErrDamaged, n, p.Row, p.Until)
	}
	for i := range n {
		if offsets.Value(i) != p.Offset || int(rows.Value(i)) != p.Row+i {
			return nil, fmt.Errorf("%w: row %d of offset %d at place %d, expected row %d of offset %d", ErrDamaged, rows.Value(i), offsets.Value(i), i, p.Row+i, p.Offset)
		}
		if task != Numbers {
			p.Classes = append(p.Classes, int32(label.GetValueIndex(i)))
		}
	}
	p.Task = task
	if task == SeveralLabels {
		if err := p.takeGiven(record.Column(4).(*array.FixedSizeList), n, classes); err != nil {
			return nil, err
		}
	}
	first := lists.Data().Offset() * classes
	p.Probabilities = append([]float32(nil), values.Float32Values()[first:first+n*classes]...)
	return p, nil
}

// takeGiven reads which labels rows are given.
func (p *Prediction) takeGiven(lists *array.FixedSizeList, n, classes int) error {
	values := lists.ListValues().(*array.Boolean)
	if lists.NullN()+values.NullN() > 0 {
		return fmt.Errorf("%w: nulls among the given labels", ErrDamaged)
	}
	first := lists.Data().Offset() * classes
	for i := range n * classes {
		p.Given = append(p.Given, values.Value(first+i))
	}
	return nil
}

// MessageChecksum returns the CRC-32C of a value and the time of its message in milliseconds, by which the message is recognised.
func MessageChecksum(value []byte, milliseconds int64) string {
	return fmt.Sprintf("%08x-%x", crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli)), milliseconds)
}
