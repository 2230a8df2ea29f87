package stream

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

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
	if err != nil || len(goldens) < 10 {
		f.Fatal(goldens, err)
	}
	for _, name := range goldens {
		value := arrowtest.Must(os.ReadFile(name))(f)
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
		mem := arrowtest.NewMeter()
		record, err := Decode(value, mem, nil)
		switch {
		case err != nil:
		case slices.ContainsFunc(record.Columns(), func(c arrow.Array) bool { return beginsLater(c.Data()) }):
			record.Release()
		default:
			value := arrowtest.Must(Encode(record, memory.DefaultAllocator))(t)
			again, err := Decode(value, memory.DefaultAllocator, nil)
			if err != nil {
				t.Fatalf("it is encoded as a stream that can't be decoded: %v", err)
			}
			if again.NumRows() != record.NumRows() || !again.Schema().Equal(record.Schema()) {
				t.Errorf("%d rows of %v became %d rows of %v", record.NumRows(), record.Schema(), again.NumRows(), again.Schema())
			}
			again.Release()
			record.Release()
		}
		mem.Check(t, len(value), err, ErrDamaged)
	})
}
