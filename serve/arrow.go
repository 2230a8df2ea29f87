package serve

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// The metadata keys in a response's schema for the version, and for the labels as JSON if requested.
const (
	metadataVersion = "stagewise.version"
	metadataClasses = "stagewise.classes"
)

// arrowAnswer is an answer as an Arrow stream: the column label, and the column probabilities, a list of the classes in
// order, or top, a list of the most probable labels with their probabilities; for multi-label tasks the column labels, a
// list of the row's labels, in place of label; in regression the column predictions, a list of float64 in target order.
// Labels are int64 if all of them are integers. The last column is contributions, if asked for: texts of JSON.
type arrowAnswer struct {
	*version
	asked
	schema   *arrow.Schema
	stream   text // output of the writer
	writer   *ipc.Writer
	builder  *array.RecordBuilder
	rows     int  // in the builder
	rowBytes int  // approximate size of a row, without contributions
	texts    int  // bytes of contributions in the builder
	written  bool // a batch was written
}

func newArrowAnswer(v *version, asks asked) *arrowAnswer {
	keys, values := []string{metadataVersion}, []string{strconv.Itoa(v.Manifest.Version)}
	if asks.classes {
		classes, _ := json.Marshal(v.quoted) // which is JSON
		keys, values = append(keys, metadataClasses), append(values, string(classes))
	}
	metadata := arrow.NewMetadata(keys, values)
	k, label := int32(len(v.Labels())), arrow.DataType(arrow.BinaryTypes.String)
	if v.wholeNumbers != nil {
		label = arrow.PrimitiveTypes.Int64
	}
	fields := []arrow.Field{{Name: "label", Type: label},
		{Name: "probabilities", Type: arrow.FixedSizeListOf(k, arrow.PrimitiveTypes.Float32)}}
	if v.givesSeveral() {
		fields[0] = arrow.Field{Name: "labels", Type: arrow.ListOf(label)}
	}
	if asks.top > 0 {
		probable := arrow.StructOf(arrow.Field{Name: "label", Type: label}, arrow.Field{Name: "probability", Type: arrow.PrimitiveTypes.Float32})
		fields[1] = arrow.Field{Name: "top", Type: arrow.ListOf(probable)}
	}
	if v.predictsNumbers() {
		fields = []arrow.Field{{Name: "predictions", Type: arrow.FixedSizeListOf(k, arrow.PrimitiveTypes.Float64)}}
	}
	valueBytes := 4
	if asks.top > 0 || v.predictsNumbers() {
		valueBytes = 8 // a label and its probability, or a float64
	}
	if asks.contributions > 0 {
		fields = append(fields, arrow.Field{Name: "contributions", Type: arrow.BinaryTypes.String})
	}
	a := &arrowAnswer{version: v, asked: asks, schema: arrow.NewSchema(fields, &metadata),
		rowBytes: 8 + valueBytes*asks.values(v)}
	a.writer = ipc.NewWriter(a, ipc.WithSchema(a.schema))
	a.builder = array.NewRecordBuilder(memory.DefaultAllocator, a.schema)
	return a
}

func (a *arrowAnswer) kept() int { return a.rows*a.rowBytes + a.texts }

func (a *arrowAnswer) size() int { return a.stream.bytes + a.kept() }

// batchBytes is the approximate size of a batch.
const batchBytes = 512 << 10

// Write adds output of the writer.
func (a *arrowAnswer) Write(p []byte) (int, error) {
	a.stream.add(func(dst []byte) []byte { return append(dst, p...) })
	return len(p), nil
}

// add adds the next row to the builder, and writes a batch once it is large enough.
func (a *arrowAnswer) add(row *predictedRow) error {
	if !a.predictsNumbers() {
		a.addLabels(row.given)
	}
	last := a.schema.NumFields() - 1
	if a.contributions > 0 {
		a.builder.Field(last).(*array.StringBuilder).Append(row.contributions)
		a.texts += len(row.contributions)
		last--
	}
	switch lists := a.builder.Field(last).(type) {
	case *array.ListBuilder:
		a.addTop(lists, row)
	case *array.FixedSizeListBuilder:
		lists.Append(true)
		switch values := lists.ValueBuilder().(type) {
		case *array.Float64Builder:
			values.AppendValues(row.numbers, nil)
		case *array.Float32Builder:
			values.AppendValues(row.probabilities, nil)
		}
	}
	if a.rows++; a.kept() < batchBytes {
		return nil
	}
	return a.batch()
}

// addLabels adds the label or labels of a row to the builder.
func (a *arrowAnswer) addLabels(given []int32) {
	to := a.builder.Field(0)
	if lists, ok := to.(*array.ListBuilder); ok {
		lists.Append(true)
		to = lists.ValueBuilder()
	}
	for _, class := range given {
		a.addLabel(to, int(class))
	}
}

// addLabel adds a label to an integer or text column.
func (a *arrowAnswer) addLabel(to array.Builder, class int) {
	if a.wholeNumbers != nil {
		to.(*array.Int64Builder).Append(a.wholeNumbers[class])
		return
	}
	to.(*array.StringBuilder).Append(a.Labels()[class])
}

// addTop adds the most probable labels of a row to the builder.
func (a *arrowAnswer) addTop(lists *array.ListBuilder, row *predictedRow) {
	lists.Append(true)
	probable := lists.ValueBuilder().(*array.StructBuilder)
	for _, c := range row.top {
		probable.Append(true)
		a.addLabel(probable.FieldBuilder(0), int(c))
		probable.FieldBuilder(1).(*array.Float32Builder).Append(row.probabilities[c])
	}
}

// batch writes the rows of the builder as a batch.
func (a *arrowAnswer) batch() error {
	record := a.builder.NewRecord()
	defer record.Release()
	a.rows, a.texts, a.written = 0, 0, true
	return a.writer.Write(record)
}

// whole implements encoder: it writes the last batch, empty if there are no rows at all, and the end of the stream.
func (a *arrowAnswer) whole() (pieces [][]byte, err error) {
	defer a.builder.Release()
	if a.rows > 0 || !a.written {
		err = a.batch()
	}
	if err == nil {
		err = a.writer.Close()
	}
	return a.stream.pieces, err
}

func (a *arrowAnswer) announce(h http.Header) { h.Set("Content-Type", typeArrow) }
