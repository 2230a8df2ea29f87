package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/endian"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

var update = flag.Bool("update", false, "write testdata/hostile again")

func field(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

// fromJSON encodes rows of JSON as a stream.
func fromJSON(t testing.TB, mem memory.Allocator, rows string, fields ...arrow.Field) []byte {
	t.Helper()
	record, _, err := array.RecordFromJSON(mem, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	return encoded(t, mem, record)
}

// encoded encodes a record as a stream and releases it.
func encoded(t testing.TB, mem memory.Allocator, record arrow.Record) []byte {
	t.Helper()
	defer record.Release()
	value, err := Encode(record, mem)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// lists are the type of cols features per row.
func lists(cols int) arrow.DataType {
	return arrow.FixedSizeListOf(int32(cols), arrow.PrimitiveTypes.Float32)
}

// zeros makes a record with one column, whose features are all 0.
func zeros(mem memory.Allocator, rows, cols int) arrow.Record {
	b := array.NewRecordBuilder(mem, arrow.NewSchema([]arrow.Field{{Name: "features", Type: lists(cols)}}, nil))
	defer b.Release()
	features := b.Field(0).(*array.FixedSizeListBuilder)
	for range rows {
		features.Append(true)
	}
	features.ValueBuilder().(*array.Float32Builder).AppendValues(make([]float32, rows*cols), nil)
	return b.NewRecord()
}

// threeRows makes a record with all columns that an examples message can have.
func threeRows(mem memory.Allocator) arrow.Record {
	b := array.NewRecordBuilder(mem, arrow.NewSchema([]arrow.Field{
		{Name: "features", Type: lists(3)}, field("label", arrow.BinaryTypes.String),
		{Name: "weight", Type: arrow.PrimitiveTypes.Float32}, {Name: "split", Type: arrow.BinaryTypes.String},
	}, nil))
	defer b.Release()
	features := b.Field(0).(*array.FixedSizeListBuilder)
	for row, split := range []string{"train", "holdout", "test"} {
		features.Append(true)
		b.Field(1).(*array.StringBuilder).Append(fmt.Sprintf("klasse %d é", row))
		b.Field(2).(*array.Float32Builder).Append(float32(row) / 4)
		b.Field(3).(*array.StringBuilder).Append(split)
	}
	nan := float32(math.NaN())
	features.ValueBuilder().(*array.Float32Builder).AppendValues(
		[]float32{0, 1, 2, nan, 4, 5, 6, 7, 8}, []bool{true, true, true, false, true, true, true, true, true})
	return b.NewRecord()
}

// hostileSchema makes the first message of a stream. Its schema refers to one field of nulls as often as fields says, and
// the field refers to one pair of texts as often as pairs says. With damage, the field is of lists and has one child, and
// damage gets the positions of the field and of the vector of its children.
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

// batchMessage is a message of a record batch or of a dictionary, which a test changes.
type batchMessage struct {
	message, header, batch flatbuffers.Table
	body                   []byte
}

// changed returns a copy of a stream with a changed batch. Its schema has no dictionaries.
func changed(stream []byte, change func(b *batchMessage)) []byte { return changedAt(stream, 1, change) }

// changedAt returns a copy of a stream of which message number at, not the schema, is changed.
func changedAt(stream []byte, at int, change func(b *batchMessage)) []byte {
	stream = bytes.Clone(stream)
	meta, body := parts(messagesOf(stream)[at])
	b := &batchMessage{message: flatbuffers.Table{Bytes: meta, Pos: flatbuffers.GetUOffsetT(meta)}, body: body}
	b.message.Union(&b.header, flatbuffers.UOffsetT(b.message.Offset(messageHeader)))
	b.batch = b.header
	if b.message.GetByteSlot(messageHeaderType, 0) == tagDictionary {
		b.batch.Pos = b.header.Indirect(flatbuffers.UOffsetT(b.header.Offset(dictionaryData)) + b.header.Pos)
	}
	change(b)
	return stream
}

// messagesOf cuts a stream into its messages. The last is the end of the stream.
func messagesOf(stream []byte) (messages [][]byte) {
	for len(stream) > 8 {
		meta, _ := parts(stream)
		message := flatbuffers.Table{Bytes: meta, Pos: flatbuffers.GetUOffsetT(meta)}
		length := 8 + len(meta) + int(message.GetInt64Slot(messageBodyLength, 0))
		messages, stream = append(messages, stream[:length]), stream[length:]
	}
	return append(messages, stream)
}

// parts returns the metadata of a message, and what follows it.
func parts(message []byte) (meta, body []byte) {
	length := 8 + int(binary.LittleEndian.Uint32(message[4:]))
	return message[8:length], message[length:]
}

func (b *batchMessage) rows(n int64) { b.batch.MutateInt64Slot(4, n) }

// node sets the length and the number of nulls of column or child i.
func (b *batchMessage) node(i int, length, nulls int64) { b.pair(6, i, length, nulls) }

// buffer sets where buffer i is in the body.
func (b *batchMessage) buffer(i int, offset, length int64) { b.pair(8, i, offset, length) }

// pair sets the two numbers of element i of a vector.
func (b *batchMessage) pair(slot flatbuffers.VOffsetT, i int, first, second int64) {
	at := b.batch.Vector(flatbuffers.UOffsetT(b.batch.Offset(slot))) + flatbuffers.UOffsetT(16*i)
	binary.LittleEndian.PutUint64(b.batch.Bytes[at:], uint64(first))
	binary.LittleEndian.PutUint64(b.batch.Bytes[at+8:], uint64(second))
}

// at returns where buffer i begins in the body.
func (b *batchMessage) at(i int) int {
	at := b.batch.Vector(flatbuffers.UOffsetT(b.batch.Offset(8))) + flatbuffers.UOffsetT(16*i)
	return int(binary.LittleEndian.Uint64(b.batch.Bytes[at:]))
}

type hostileMessage struct {
	name  string
	value []byte
	want  string // part of the error
}

// hostile returns streams that somebody may write to the examples topic to bring readers down. Each is also in the file
// testdata/hostile/NAME.arrow, for the tests of a whole run.
func hostile(t testing.TB) []hostileMessage {
	put := binary.LittleEndian.PutUint32
	f32 := arrow.PrimitiveTypes.Float32
	deep := arrow.DataType(f32)
	for range 20 {
		deep = arrow.ListOf(deep)
	}
	mem := arrowtest.Allocator(t)
	// written encodes the record in the given number of batches, and releases it.
	written := func(record arrow.Record, batches int, options ...ipc.Option) []byte {
		defer record.Release()
		var stream bytes.Buffer
		w := ipc.NewWriter(&stream, append(options, ipc.WithSchema(record.Schema()), ipc.WithAllocator(mem))...)
		for range batches {
			if err := w.Write(record); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		return stream.Bytes()
	}
	// of encodes a schema without a batch.
	of := func(schema *arrow.Schema) []byte {
		var stream bytes.Buffer
		ipc.NewWriter(&stream, ipc.WithSchema(schema), ipc.WithAllocator(mem)).Close()
		return stream.Bytes()
	}
	ofField := func(f arrow.Field) []byte { return of(arrow.NewSchema([]arrow.Field{f}, nil)) }
	few := func() arrow.Record { return zeros(mem, 1, 2) }
	wide := func() arrow.Record { return zeros(mem, 64, 2000) }
	record := few()
	schema := record.Schema()
	record.Release()
	columns := []arrow.Field{field("features", lists(2))}
	row := strings.Builder{}
	row.WriteString(`{"features":[1,2]`)
	for i := range 300 {
		columns = append(columns, field("x"+string(rune('a'+i%26))+strings.Repeat("y", i/26), arrow.PrimitiveTypes.Int64))
		row.WriteString(`,"` + columns[i+1].Name + `":1`)
	}
	row.WriteString("}")
	many := fromJSON(t, mem, "["+row.String()+"]", columns...)
	// The nodes of plain are features 0, their values 1, label 2, weight 3, split 4. Its buffers are the validity of
	// features 0 and of their values 1, the values 2, label 3 4 5, weight 6 7, split 8 9 10.
	plain := encoded(t, mem, threeRows(mem))
	change := func(f func(b *batchMessage)) []byte { return changed(plain, f) }
	// Message 1 of encodedLabels is the dictionary: its buffers are the validity of the values, their offsets and their text. Message
	// 2 is the batch, with the indices in its buffer 4.
	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	const twoLabels = `[{"features":[1,2],"label":"a"},{"features":[1,2],"label":"b"},{"features":[1,2],"label":"a"}]`
	encodedLabels := fromJSON(t, mem, twoLabels, field("features", lists(2)), field("label", dictionary))
	labelMessages := messagesOf(encodedLabels)
	changeDictionary := func(f func(b *batchMessage)) []byte { return changedAt(encodedLabels, 1, f) }
	changeIndex := func(index byte) []byte {
		return changedAt(encodedLabels, 2, func(b *batchMessage) { b.body[b.at(4)] = index })
	}
	large := fromJSON(t, mem, twoLabels, field("features", lists(2)), field("label", arrow.BinaryTypes.LargeString))
	changeOffset := func(i int, offset uint64) []byte {
		return changed(large, func(b *batchMessage) { binary.LittleEndian.PutUint64(b.body[b.at(4)+8*i:], offset) })
	}
	within := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int32, ValueType: arrow.StructOf(field("again", dictionary))}
	return []hostileMessage{
		{"nothing", nil, "EOF"},
		{"text", []byte("hello, world"), "bytes announced, 8 left"},
		{"metadata-2GiB", append(binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, continuation), math.MaxInt32), plain...), "2147483647 bytes announced"},
		{"more-after-the-end", append(bytes.Clone(plain), 0), "1 bytes after the end of an Arrow stream"},
		{"no-batch", of(schema), "an Arrow stream without a record batch"},
		{"two-batches", written(few(), 2), "an Arrow stream of several record batches"},
		{"big-endian", of(arrow.NewSchemaWithEndian(schema.Fields(), nil, endian.BigEndian)), "a big-endian Arrow stream"},

		{"field-within-itself", hostileSchema(1, 0, func(meta []byte, field, children int) {
			put(meta[children+4:], uint32(field-children-4)) // a negative offset, as the sum wraps
		}), "a schema of more than"},
		{"children-2e31", hostileSchema(1, 0, func(meta []byte, _, children int) { put(meta[children:], 1<<31) }), "a vector of 2147483648 elements"},
		{"children-out-of-bounds", hostileSchema(1, 0, func(meta []byte, _, children int) { put(meta[children+4:], 1<<30) }), "slice bounds out of range"},
		{"fields-5000-in-one", hostileSchema(5000, 0, nil), "a schema of more than 4096 fields"},
		{"metadata-in-one", hostileSchema(1000, 1000, nil), "a schema with more text and metadata than bytes"},
		{"deep", ofField(field("x", deep)), "a schema of more than 4096 fields, or more than 16 deep"},
		{"long-name", ofField(field(strings.Repeat("\x01", 20_000), arrow.BinaryTypes.StringView)), "views"},
		{"union", ofField(field("x", arrow.SparseUnionOf([]arrow.Field{field("y", f32)}, []arrow.UnionTypeCode{0}))), `column "x": unions`},
		{"view", ofField(field("x", arrow.BinaryTypes.StringView)), `column "x": unions, views`},
		{"message-of-type-4", change(func(b *batchMessage) { b.message.MutateByteSlot(messageHeaderType, 4) }), "an Arrow message of type 4"},

		{"dictionary-in-dictionary", ofField(field("x", within)), `column "x": dictionary-encoded columns of lists and structs`},
		{"dictionary-in-list", ofField(field("x", arrow.ListOf(dictionary))), `column "item": dictionary-encoded columns of lists and structs, or within them`},
		{"dictionary-batch", change(func(b *batchMessage) { b.message.MutateByteSlot(messageHeaderType, 2) }), "dictionary 3: expected each dictionary of the schema once"},
		{"dictionary-absent", slices.Concat(labelMessages[0], labelMessages[2], labelMessages[3]), "a record batch before dictionary 0"},
		{"dictionary-twice", slices.Concat(labelMessages[0], labelMessages[1], labelMessages[1], labelMessages[2], labelMessages[3]), "dictionary 0: expected each"},
		{"dictionary-after-the-batch", slices.Concat(labelMessages[0], labelMessages[1], labelMessages[2], labelMessages[1], labelMessages[3]), "dictionary 0: expected each"},
		{"dictionary-nobody-uses", slices.Concat(messagesOf(plain)[0], labelMessages[1], messagesOf(plain)[1], messagesOf(plain)[2]), "dictionary 0: expected each"},
		{"dictionary-2e40", changeDictionary(func(b *batchMessage) { b.rows(1 << 40); b.node(0, 1<<40, 0) }), "1099511627776 values from 0"},
		{"dictionary-negative", changeDictionary(func(b *batchMessage) { b.node(0, -1, 0) }), "-1 values from 0"},
		{"dictionary-too-short", changeDictionary(func(b *batchMessage) { b.node(0, 1, 0) }), "index 1 into a dictionary of 1 values"},
		{"dictionary-offsets-beyond", changeDictionary(func(b *batchMessage) { put(b.body[b.at(1)+4:], 1000) }), "offset 1000 after 0"},
		{"index-beyond", changeIndex(2), "index 2 into a dictionary of 2 values"},
		{"index-negative", changeIndex(0xff), "index -1 into a dictionary of 2 values"},
		{"indices-too-short", changedAt(encodedLabels, 2, func(b *batchMessage) { b.buffer(4, int64(b.at(4)), 2) }), "2 bytes for 3 indices"},

		{"large-offsets-2e40", changeOffset(3, 1<<40), "offsets out of bounds"},
		{"large-offsets-within", changeOffset(2, 1<<40), "offset 1099511627776 after 1"},
		{"large-offsets-negative", changeOffset(3, 1<<63), "offset -9223372036854775808 after 2"},

		{"zstd-bomb", written(wide(), 1, ipc.WithZstd()), "a compressed record batch"},
		{"lz4-bomb", written(wide(), 1, ipc.WithLZ4()), "a compressed record batch"},
		{"zstd-claims-2e40", changed(written(wide(), 1, ipc.WithZstd()), func(b *batchMessage) {
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
		{"one-body-300-times", changed(many, func(b *batchMessage) {
			for i := range 300 {
				b.buffer(3+2*i+1, 0, int64(len(b.body)))
			}
		}), "bytes claimed, at most"},
	}
}

// minAllowance is what a decoder may allocate for a stream of a few bytes: the fields of a schema, of which few bytes can
// claim 4096, and errors.
const minAllowance = 1 << 20

// Without the checks before Arrow, some of these streams end the process by recursion or for want of memory, and others
// are decoded as if nothing were wrong.
func TestHostileStreams(t *testing.T) {
	for _, c := range hostile(t) {
		mem := arrowtest.NewMeter()
		spent := allocated(func() {
			_, err := Decode(c.value, mem, nil)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, expected %s", c.name, err, c.want)
			}
			mem.Check(t, len(c.value), err, ErrDamaged)
		})
		if spent > 8*len(c.value)+minAllowance {
			t.Errorf("%s: %d bytes of memory for %d bytes", c.name, spent, len(c.value))
		}
		path := filepath.Join("testdata", "hostile", c.name+".arrow")
		if *update {
			if err := os.WriteFile(path, c.value, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(file, c.value) {
			t.Errorf("%s differs (%v): go test ./schemas/stream -run Hostile -update writes it", path, err)
		}
	}
}

// allocated returns how many bytes Go allocates during a call.
func allocated(during func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	during()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// The memory of a decoder grows with the bytes of a stream, not with the sizes that it claims.
func TestLargeHostileStreams(t *testing.T) {
	mem := arrowtest.Allocator(t)
	good := encoded(t, mem, zeros(mem, 5000, 1000)) // 20 MB, which the topic of another producer may allow
	for name, value := range map[string][]byte{
		"metadata in one":  hostileSchema(4000, 1_000_000, nil),
		"fields in one":    hostileSchema(1_000_000, 0, nil),
		"long name":        fromJSON(t, mem, "[]", field(strings.Repeat("\x01", 4<<20), arrow.FixedWidthTypes.MonthInterval)),
		"good":             good,
		"cut off":          good[:len(good)-100],
		"bytes, all zeros": make([]byte, 20<<20),
	} {
		metered := arrowtest.NewMeter()
		spent := allocated(func() {
			record, err := Decode(value, metered, nil)
			if (err == nil) != (name == "good") {
				t.Errorf("%s: %v", name, err)
			}
			if err == nil {
				record.Release()
			}
			metered.Check(t, len(value), err, ErrDamaged)
		})
		if spent > 4*len(value)+minAllowance {
			t.Errorf("%s: %d bytes of memory for %d bytes", name, spent, len(value))
		}
	}
}

// Claimed numbers: 8 bytes of a stream at a time are replaced by 2⁴⁰, 2⁶² and 2⁶⁴-1.
func TestHostileNumbers(t *testing.T) {
	plain := fromJSON(t, arrowtest.Allocator(t), `[{"features":[1,2]}]`, field("features", lists(2)))
	for _, claim := range []uint64{1 << 40, 1 << 62, 1<<64 - 1} {
		for at := 0; at+8 <= len(plain); at += 4 {
			value := bytes.Clone(plain)
			binary.LittleEndian.PutUint64(value[at:], claim)
			mem := arrowtest.NewMeter()
			record, err := Decode(value, mem, nil)
			if err == nil {
				record.Release()
			}
			mem.Check(t, len(value), err, ErrDamaged)
		}
	}
}
