package schemas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

// MaxMessage is the most bytes that the value of a message of ours has: stock
// brokers take messages of 1 MiB, headers and framing included.
const MaxMessage = 900_000

// maxDecoded bounds the memory that decoding one value may take: what came is
// already in memory, so only compressed buffers and lies can ask for more.
const maxDecoded = 256 << 20

// ErrDamaged is what every error about bytes that are not what they should be
// wraps.
var ErrDamaged = errors.New("damaged or foreign bytes")

// encode makes a complete IPC stream of one record batch.
func encode(record arrow.Record, mem memory.Allocator) ([]byte, error) {
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, ipc.WithSchema(record.Schema()), ipc.WithAllocator(mem))
	if err := w.Write(record); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return stream.Bytes(), nil
}

// decode reads a complete IPC stream of exactly one record batch. Whatever the
// bytes are, it answers with a record or an error that wraps ErrDamaged, and
// allocates at most maxDecoded. The caller releases the record.
func decode(value []byte, mem memory.Allocator) (record arrow.Record, err error) {
	bounded := &boundedAllocator{mem: mem, left: maxDecoded, live: map[*byte][]byte{}}
	defer func() {
		// arrow panics on some streams; what it had allocated by then is ours to free
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%w: arrow: %v", ErrDamaged, cause)
		}
		if err != nil {
			bounded.freeAll()
			record = nil
		}
		bounded.live = nil
	}()
	r, err := ipc.NewReaderFromMessageReader(&frames{rest: value}, ipc.WithAllocator(bounded))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	defer r.Release()
	if !r.Next() {
		if r.Err() != nil {
			return nil, fmt.Errorf("%w: %v", ErrDamaged, r.Err())
		}
		return nil, fmt.Errorf("%w: an Arrow stream without a record batch", ErrDamaged)
	}
	record = r.Record()
	record.Retain()
	if r.Next() {
		record.Release()
		return nil, fmt.Errorf("%w: an Arrow stream of several record batches", ErrDamaged)
	}
	if r.Err() != nil {
		record.Release()
		return nil, fmt.Errorf("%w: %v", ErrDamaged, r.Err())
	}
	for i, column := range record.Columns() {
		if err := validate(column.Data()); err != nil {
			record.Release()
			return nil, fmt.Errorf("%w: column %q: %v", ErrDamaged, record.ColumnName(i), err)
		}
	}
	return record, nil
}

// frames cuts a stream into its messages without copying and without trusting
// a length that it claims; arrow's own reader allocates what it is told to.
type frames struct {
	rest []byte
	last *ipc.Message
}

func (f *frames) Retain() {}

func (f *frames) Release() {
	if f.last != nil {
		f.last.Release()
		f.last = nil
	}
}

const continuation = 0xFFFFFFFF

func (f *frames) Message() (*ipc.Message, error) {
	f.Release()
	if len(f.rest) == 0 {
		return nil, io.EOF
	}
	length, err := f.uint32()
	if err == nil && length == continuation {
		length, err = f.uint32()
	}
	if err != nil {
		return nil, err
	}
	if length == 0 {
		return nil, io.EOF
	}
	meta, err := f.take(uint64(length))
	if err != nil {
		return nil, err
	}
	// a first look, to learn the length of the body
	peek := ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(nil))
	bodyLength := peek.BodyLen()
	peek.Release()
	if bodyLength < 0 {
		return nil, fmt.Errorf("a body of %d bytes", bodyLength)
	}
	body, err := f.take(uint64(bodyLength))
	if err != nil {
		return nil, err
	}
	f.last = ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(body))
	return f.last, nil
}

