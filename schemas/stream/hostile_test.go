package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/stagewise/stagewise/internal/assert"
)

func field(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

// fromJSON encodes rows of JSON as a stream.
func fromJSON(t testing.TB, mem memory.Allocator, rows string, fields ...arrow.Field) []byte {
	t.Helper()
	record, _, err := array.RecordFromJSON(mem, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	assert.NoError(t, err)
	return encoded(t, mem, record)
}

// encoded encodes a record as a stream and releases it.
func encoded(t testing.TB, mem memory.Allocator, record arrow.Record) []byte {
	t.Helper()
	defer record.Release()
	return assert.Must(Encode(record, mem))(t)
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

// hostileSchema makes the first message of a stream. Its schema refers to one field of nulls as often as fields says, and
// the field refers to one pair of texts as often as pairs says.
func hostileSchema(fields, pairs int) []byte {
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
	metadata := vector(pairs, table(2, func() {
		b.PrependUOffsetTSlot(0, empty, 0)
		b.PrependUOffsetTSlot(1, empty, 0)
	}))
	const tagNull = 1
	kind := table(0, func() {})
	all := vector(fields, table(7, func() {
		b.PrependUOffsetTSlot(0, text, 0)
		b.PrependByteSlot(2, tagNull, 0)
		b.PrependUOffsetTSlot(3, kind, 0)
		b.PrependUOffsetTSlot(6, metadata, 0)
	}))
	schema := table(4, func() { b.PrependUOffsetTSlot(1, all, 0) })
	b.Finish(table(5, func() {
		b.PrependInt16Slot(0, 4, 0)
		b.PrependByteSlot(1, tagSchema, 0)
		b.PrependUOffsetTSlot(2, schema, 0)
	}))
	meta := b.FinishedBytes()
	stream := binary.LittleEndian.AppendUint32(nil, continuation)
	return append(binary.LittleEndian.AppendUint32(stream, uint32(len(meta))), meta...)
}

type hostileMessage struct {
	name  string
	value []byte
	want  string // part of the error
}

// hostile returns the streams in testdata/hostile, which somebody may write to the examples topic to bring readers down. expected.txt has
// a part of the error of each.
func hostile(t testing.TB) (all []hostileMessage) {
	const folder = "testdata/hostile/"
	for line := range strings.Lines(string(assert.Must(os.ReadFile(folder + "expected.txt"))(t))) {
		name, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		all = append(all, hostileMessage{name, assert.Must(os.ReadFile(folder + name + ".arrow"))(t), want})
	}
	return all
}

// minAllowance is what a decoder may allocate for a stream of a few bytes: the fields of a schema, of which few bytes can
// claim 4096, and errors.
const minAllowance = 1 << 20

// Without the checks before Arrow, some of these streams end the process by recursion or for want of memory, and others
// are decoded as if nothing were wrong.
func TestHostileStreams(t *testing.T) {
	for _, c := range hostile(t) {
		mem := assert.NewMeter()
		spent := allocated(func() {
			_, err := Decode(c.value, mem, nil)
			assert.True(t, errors.Is(err, ErrDamaged) && strings.Contains(err.Error(), c.want), "%s: %v, expected %s", c.name, err, c.want)
			mem.Check(t, len(c.value), err, ErrDamaged)
		})
		assert.True(t, spent <= 8*len(c.value)+minAllowance, "%s: %d bytes of memory for %d bytes", c.name, spent, len(c.value))
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
	mem := assert.Allocator(t)
	good := encoded(t, mem, zeros(mem, 5000, 1000)) // 20 MB, which the topic of another producer may allow
	for name, value := range map[string][]byte{
		"metadata in one":  hostileSchema(4000, 1_000_000),
		"fields in one":    hostileSchema(1_000_000, 0),
		"long name":        fromJSON(t, mem, "[]", field(strings.Repeat("\x01", 4<<20), arrow.FixedWidthTypes.MonthInterval)),
		"good":             good,
		"cut off":          good[:len(good)-100],
		"bytes, all zeros": make([]byte, 20<<20),
	} {
		metered := assert.NewMeter()
		spent := allocated(func() {
			record, err := Decode(value, metered, nil)
			assert.True(t, (err == nil) == (name == "good"), "%s: %v", name, err)
			if err == nil {
				record.Release()
			}
			metered.Check(t, len(value), err, ErrDamaged)
		})
		assert.True(t, spent <= 4*len(value)+minAllowance, "%s: %d bytes of memory for %d bytes", name, spent, len(value))
	}
}

// Claimed numbers: 8 bytes of a stream at a time are replaced by 2⁴⁰, 2⁶² and 2⁶⁴-1.
func TestHostileNumbers(t *testing.T) {
	plain := fromJSON(t, assert.Allocator(t), `[{"features":[1,2]}]`, field("features", lists(2)))
	for _, claim := range []uint64{1 << 40, 1 << 62, 1<<64 - 1} {
		for at := 0; at+8 <= len(plain); at += 4 {
			value := bytes.Clone(plain)
			binary.LittleEndian.PutUint64(value[at:], claim)
			mem := assert.NewMeter()
			record, err := Decode(value, mem, nil)
			if err == nil {
				record.Release()
			}
			mem.Check(t, len(value), err, ErrDamaged)
		}
	}
}

// beginsLater reports whether the offsets of an array, or of one within it, begin above 0. A reader must take such
// arrays, but the writer of Arrow 17 leaves out the values before the first offset and writes the offsets as they are.
func beginsLater(data arrow.ArrayData) bool {
	first := int64(0)
	if data.Len() > 0 && len(data.Buffers()) > 1 && data.Buffers()[1] != nil {
		switch offsets := data.Buffers()[1].Bytes(); data.DataType().(type) {
		case *arrow.StringType, *arrow.ListType:
			first = int64(arrow.GetData[int32](offsets)[data.Offset()])
		case *arrow.LargeStringType, *arrow.LargeListType:
			first = arrow.GetData[int64](offsets)[data.Offset()]
		}
	}
	children := data.Children()
	if d, ok := data.Dictionary().(*array.Data); ok && d != nil {
		children = append(children[:len(children):len(children)], d)
	}
	return first > 0 || slices.ContainsFunc(children, beginsLater)
}

// Whatever the bytes are, Decode returns a record or ErrDamaged, and a record encodes to a stream that decodes to it.
func FuzzDecode(f *testing.F) {
	goldens, err := filepath.Glob("../testdata/*.arrow")
	assert.Need(f, err == nil && len(goldens) >= 10, "%v %v", goldens, err)
	for _, name := range goldens {
		value := assert.Must(os.ReadFile(name))(f)
		f.Add(value)
		for i := 1; i < 24; i++ {
			f.Add(value[:len(value)*i/24])
			flipped := bytes.Clone(value)
			flipped[len(value)*i/24] ^= 1 << (i % 8)
			f.Add(flipped)
		}
	}
	for _, c := range hostile(f) {
		f.Add(c.value)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		mem := assert.NewMeter()
		record, err := Decode(value, mem, nil)
		switch {
		case err != nil:
		case slices.ContainsFunc(record.Columns(), func(c arrow.Array) bool { return beginsLater(c.Data()) }):
			record.Release()
		default:
			value := assert.Must(Encode(record, memory.DefaultAllocator))(t)
			again, err := Decode(value, memory.DefaultAllocator, nil)
			assert.Need(t, err == nil, "it is encoded as a stream that can't be decoded: %v", err)
			assert.True(t, again.NumRows() == record.NumRows() && again.Schema().Equal(record.Schema()),
				"%d rows of %v became %d rows of %v", record.NumRows(), record.Schema(), again.NumRows(), again.Schema())
			again.Release()
			record.Release()
		}
		mem.Check(t, len(value), err, ErrDamaged)
	})
}

// readAll returns the rows of all batches as text.
func readAll(from io.Reader, mem *assert.Meter) (text string, err error) {
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
	mem := assert.NewMeter()
	category := field("label", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String})
	schema := arrow.NewSchema([]arrow.Field{field("features", lists(2)), category}, nil)
	var want string
	var records []arrow.Record
	for _, rows := range []string{`[{"features":[1,2],"label":"a"}]`,
		`[{"features":[3,4],"label":"a"},{"features":[5,6],"label":"b"}]`, "[]"} {
		record, _, err := array.RecordFromJSON(mem, schema, strings.NewReader(rows))
		assert.NoError(t, err)
		defer record.Release()
		records = append(records, record)
		want += fmt.Sprintln(record.Columns())
	}
	for _, options := range [][]ipc.Option{nil, {ipc.WithZstd()}, {ipc.WithLZ4()}, {ipc.WithDictionaryDeltas(true)}} {
		var stream bytes.Buffer
		w := ipc.NewWriter(&stream, append(options, ipc.WithSchema(schema), ipc.WithAllocator(mem))...)
		for _, record := range records {
			assert.NoError(t, w.Write(record))
		}
		assert.NoError(t, w.Close())
		assert.Equal(t, assert.Must(readAll(bytes.NewReader(stream.Bytes()), mem))(t), want, "")
		for n := range stream.Len() - 1 {
			_, err := readAll(bytes.NewReader(stream.Bytes()[:n]), mem)
			assert.Need(t, errors.Is(err, ErrDamaged), "cut at byte %d: %v", n, err)
		}
	}
}

// What no message may be, no file may be either, except for many batches, compressed ones, and a limit of 1 GiB in place of four times
// the bytes.
func TestReaderRefusesHostileStreams(t *testing.T) {
	allowed := []string{"two-batches", "zstd-bomb", "lz4-bomb", "dictionary-twice", "dictionary-after-the-batch",
		"no-batch", "one-body-300-times"}
	for _, c := range hostile(t) {
		_, err := readAll(bytes.NewReader(c.value), assert.NewMeter())
		assert.True(t, errors.Is(err, ErrDamaged) != slices.Contains(allowed, c.name), "%s: %v", c.name, err)
	}
}

// A file that does not begin with its schema, as Polars writes it, is an error that says what to write instead.
func TestFileWithoutItsSchemaInFront(t *testing.T) {
	var file bytes.Buffer
	w := ipc.NewWriter(&file, ipc.WithSchema(arrow.NewSchema([]arrow.Field{field("x", arrow.PrimitiveTypes.Int8)}, nil)))
	assert.NoError(t, w.Close())
	message := file.Bytes()[8:] // without the mark and the length
	_, err := NewReader(bytes.NewReader(message), true, assert.NewMeter())
	assert.True(t, errors.Is(err, ErrDamaged) && strings.Contains(err.Error(), "write it as Parquet"),
		"got %v, expected what to write instead", err)
}
