package schemas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/endian"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	flatbuffers "github.com/google/flatbuffers/go"
)

// schemaStream is the first message of a stream: a schema of one field, which
// has one child, and then what damage makes of it. It is told where the field,
// and the vector of its children, are.
func schemaStream(damage func(meta []byte, field, children int)) []byte {
	b := flatbuffers.NewBuilder(256)
	text := b.CreateString("f")
	list := func() flatbuffers.UOffsetT { b.StartObject(0); return b.EndObject() }
	field := func(children flatbuffers.UOffsetT) flatbuffers.UOffsetT {
		kind := list()
		b.StartObject(7)
		b.PrependUOffsetTSlot(0, text, 0)
		b.PrependByteSlot(2, 12, 0) // List
		b.PrependUOffsetTSlot(3, kind, 0)
		b.PrependUOffsetTSlot(5, children, 0)
		return b.EndObject()
	}
	vector := func(of flatbuffers.UOffsetT) flatbuffers.UOffsetT {
		b.StartVector(4, 1, 4)
		b.PrependUOffsetT(of)
		return b.EndVector(1)
	}
	children := vector(field(0))
	parent := field(children)
	fields := vector(parent)
	b.StartObject(4)
	b.PrependUOffsetTSlot(1, fields, 0)
	schema := b.EndObject()
	b.StartObject(5)
	b.PrependInt16Slot(0, 4, 0)
	b.PrependByteSlot(1, tagSchema, 0)
	b.PrependUOffsetTSlot(2, schema, 0)
	b.Finish(b.EndObject())
	meta := b.FinishedBytes()
	damage(meta, len(meta)-int(parent), len(meta)-int(children))
	stream := binary.LittleEndian.AppendUint32(nil, continuation)
	return append(binary.LittleEndian.AppendUint32(stream, uint32(len(meta))), meta...)
}

// Without the checks before arrow some of these end the process, by recursion or
// for want of memory, and others are read as if nothing were wrong.
func TestHostileStreams(t *testing.T) {
	put := binary.LittleEndian.PutUint32
	f32 := arrow.PrimitiveTypes.Float32
	deep := arrow.DataType(f32)
	for range 20 {
		deep = arrow.ListOf(deep)
	}
	plain := fromJSON(t, checked(t), `[{"features":[1,2]}]`, list(2, f32))
	written := func(schema *arrow.Schema, batches int, options ...ipc.Option) []byte {
		mem := checked(t)
		var stream bytes.Buffer
		w := ipc.NewWriter(&stream, append(options, ipc.WithSchema(schema), ipc.WithAllocator(mem))...)
		for range batches {
			record := (&ExampleRows{Rows: 64, Cols: 2, Floats: make([]float32, 128)}).Record(mem)
			if err := w.Write(record); err != nil {
				t.Fatal(err)
			}
			record.Release()
		}
		w.Close()
		return stream.Bytes()
	}
	mem := checked(t)
	record := (&ExampleRows{Rows: 1, Cols: 2, Floats: make([]float32, 2)}).Record(mem)
	schema := record.Schema()
	record.Release()
	for _, c := range []struct {
		name  string
		value []byte
		want  string
	}{
		{"nothing", nil, "EOF"},
		{"text", []byte("hello, world"), "bytes announced, 8 left"},
		{"a field within itself", schemaStream(func(meta []byte, field, children int) {
			put(meta[children+4:], uint32(field-children-4)) // backwards: the sum wraps
		}), "a schema of more than"},
		{"2³¹ children", schemaStream(func(meta []byte, _, children int) { put(meta[children:], 1<<31) }), "a vector of 2147483648 elements"},
		{"children out of bounds", schemaStream(func(meta []byte, _, children int) { put(meta[children+4:], 1<<30) }), "slice bounds out of range"},
		{"20 deep", written(arrow.NewSchema([]arrow.Field{field("x", deep)}, nil), 0), "a schema of more than 4096 fields, or more than 16 deep"},
		{"union", written(arrow.NewSchema([]arrow.Field{field("x", arrow.SparseUnionOf([]arrow.Field{field("y", f32)}, []arrow.UnionTypeCode{0}))}, nil), 0), `column "x": unions`},
		{"view", written(arrow.NewSchema([]arrow.Field{field("x", arrow.BinaryTypes.StringView)}, nil), 0), `column "x": unions, views`},
		{"big-endian", written(arrow.NewSchemaWithEndian(schema.Fields(), nil, endian.BigEndian), 0), "a big-endian Arrow stream"},
		{"zstd", written(schema, 1, ipc.WithZstd()), "a compressed record batch"},
		{"lz4", written(schema, 1, ipc.WithLZ4()), "a compressed record batch"},
		{"no batch", written(schema, 0), "an Arrow stream without a record batch"},
		{"two batches", written(schema, 2), "an Arrow stream of several record batches"},
		{"more after the end", append(bytes.Clone(plain), 0), "1 bytes after the end of an Arrow stream"},
	} {
		mem := meter()
		_, err := DecodeExamples(c.value, mem)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", c.name, err, c.want)
		}
		mem.harmless(t, len(c.value), err)
	}
	// numbers that the batch claims: every 8 bytes of its metadata in turn are 2⁴⁰
	for _, claim := range []uint64{1 << 40, 1 << 62, 1<<64 - 1} {
		for at := 0; at+8 <= len(plain); at += 4 {
			value := bytes.Clone(plain)
			binary.LittleEndian.PutUint64(value[at:], claim)
			mem := meter()
			e, err := DecodeExamples(value, mem)
			if err == nil {
				e.Release()
			}
			mem.harmless(t, len(value), err)
		}
	}
}
