package schemas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/endian"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	flatbuffers "github.com/google/flatbuffers/go"
)

// hostileSchema is the first message of a stream: a schema that refers so many
// times to the same field, of nothing but nulls, which refers so many times to the
// same pair of texts. With damage the field is of lists and has one child, and
// damage is told where it, and the vector of its children, are.
func hostileSchema(fields, pairs int, damage func(meta []byte, field, children int)) []byte {
	b := flatbuffers.NewBuilder(256)
	text, empty := b.CreateString("f"), b.CreateString("")
	table := func(slots int, fill func()) flatbuffers.UOffsetT {
		b.StartObject(slots)
		fill()
		return b.EndObject()
	}
	vector := func(n int, of flatbuffers.UOffsetT) flatbuffers.UOffsetT {
		b.StartVector(sizeOffset, n, sizeOffset)
		for range n {
			b.PrependUOffsetT(of)
		}
		return b.EndVector(n)
	}
	pair := table(2, func() {
		b.PrependUOffsetTSlot(0, empty, 0)
		b.PrependUOffsetTSlot(1, empty, 0)
	})
	metadata := vector(pairs, pair)
	const tagNull, tagList = 1, 12
	field := func(tag byte, children flatbuffers.UOffsetT) flatbuffers.UOffsetT {
		kind := table(0, func() {})
		return table(7, func() {
			b.PrependUOffsetTSlot(0, text, 0)
			b.PrependByteSlot(2, tag, 0)
			b.PrependUOffsetTSlot(3, kind, 0)
			b.PrependUOffsetTSlot(5, children, 0)
			b.PrependUOffsetTSlot(6, metadata, 0)
		})
	}
	children := vector(1, field(tagNull, 0))
	parent := field(tagNull, 0)
	if damage != nil {
		parent = field(tagList, children)
	}
	all := vector(fields, parent)
	schema := table(4, func() { b.PrependUOffsetTSlot(1, all, 0) })
	b.Finish(table(5, func() {
		b.PrependInt16Slot(0, 4, 0)
		b.PrependByteSlot(1, tagSchema, 0)
		b.PrependUOffsetTSlot(2, schema, 0)
	}))
	meta := b.FinishedBytes()
	if damage != nil {
		damage(meta, len(meta)-int(parent), len(meta)-int(children))
	}
	stream := binary.LittleEndian.AppendUint32(nil, continuation)
	return append(binary.LittleEndian.AppendUint32(stream, uint32(len(meta))), meta...)
}

// batchMessage is the second message of a stream, to be bent.
type batchMessage struct {
	message, batch flatbuffers.Table
	body           []byte
}

// bent is a stream whose batch has been changed.
func bent(stream []byte, change func(b *batchMessage)) []byte {
	stream = bytes.Clone(stream)
	at := 0
	next := func() flatbuffers.Table {
		length := int(binary.LittleEndian.Uint32(stream[at+4:]))
		meta := stream[at+8 : at+8+length]
		at += 8 + length
		return flatbuffers.Table{Bytes: meta, Pos: flatbuffers.GetUOffsetT(meta)}
	}
	next()
	b := &batchMessage{message: next()}
	b.body = stream[at:]
	b.message.Union(&b.batch, flatbuffers.UOffsetT(b.message.Offset(messageHeader)))
	change(b)
	return stream
}

func (b *batchMessage) rows(n int64) { b.batch.MutateInt64Slot(4, n) }

// node is the length and the number of nulls of a column or child, in their order.
func (b *batchMessage) node(i int, length, nulls int64) { b.pair(6, i, length, nulls) }

// buffer is where a buffer is in the body.
func (b *batchMessage) buffer(i int, offset, length int64) { b.pair(8, i, offset, length) }

func (b *batchMessage) pair(slot flatbuffers.VOffsetT, i int, first, second int64) {
	at := b.batch.Vector(flatbuffers.UOffsetT(b.batch.Offset(slot))) + flatbuffers.UOffsetT(16*i)
	binary.LittleEndian.PutUint64(b.batch.Bytes[at:], uint64(first))
	binary.LittleEndian.PutUint64(b.batch.Bytes[at+8:], uint64(second))
}

