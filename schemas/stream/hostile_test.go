package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

func field(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}

// fromJSON encodes rows of JSON as a stream.
func fromJSON(t testing.TB, mem memory.Allocator, rows string, fields ...arrow.Field) []byte {
	t.Helper()
	record, _, err := array.RecordFromJSON(mem, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	arrowtest.NoError(t, err)
	return encoded(t, mem, record)
}

// encoded encodes a record as a stream and releases it.
func encoded(t testing.TB, mem memory.Allocator, record arrow.Record) []byte {
	t.Helper()
	defer record.Release()
	value := arrowtest.Must(Encode(record, mem))(t)
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
	for line := range strings.Lines(string(arrowtest.Must(os.ReadFile(folder + "expected.txt"))(t))) {
		name, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		all = append(all, hostileMessage{name, arrowtest.Must(os.ReadFile(folder + name + ".arrow"))(t), want})
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
		"metadata in one":  hostileSchema(4000, 1_000_000),
		"fields in one":    hostileSchema(1_000_000, 0),
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
