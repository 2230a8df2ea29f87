package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// foreign is a configuration of a run on what other producers write.
const foreign = `name: foreign
examples: {partitions: 1}
stages: [{features: {kind: columns}, passes: 3}]
`

// arrowStream returns rows, in JSON, as a stream of Arrow.
func arrowStream(t *testing.T, rows string, fields ...arrow.Field) []byte {
	t.Helper()
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	noError(t, err)
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, ipc.WithSchema(record.Schema()))
	noError(t, w.Write(record))
	noError(t, w.Close())
	return stream.Bytes()
}

// producedJSON puts a message with these rows, in JSON, onto the examples topic of foreign.yaml.
func producedJSON(t *testing.T, rows string, fields ...arrow.Field) {
	t.Helper()
	value := arrowStream(t, rows, fields...)
	typed(t, exitDone, "topics", "create", "-c", "foreign.yaml")
	log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"}))(t)
	defer log.Close()
	valueOf(log.Append(t.Context(), "foreign.examples", 0, kafkalog.Message{Value: value}))(t)
}