func (f *frames) uint32() (uint32, error) {
	b, err := f.take(4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (f *frames) take(n uint64) ([]byte, error) {
	if n > uint64(len(f.rest)) {
		return nil, fmt.Errorf("%d bytes announced, %d left", n, len(f.rest))
	}
	taken := f.rest[:n:n]
	f.rest = f.rest[n:]
	return taken, nil
}

// validate checks that the buffers of an array hold what its length, offset
// and offsets say: arrow trusts them and would read beyond. Types that no
// schema of ours uses are refused.
func validate(data arrow.ArrayData) error {
	end := data.Offset() + data.Len()
	if data.Len() < 0 || data.Offset() < 0 || end < 0 || end > math.MaxInt32 {
		return fmt.Errorf("%d values from %d", data.Len(), data.Offset())
	}
	buffer := func(i int) int {
		if i >= len(data.Buffers()) || data.Buffers()[i] == nil {
			return 0
		}
		return data.Buffers()[i].Len()
	}
	if n := buffer(0); data.NullN() != 0 && n*8 < end {
		return fmt.Errorf("a validity bitmap of %d bytes for %d values", n, end)
	}
	switch t := data.DataType().(type) {
	case *arrow.NullType:
		return nil
	case *arrow.BooleanType:
		if buffer(1)*8 < end {
			return fmt.Errorf("%d bytes for %d booleans", buffer(1), end)
		}
		return nil
	case *arrow.StringType:
		return validateOffsets(data, end, buffer(2))
	case *arrow.ListType:
		child := data.Children()[0]
		if err := validate(child); err != nil {
			return err
		}
		return validateOffsets(data, end, child.Len())
	case *arrow.FixedSizeListType:
		child := data.Children()[0]
		if err := validate(child); err != nil {
			return err
		}
		if t.Len() < 0 || int64(child.Len()) < int64(end)*int64(t.Len()) {
			return fmt.Errorf("%d values for %d lists of %d", child.Len(), end, t.Len())
		}
		return nil
	case *arrow.StructType:
		for _, child := range data.Children() {
			if err := validate(child); err != nil {
				return err
			}
			if child.Len() < end {
				return fmt.Errorf("%d values for %d structs", child.Len(), end)
			}
		}
		return nil
	case arrow.FixedWidthDataType:
		if t.ID() == arrow.DICTIONARY || t.ID() == arrow.EXTENSION {
			return fmt.Errorf("type %v is not used here", t)
		}
		if int64(buffer(1))*8 < int64(end)*int64(t.BitWidth()) {
			return fmt.Errorf("%d bytes for %d values of type %v", buffer(1), end, t)
		}
		return nil
	}
	return fmt.Errorf("type %v is not used here", data.DataType())
}

func validateOffsets(data arrow.ArrayData, end, limit int) error {
	if data.Len() == 0 {
		return nil
	}
	b := data.Buffers()[1]
	if b == nil || b.Len() < (end+1)*arrow.Int32SizeBytes {
		return fmt.Errorf("too few offsets for %d values", end)
	}
	offsets := arrow.Int32Traits.CastFromBytes(b.Bytes())[data.Offset() : end+1]
	last := int32(0)
	for _, o := range offsets {
		if o < last || int(o) > limit {
			return fmt.Errorf("offset %d after %d, of %d", o, last, limit)
		}
		last = o
	}
	return nil
}

// boundedAllocator refuses, by a panic that decode turns into an error, what
// would take more than left, and remembers what is out so that it can be freed
// after a panic of arrow's.
type boundedAllocator struct {
	mem  memory.Allocator
	left int
	live map[*byte][]byte
}

func (a *boundedAllocator) Allocate(size int) []byte {
	if size < 0 || size > a.left {
		panic(fmt.Sprintf("%d bytes asked for, %d allowed", size, a.left))
	}
	a.left -= size
	b := a.mem.Allocate(size)
	a.track(b)
	return b
}

func (a *boundedAllocator) Reallocate(size int, b []byte) []byte {
	if size < 0 || size-len(b) > a.left {
		panic(fmt.Sprintf("%d bytes asked for, %d allowed", size, a.left))
	}
	a.left -= max(size-len(b), 0)
	a.forget(b)
	b = a.mem.Reallocate(size, b)
	a.track(b)
	return b
}

func (a *boundedAllocator) Free(b []byte) {
	a.forget(b)
	a.mem.Free(b)
}

func (a *boundedAllocator) track(b []byte) {
	if a.live != nil && cap(b) > 0 {
		a.live[unsafe.SliceData(b)] = b
	}
}

func (a *boundedAllocator) forget(b []byte) {
	if a.live != nil && cap(b) > 0 {
		delete(a.live, unsafe.SliceData(b))
	}
}

func (a *boundedAllocator) freeAll() {
	for _, b := range a.live {
		a.mem.Free(b)
	}
	a.live = nil
}

// fingerprint is the header by which a reader tells one schema from another.
func fingerprint(schema *arrow.Schema) string {
	return DigestOf([]byte(schema.String())).Short()
}
