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

	Labels        []string  // k classes
	Classes       []int32   // of each row of this part: the place of the most probable label among Labels
	Probabilities []float32 // rows × k: of each label
}

// predictionSchema returns the Arrow schema of a message of predictions.
func predictionSchema(classes int) *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		{Name: "offset", Type: arrow.PrimitiveTypes.Int64},
		{Name: "row", Type: arrow.PrimitiveTypes.Int32},
		{Name: "label", Type: predictionLabel()},
		{Name: "probabilities", Type: arrow.FixedSizeListOf(int32(classes), arrow.PrimitiveTypes.Float32)},
	}, nil)
}

// predictionLabel is the type of labels: its dictionary has all classes, in the order of the probabilities.
func predictionLabel() *arrow.DictionaryType {
	return &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
}

// Encode encodes the message. It panics if Classes or Probabilities has other rows than the part, or other columns than Labels. It returns an error if the
// value exceeds [MaxMessage], as it may with more rows than [MaxPredictionRows].
func (p *Prediction) Encode(mem memory.Allocator) (Message, error) {
	if len(p.Classes) != p.Until-p.Row || len(p.Probabilities) != len(p.Classes)*len(p.Labels) {
		panic(fmt.Sprintf("schemas: %d predictions and %d probabilities of rows %d to %d and %d classes", len(p.Classes), len(p.Probabilities), p.Row, p.Until, len(p.Labels)))
	}
	record := p.record(mem)
	defer record.Release()
	value, err := stream.Encode(record, mem)
	if err == nil && len(value) > MaxMessage {
		err = fmt.Errorf("%d rows of %d classes take %d bytes with the labels, expected at most %d", len(p.Classes), len(p.Labels), len(value), MaxMessage)
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
	return Message{Key: p.Topic + "/" + partition + "/" + offset + "/" + row, Headers: headers, Value: value}, nil
}

// record makes the Arrow record. The caller releases it.
func (p *Prediction) record(mem memory.Allocator) arrow.Record {
	offsets, rows, indices := array.NewInt64Builder(mem), array.NewInt32Builder(mem), array.NewInt32Builder(mem)
	labels, lists := array.NewStringBuilder(mem), array.NewFixedSizeListBuilder(mem, int32(len(p.Labels)), arrow.PrimitiveTypes.Float32)
	builders := []array.Builder{offsets, rows, indices, labels, lists}
	for _, b := range builders {
		defer b.Release()
	}
	for i := range p.Classes {
		offsets.Append(p.Offset)
		rows.Append(int32(p.Row + i))
		lists.Append(true)
	}
	indices.AppendValues(p.Classes, nil)
	labels.AppendValues(p.Labels, nil)
	lists.ValueBuilder().(*array.Float32Builder).AppendValues(p.Probabilities, nil)
	var columns []arrow.Array
	for _, b := range builders {
		column := b.NewArray()
		defer column.Release()
		columns = append(columns, column)
	}
	label := array.NewDictionaryArray(predictionLabel(), columns[2], columns[3])
	defer label.Release()
	return array.NewRecord(predictionSchema(len(p.Labels)), []arrow.Array{columns[0], columns[1], label, columns[4]}, int64(len(p.Classes)))
}

// MaxPredictionRows returns how many rows fit a message, at least 1, given the classes.
func MaxPredictionRows(labels []string) int {
	left := MaxMessage - 8<<10
	for _, label := range labels {
		left -= len(label) + 4
	}
	return max(1, left/(16+4*len(labels)))
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
	for key, to := range map[string]*int{"partition": &p.Partition, "offset": &offset, "version": &p.Version, "row": &p.Row, "until": &p.Until, "rows": &p.Rows, "after": &after, "seen": &seen} {
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
	classes := 0
	if fields := record.Schema().Fields(); len(fields) > 0 {
		if list, ok := fields[len(fields)-1].Type.(*arrow.FixedSizeListType); ok {
			classes = int(list.Len())
		}
	}
	if want := predictionSchema(classes); !record.Schema().Equal(want) {
		return nil, fmt.Errorf("%w: schema %s, expected %s", ErrDamaged, fingerprint(record.Schema()), fingerprint(want))
	}
	lists := record.Column(3).(*array.FixedSizeList)
	offsets, rows := record.Column(0).(*array.Int64), record.Column(1).(*array.Int32)
	label, values := record.Column(2).(*array.Dictionary), lists.ListValues().(*array.Float32)
	labels := label.Dictionary().(*array.String)
	if offsets.NullN()+rows.NullN()+label.NullN()+labels.NullN()+lists.NullN()+values.NullN() > 0 {
		return nil, fmt.Errorf("%w: nulls among predictions", ErrDamaged)
	}
	if labels.Len() != classes {
		return nil, fmt.Errorf("%w: %d labels, and probabilities of %d", ErrDamaged, labels.Len(), classes)
	}
	for i := range labels.Len() {
		p.Labels = append(p.Labels, labels.Value(i))
	}
	n := int(record.NumRows())
	if n != p.Until-p.Row {
		return nil, fmt.Errorf("%w: %d predictions of rows %d to %d", ErrDamaged, n, p.Row, p.Until)
	}
	for i := range n {
		if offsets.Value(i) != p.Offset || int(rows.Value(i)) != p.Row+i {
			return nil, fmt.Errorf("%w: row %d of offset %d at place %d, expected row %d of offset %d", ErrDamaged, rows.Value(i), offsets.Value(i), i, p.Row+i, p.Offset)
		}
		p.Classes = append(p.Classes, int32(label.GetValueIndex(i)))
	}
	first := lists.Data().Offset() * classes
	p.Probabilities = append([]float32(nil), values.Float32Values()[first:first+n*classes]...)
	return p, nil
}

// MessageChecksum returns the CRC-32C of a value and the time of its message in milliseconds, by which the message is recognised.
func MessageChecksum(value []byte, milliseconds int64) string {
	return fmt.Sprintf("%08x-%x", crc32.Checksum(value, crc32.MakeTable(crc32.Castagnoli)), milliseconds)
}
