package serve

import (
	"bytes"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// metadataVersion is the key in the metadata of an answer's schema that has the version.
const metadataVersion = "stagewise.version"

// arrow returns the answer to rows as a stream of Arrow: the column label, and the column probabilities, a list of the classes in order; of several labels a row
// the column labels, a list of those that a row is given, in place of label; of numbers the column predictions, a list of them in the order of the targets.
func (p *predictions) arrow(labels []string) ([]byte, error) {
	metadata := arrow.NewMetadata([]string{metadataVersion}, []string{strconv.Itoa(p.version)})
	list := arrow.FixedSizeListOf(int32(len(labels)), arrow.PrimitiveTypes.Float32)
	fields := []arrow.Field{{Name: "label", Type: arrow.BinaryTypes.String}, {Name: "probabilities", Type: list}}
	if p.given != nil {
		fields[0] = arrow.Field{Name: "labels", Type: arrow.ListOf(arrow.BinaryTypes.String)}
	}
	if p.numbers {
		fields = []arrow.Field{{Name: "predictions", Type: list}}
	}
	schema := arrow.NewSchema(fields, &metadata)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	lists := b.Field(len(fields) - 1).(*array.FixedSizeListBuilder)
	lists.Reserve(len(p.classes))
	for i, class := range p.classes {
		switch {
		case p.given != nil:
			given := b.Field(0).(*array.ListBuilder)
			given.Append(true)
			given.ValueBuilder().(*array.StringBuilder).AppendValues(p.given(p.probabilities[i*len(labels):(i+1)*len(labels)]), nil)
		case !p.numbers:
			b.Field(0).(*array.StringBuilder).Append(labels[class])
		}
		lists.Append(true)
	}
	lists.ValueBuilder().(*array.Float32Builder).AppendValues(p.probabilities, nil)
	record := b.NewRecord()
	defer record.Release()
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, ipc.WithSchema(schema))
	if err := w.Write(record); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return stream.Bytes(), nil
}
