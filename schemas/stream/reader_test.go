package stream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// readAll returns the rows of all batches as text.
func readAll(from io.Reader, mem *arrowtest.Meter) (text string, err error) {
	r, err := NewReader(from, false, mem)
	if err != nil {
		return "", err
	}
	defer r.Close()
	for {
		record, err := r.Next(func(int) bool { return true })
		if err == io.EOF {
			return text, nil
		}
		if err != nil {
			return text, err
		}
		text += fmt.Sprintln(record.Columns())
		record.Release()
	}
}

// A reader returns all batches, whether their buffers are compressed or not, and also if dictionaries grow between them.
func TestReader(t *testing.T) {
	mem := arrowtest.NewMeter()
	category := field("label", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String})
	schema := arrow.NewSchema([]arrow.Field{field("features", lists(2)), category}, nil)
	var want string
	var records []arrow.Record
	for _, rows := range []string{`[{"features":[1,2],"label":"a"}]`,
		`[{"features":[3,4],"label":"a"},{"features":[5,6],"label":"b"}]`, "[]"} {
		record, _, err := array.RecordFromJSON(mem, schema, strings.NewReader(rows))
		arrowtest.NoError(t, err)
		defer record.Release()
		records = append(records, record)
		want += fmt.Sprintln(record.Columns())
	}
	for _, options := range [][]ipc.Option{nil, {ipc.WithZstd()}, {ipc.WithLZ4()}, {ipc.WithDictionaryDeltas(true)}} {
		var stream bytes.Buffer
		w := ipc.NewWriter(&stream, append(options, ipc.WithSchema(schema), ipc.WithAllocator(mem))...)
		for _, record := range records {
			arrowtest.NoError(t, w.Write(record))
		}
		arrowtest.NoError(t, w.Close())
		if got, err := readAll(bytes.NewReader(stream.Bytes()), mem); err != nil || got != want {
			t.Errorf("%s, error %v, expected %s", got, err, want)
		}
		for n := range stream.Len() - 1 {
			if _, err := readAll(bytes.NewReader(stream.Bytes()[:n]), mem); !errors.Is(err, ErrDamaged) {
				t.Fatalf("cut at byte %d: %v", n, err)
			}
		}
	}
}

// What no message may be, no file may be either, except for many batches, compressed ones, and a limit of 1 GiB in place of four times
// the bytes.
func TestReaderRefusesHostileStreams(t *testing.T) {
	allowed := []string{"two-batches", "zstd-bomb", "lz4-bomb", "dictionary-twice", "dictionary-after-the-batch",
		"no-batch", "one-body-300-times"}
	for _, c := range hostile(t) {
		mem := arrowtest.NewMeter()
		if _, err := readAll(bytes.NewReader(c.value), mem); errors.Is(err, ErrDamaged) == slices.Contains(allowed, c.name) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A file that does not begin with its schema, as Polars writes it, is an error that says what to write instead.
func TestFileWithoutItsSchemaInFront(t *testing.T) {
	var file bytes.Buffer
	w := ipc.NewWriter(&file, ipc.WithSchema(arrow.NewSchema([]arrow.Field{field("x", arrow.PrimitiveTypes.Int8)}, nil)))
	arrowtest.NoError(t, w.Close())
	message := file.Bytes()[8:] // without the mark and the length
	if _, err := NewReader(bytes.NewReader(message), true, arrowtest.NewMeter()); !errors.Is(err, ErrDamaged) ||
		!strings.Contains(err.Error(), "write it as Parquet") {
		t.Errorf("got %v, expected what to write instead", err)
	}
}
