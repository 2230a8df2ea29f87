// Producer writes examples to the examples topic of a pipeline, as a service does that has them.
package main

import (
	"bytes"
	"context"
	"flag"
	"log"
	"math/rand/v2"
	"strings"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/segmentio/kafka-go"
)

type example struct {
	length, width float32
	label         string
}

// schema says what a message has. stagewise.columns names the features.
func schema() *arrow.Schema {
	names := arrow.NewMetadata([]string{"stagewise.columns"}, []string{`["length", "width"]`})
	return arrow.NewSchema([]arrow.Field{
		{Name: "features", Type: arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32)},
		{Name: "label", Type: arrow.BinaryTypes.String},
	}, &names)
}

// encode returns examples as the value of a message: an Arrow stream of one batch.
func encode(examples []example) ([]byte, error) {
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema())
	defer b.Release()
	lists, labels := b.Field(0).(*array.FixedSizeListBuilder), b.Field(1).(*array.StringBuilder)
	features := lists.ValueBuilder().(*array.Float32Builder)
	for _, e := range examples {
		lists.Append(true)
		features.AppendValues([]float32{e.length, e.width}, nil) // AppendNull is a missing value
		labels.Append(e.label)
	}
	record := b.NewRecord()
	defer record.Release()
	var value bytes.Buffer
	w := ipc.NewWriter(&value, ipc.WithSchema(record.Schema()))
	if err := w.Write(record); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return value.Bytes(), nil
}

func main() {
	brokers := flag.String("brokers", "localhost:9092", "addresses of the brokers, with commas between them")
	topic := flag.String("topic", "orchard.examples", "the examples topic")
	flag.Parse()

	// Without RequireAll a broker that dies loses examples. A batch of the client is one request, of at most 1 MiB.
	w := &kafka.Writer{Addr: kafka.TCP(strings.Split(*brokers, ",")...), Topic: *topic, RequiredAcks: kafka.RequireAll, BatchBytes: 1 << 20}
	var messages []kafka.Message
	for range 3 {
		var examples []example
		for range 50 {
			a, b := rand.Float32(), rand.Float32()
			examples = append(examples, example{6 + a, 7 + b, "apple"}, example{8 + a, 5 + b, "pear"})
		}
		value, err := encode(examples)
		if err != nil {
			log.Fatal(err)
		}
		messages = append(messages, kafka.Message{Value: value})
	}
	if err := w.WriteMessages(context.Background(), messages...); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
}