// at is where a buffer begins in the body.
func (b *batchMessage) at(i int) int {
	at := b.batch.Vector(flatbuffers.UOffsetT(b.batch.Offset(8))) + flatbuffers.UOffsetT(16*i)
	return int(binary.LittleEndian.Uint64(b.batch.Bytes[at:]))
}

type hostileMessage struct {
	name  string
	value []byte
	want  string // of the reason
}

// hostile is what somebody may write to examples to bring readers down. The file
// testdata/hostile/NAME.arrow has each; the test of a whole run reads them.
func hostile(t testing.TB) []hostileMessage {
	put := binary.LittleEndian.PutUint32
	f32 := arrow.PrimitiveTypes.Float32
	deep := arrow.DataType(f32)
	for range 20 {
		deep = arrow.ListOf(deep)
	}
	mem := checked(t)
	written := func(schema *arrow.Schema, rows *ExampleRows, batches int, options ...ipc.Option) []byte {
		var stream bytes.Buffer
		w := ipc.NewWriter(&stream, append(options, ipc.WithSchema(schema), ipc.WithAllocator(mem))...)
		for range batches {
			record := rows.Record(mem)
			if err := w.Write(record); err != nil {
				t.Fatal(err)
			}
			record.Release()
		}
		w.Close()
		return stream.Bytes()
	}
	of := func(fields ...arrow.Field) []byte { return written(arrow.NewSchema(fields, nil), nil, 0) }
	few, zeros := &ExampleRows{Rows: 1, Cols: 2, Floats: make([]float32, 2)}, &ExampleRows{Rows: 64, Cols: 2000, Floats: make([]float32, 64*2000)}
	schemaOf := func(rows *ExampleRows) *arrow.Schema {
		record := rows.Record(mem)
		defer record.Release()
		return record.Schema()
	}
	schema := schemaOf(few)
	columns := []arrow.Field{dense(2, f32)}
	row := strings.Builder{}
	row.WriteString(`{"features":[1,2]`)
	for i := range 300 {
		columns = append(columns, field("x"+string(rune('a'+i%26))+strings.Repeat("y", i/26), arrow.PrimitiveTypes.Int64))
		row.WriteString(`,"` + columns[i+1].Name + `":1`)
	}
	row.WriteString("}")
	many := fromJSON(t, mem, "["+row.String()+"]", columns...)
	// nodes: features 0, their values 1, label 2, weight 3, split 4; buffers: validity of features 0, and of their values
	// 1, values 2, label 3 4 5, weight 6 7, split 8 9 10
	plain := encodeRows(t, somewhat(3)["all"], mem)
	change := func(f func(b *batchMessage)) []byte { return bent(plain, f) }
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.BinaryTypes.String}
	within := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.StructOf(field("again", dictionary))}
	return []hostileMessage{
		{"nothing", nil, "EOF"},
		{"text", []byte("hello, world"), "bytes announced, 8 left"},
		{"metadata-2GiB", append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, continuation), math.MaxInt32), plain...), "2147483647 bytes announced"},
		{"more-after-the-end", append(bytes.Clone(plain), 0), "1 bytes after the end of an Arrow stream"},
		{"no-batch", written(schema, nil, 0), "an Arrow stream without a record batch"},
		{"two-batches", written(schema, few, 2), "an Arrow stream of several record batches"},
		{"big-endian", written(arrow.NewSchemaWithEndian(schema.Fields(), nil, endian.BigEndian), nil, 0), "a big-endian Arrow stream"},

		{"field-within-itself", hostileSchema(1, 0, func(meta []byte, field, children int) {
			put(meta[children+4:], uint32(field-children-4)) // backwards: the sum wraps
		}), "a schema of more than"},
		{"children-2e31", hostileSchema(1, 0, func(meta []byte, _, children int) { put(meta[children:], 1<<31) }), "a vector of 2147483648 elements"},
		{"children-out-of-bounds", hostileSchema(1, 0, func(meta []byte, _, children int) { put(meta[children+4:], 1<<30) }), "slice bounds out of range"},
		{"fields-5000-in-one", hostileSchema(5000, 0, nil), "a schema of more than 4096 fields"},
		{"metadata-in-one", hostileSchema(1000, 1000, nil), "a schema with more text and metadata than bytes"},
		{"deep", of(field("x", deep)), "a schema of more than 4096 fields, or more than 16 deep"},
		{"long-name", of(field(strings.Repeat("\x01", 20_000), dictionary)), "dictionary-encoded"},
		{"union", of(field("x", arrow.SparseUnionOf([]arrow.Field{field("y", f32)}, []arrow.UnionTypeCode{0}))), `column "x": unions`},
		{"view", of(field("x", arrow.BinaryTypes.StringView)), `column "x": unions, views`},
		{"dictionary", of(field("x", dictionary)), `column "x": dictionary-encoded`},
		{"dictionary-in-dictionary", of(field("x", within)), "dictionary-encoded"},
		{"dictionary-batch", change(func(b *batchMessage) { b.message.MutateByteSlot(messageHeaderType, 2) }), "an Arrow message of type 2"},

		{"zstd-bomb", written(schemaOf(zeros), zeros, 1, ipc.WithZstd()), "a compressed record batch"},
		{"lz4-bomb", written(schemaOf(zeros), zeros, 1, ipc.WithLZ4()), "a compressed record batch"},
		{"zstd-claims-2e40", bent(written(schemaOf(zeros), zeros, 1, ipc.WithZstd()), func(b *batchMessage) {
			binary.LittleEndian.PutUint64(b.body[b.at(2):], 1<<40)
		}), "a compressed record batch"},

		{"rows-2e40", change(func(b *batchMessage) { b.rows(1 << 40) }), "mismatch number of rows"},
		{"rows-negative", change(func(b *batchMessage) { b.rows(-1); b.node(0, -1, 0) }), "-1 values from 0"},
		{"rows-fewer", change(func(b *batchMessage) { b.rows(1) }), "3 values in a batch of 1 rows"},
		{"all-2e40", change(func(b *batchMessage) {
			b.rows(1 << 40)
			for i := range 5 {
				b.node(i, 1<<40, 0)
			}
		}), "slice bounds out of range"},
		{"all-negative", change(func(b *batchMessage) {
			b.rows(-1)
			for i := range 5 {
				b.node(i, -1, 0)
			}
		}), "slice bounds out of range"},
		{"features-2e31", change(func(b *batchMessage) { b.node(1, math.MaxInt32, 0) }), "slice bounds out of range"},
		{"features-too-few", change(func(b *batchMessage) { b.node(1, 5, 0) }), "5 values for 3 lists of 3"},
		{"features-negative", change(func(b *batchMessage) { b.node(1, math.MinInt64, 0) }), "slice bounds out of range"},
		{"nulls-2e40", change(func(b *batchMessage) { b.node(2, 3, 1<<40) }), "1099511627776 nulls among 3 values"},
		{"nulls-negative", change(func(b *batchMessage) { b.node(2, 3, -7) }), "-7 nulls among 3 values"},
		{"validity-too-short", change(func(b *batchMessage) { b.node(1, 9, 2); b.buffer(1, 0, 1) }), "a validity bitmap of 1 bytes for 9 values"},
		{"validity-absent", change(func(b *batchMessage) { b.node(2, 3, 1); b.buffer(3, 0, 0) }), "a validity bitmap of 0 bytes for 3 values"},
		{"values-too-short", change(func(b *batchMessage) { b.buffer(2, 0, 8) }), "8 bytes for 9 values"},
		{"offsets-too-few", change(func(b *batchMessage) { b.buffer(4, int64(b.at(4)), 12) }), "offset buffer must have at least 4 values"},
		{"offsets-backwards", change(func(b *batchMessage) { put(b.body[b.at(4)+8:], 1) }), "offset 1 after"},
		{"offsets-negative", change(func(b *batchMessage) { put(b.body[b.at(4):], math.MaxUint32) }), "offset -1 after 0"},
		{"offsets-beyond", change(func(b *batchMessage) { put(b.body[b.at(4)+12:], math.MaxInt32) }), "offsets out of bounds"},
		{"buffer-2e40", change(func(b *batchMessage) { b.buffer(2, 0, 1<<40) }), "1099511627776 bytes claimed"},
		{"buffer-negative", change(func(b *batchMessage) { b.buffer(2, 0, -64) }), "-64 bytes claimed"},
		{"buffer-before-the-body", change(func(b *batchMessage) { b.buffer(2, -64, 36) }), "negative"},
		{"buffer-after-the-body", change(func(b *batchMessage) { b.buffer(2, 1<<40, 36) }), "EOF"},
		{"body-2e40", change(func(b *batchMessage) { b.message.MutateInt64Slot(messageBodyLength, 1<<40) }), "1099511627776 bytes announced"},
		{"body-negative", change(func(b *batchMessage) { b.message.MutateInt64Slot(messageBodyLength, -8) }), "-8 bytes announced"},
		{"one-body-300-times", bent(many, func(b *batchMessage) {
			for i := range 300 {
				b.buffer(3+2*i+1, 0, int64(len(b.body)-8))
			}
		}), "bytes claimed, at most"},
	}
}

// The least that a decoder may take for what is no larger than a few bytes: the
// fields of a schema, of which few bytes can tell 4096, and errors.
const leastRoom = 1 << 20

// Without the checks before arrow some of these end the process, by recursion or
// for want of memory, and others are read as if nothing were wrong.
func TestHostileStreams(t *testing.T) {
	for _, c := range hostile(t) {
		mem := meter()
		spent := allocated(func() {
			_, err := DecodeExamples(c.value, mem)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, expected %s", c.name, err, c.want)
			}
			mem.harmless(t, len(c.value), err)
		})
		if most := 8*len(c.value) + leastRoom; spent > most {
			t.Errorf("%s: %d bytes from %d", c.name, spent, len(c.value))
		}
		path := filepath.Join("testdata", "hostile", c.name+".arrow")
		if *update {
			if err := os.WriteFile(path, c.value, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if file := must(os.ReadFile(path))(t); !bytes.Equal(file, c.value) {
			t.Errorf("%s is another: go test -run Hostile -update", path)
		}
	}
}

// allocated is the bytes that Go's memory gives out meanwhile.
func allocated(during func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	during()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// What a decoder takes grows with the message, not with what it claims.
func TestLargeHostileStreams(t *testing.T) {
	f32 := arrow.PrimitiveTypes.Float32
	large := strings.Repeat("\x01", 4<<20)
	mem := checked(t)
	good := encodeRows(t, &ExampleRows{Rows: 5000, Cols: 1000, Floats: make([]float32, 5_000_000)}, mem) // 20 MB, as a foreign topic may allow
	for name, value := range map[string][]byte{
		"metadata in one":  hostileSchema(4000, 1_000_000, nil),
		"fields in one":    hostileSchema(1_000_000, 0, nil),
		"names":            fromJSON(t, mem, "[]", field(large, f32)),
		"label":            fromJSON(t, mem, `[{"features":[1],"label":"`+strings.Repeat("a", 4<<20)+`"}]`, dense(1, f32), field("label", arrow.BinaryTypes.String)),
		"split":            fromJSON(t, mem, `[{"features":[1],"split":"`+strings.Repeat("a", 4<<20)+`"}]`, dense(1, f32), field("split", arrow.BinaryTypes.String)),
		"good":             good,
		"cut off":          good[:len(good)-100],
		"bytes, all zeros": make([]byte, 20<<20),
	} {
		metered := meter()
		spent := allocated(func() {
			e, err := DecodeExamples(value, metered)
			if (err == nil) != (name == "good") {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil {
				e.Release()
			}
			metered.harmless(t, len(value), err)
		})
		if most := 4*len(value) + leastRoom; spent > most {
			t.Errorf("%s: %d bytes from %d", name, spent, len(value))
		}
	}
}

// Numbers that a batch claims: every 8 bytes of its metadata in turn are 2⁴⁰.
func TestHostileNumbers(t *testing.T) {
	plain := fromJSON(t, checked(t), `[{"features":[1,2]}]`, dense(2, arrow.PrimitiveTypes.Float32))
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
