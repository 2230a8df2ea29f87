package wire

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
)

// Record is an identity, notes and tensors. A large record takes several messages, its chunks. Statistics and weights are
// records.
type Record[T Number] struct {
	Identity
	Notes   []Header // further headers; their order is part of the digest
	Tensors Tensors[T]
}

// Note returns the value of the first note with that key, or "" if there is none.
func (r *Record[T]) Note(key string) string {
	for _, n := range r.Notes {
		if n.Key == key {
			return n.Value
		}
	}
	return ""
}

// Widened returns a record with the values of r in double precision.
func Widened(r *Record[float32]) *Record[float64] {
	wide := &Record[float64]{Identity: r.Identity, Notes: r.Notes, Tensors: make(Tensors[float64], len(r.Tensors))}
	for i, t := range r.Tensors {
		to := Tensor[float64]{Name: t.Name, Shape: t.Shape, Text: t.Text}
		if t.Text == nil {
			to.Data = make([]float64, len(t.Data))
		}
		for at, v := range t.Data {
			to.Data[at] = float64(v)
		}
		wide.Tensors[i] = to
	}
	return wide
}

// Damaged returns an error for a record whose content does not fit its kind.
func (r *Record[T]) Damaged(err error) error {
	return fmt.Errorf("%w: read %v: %w", ErrDamaged, r.Identity, err)
}

// Digest returns the digest of the identity, the notes and every bit of the tensors. The identity contains the parent's
// digest, so a digest identifies the whole chain of records before it.
func (r *Record[T]) Digest() Digest {
	h := newHasher()
	h.text(string(r.Kind), r.Run, string(r.Parent))
	h.int(r.Stage, r.Visit, r.Partition, len(r.Notes))
	for _, n := range r.Notes {
		h.text(n.Key, n.Value)
	}
	r.Tensors.write(h)
	return h.digest()
}

// segmentValues is the maximum number of a tensor's values in one row of a message. A chunk has at least one row.
const segmentValues = 4096

// format is the Arrow schema of a record's messages, with its fingerprint.
type format struct {
	Schema      *arrow.Schema
	fingerprint string
}

var singleFormat, doubleFormat = newFormat(arrow.PrimitiveTypes.Float32), newFormat(arrow.PrimitiveTypes.Float64)

// FormatOf returns the format of records in the precision of T.
func FormatOf[T Number]() format {
	if _, single := any(T(0)).(float32); single {
		return singleFormat
	}
	return doubleFormat
}

func newFormat(item arrow.DataType) format {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "tensor", Type: arrow.BinaryTypes.String},
		{Name: "shape", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)},
		{Name: "offset", Type: arrow.PrimitiveTypes.Int64},
		{Name: "values", Type: arrow.ListOf(item)},
		{Name: "text", Type: arrow.ListOf(arrow.BinaryTypes.String)},
	}, nil)
	return format{schema, Fingerprint(schema)}
}

// segment is one row of a chunk: consecutive values or texts of a tensor.
type segment[T Number] struct {
	tensor *Tensor[T]
	offset int
	values []T
	text   []string
}

// bytes estimates the encoded length of the segment.
func (s segment[T]) bytes() int {
	size := 64 + len(s.tensor.Name) + 8*len(s.tensor.Shape) + int(unsafe.Sizeof(T(0)))*len(s.values)
	for _, t := range s.text {
		size += 8 + len(t)
	}
	return size
}

// segments splits the tensor into rows of chunks, at least one.
func (t *Tensor[T]) segments() []segment[T] {
	segments := []segment[T]{}
	for offset := 0; offset < len(t.Data); offset += segmentValues {
		segments = append(segments, segment[T]{t, offset, t.Data[offset:min(offset+segmentValues, len(t.Data))], nil})
	}
	for offset := 0; offset < len(t.Text); {
		end, size := offset, 0
		for end < len(t.Text) && (end == offset || size+len(t.Text[end]) < 16*segmentValues) {
			size += 8 + len(t.Text[end])
			end++
		}
		segments = append(segments, segment[T]{t, offset, nil, t.Text[offset:end]})
		offset = end
	}
	if len(segments) == 0 {
		segments = append(segments, segment[T]{t, 0, nil, nil})
	}
	return segments
}

// IsSingle reports whether a message belongs to a record in single precision.
func IsSingle(m Message) bool { return m.Get("schema") == singleFormat.fingerprint }

// EncodeWithin encodes the record as messages of about that many bytes at most; 0: [MaxMessage]. A message may be longer, because it
// has at least one row of a tensor. Each has the digest of the whole record. EncodeWithin panics if a tensor does not fit its shape. It
// returns an error if a single text exceeds a message, or if the record takes more than 10,000 messages.
func (r *Record[T]) EncodeWithin(bytes int, mem memory.Allocator) (messages []Message, err error) {
	for m, err := range r.EachWithin(bytes, mem) {
		if err != nil {
			return nil, err
		}
		messages = append(messages, m)
	}
	return messages, nil
}

// EachWithin is [Record.EncodeWithin] with one message at a time, to bound the memory of a large record. It ends after an
// error.
func (r *Record[T]) EachWithin(bytes int, mem memory.Allocator) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		chunks, err := r.Tensors.chunks(bytes)
		if err != nil {
			yield(Message{}, fmt.Errorf("encode %v: %w", r.Identity, err))
			return
		}
		digest, form := r.Digest(), FormatOf[T]()
		for i, segments := range chunks {
			value, err := encodeSegments(segments, nil, mem)
			if err == nil && len(value) > MaxMessage {
				err = fmt.Errorf("tensor %q: a text takes %d bytes, expected at most %d", segments[0].tensor.Name, len(value), MaxMessage)
			}
			if err != nil {
				yield(Message{}, fmt.Errorf("encode %v: %w", r.Identity, err))
				return
			}
			headers := append(r.Headers(), Header{"chunk", strconv.Itoa(i)}, Header{"chunks", strconv.Itoa(len(chunks))},
				Header{"digest", string(digest)}, Header{"schema", form.fingerprint}, Header{"notes", strconv.Itoa(len(r.Notes))})
			if !yield(Message{Key: r.Key(i), Headers: append(headers, r.Notes...), Value: value}, nil) {
				return
			}
		}
	}
}

// chunks divides the tensors into chunks of about that many bytes.
func (t Tensors[T]) chunks(bytes int) ([][]segment[T], error) {
	if err := t.Complete(); err != nil {
		panic(fmt.Sprintf("schemas: encode: %v", err))
	}
	maxBytes := cmp.Or(bytes, MaxMessage) - 16<<10 // headers, schema and framing take the rest
	var chunks [][]segment[T]
	left := 0
	for i := range t {
		for _, s := range t[i].segments() {
			if s.bytes() > left {
				chunks, left = append(chunks, nil), maxBytes
			}
			last := len(chunks) - 1
			chunks[last] = append(chunks[last], s)
			left -= s.bytes()
		}
	}
	if len(chunks) == 0 {
		chunks = append(chunks, nil)
	}
	if len(chunks) > maxChunks {
		return nil, fmt.Errorf("%d chunks, expected at most %d", len(chunks), maxChunks)
	}
	return chunks, nil
}

// encodeSegments encodes segments as one value.
func encodeSegments[T Number](segments []segment[T], metadata *arrow.Metadata, mem memory.Allocator) ([]byte, error) {
	n := len(segments)
	names, shapes, offsets, values, texts := make([]string, n), make([][]int64, n), make([]int64, n), make([][]T, n), make([][]string, n)
	for i, s := range segments {
		names[i], offsets[i], values[i], texts[i] = s.tensor.Name, int64(s.offset), s.values, s.text
		for _, size := range s.tensor.Shape {
			shapes[i] = append(shapes[i], int64(size))
		}
	}
	columns := make([]stream.Column, 5)
	for i, column := range []any{names, shapes, offsets, values, texts} {
		columns[i] = stream.Column{Field: FormatOf[T]().Schema.Field(i), Values: column}
	}
	record := stream.NewRecord(mem, n, metadata, columns...)
	defer record.Release()
	return stream.Encode(record, mem)
}

// Notes returns the notes of a record's message. They are its last headers.
func Notes(m Message) []Header {
	for i, h := range m.Headers {
		if h.Key == "notes" {
			if n, err := strconv.Atoi(h.Value); err == nil && n > 0 && n <= len(m.Headers)-i-1 {
				return m.Headers[i+1 : i+1+n]
			}
		}
	}
	return nil
}

// assembly assembles the tensors of a record from its chunks.
type assembly[T Number] struct {
	tensors Tensors[T]
	left    int // number of values that the last and further tensors may allocate in advance
}

// newAssembly makes an assembly for chunks with that many bytes in total.
func newAssembly[T Number](bytes int) *assembly[T] {
	return &assembly[T]{left: bytes / int(unsafe.Sizeof(T(0)))}
}

// decode decodes the next chunk, and appends copies of its rows to the tensors.
func (a *assembly[T]) decode(value []byte, mem memory.Allocator) error {
	record, err := stream.Decode(value, mem, nil)
	if err != nil {
		return err
	}
	defer record.Release()
	return a.add(record)
}

// add appends copies of a chunk's rows to the tensors. A row with offset 0 begins a tensor, and any other row must
// continue the last one.
func (a *assembly[T]) add(record arrow.Record) error {
	if want := FormatOf[T]().Schema; !record.Schema().Equal(want) {
		return fmt.Errorf("%w: schema %s, expected %s", ErrDamaged, Fingerprint(record.Schema()), Fingerprint(want))
	}
	if Nulls(record.Columns()...) > 0 {
		return fmt.Errorf("%w: nulls in a record", ErrDamaged)
	}
	names, shapes := record.Column(0).(*array.String), record.Column(1).(*array.List)
	offsets, lists, texts := record.Column(2).(*array.Int64), record.Column(3).(*array.List), record.Column(4).(*array.List)
	sizes := shapes.ListValues().(*array.Int64)
	data, _ := stream.Raw[T](lists.ListValues())
	words := texts.ListValues().(*array.String)
	for row := range int(record.NumRows()) {
		if offsets.Value(row) == 0 {
			from, to := shapes.ValueOffsets(row)
			first, end := lists.ValueOffsets(row)
			a.begin(names.Value(row), sizes.Int64Values()[from:to], int(end-first))
		}
		last := len(a.tensors) - 1
		if last < 0 || names.Value(row) != a.tensors[last].Name || int64(len(a.tensors[last].Data)+
			len(a.tensors[last].Text)) != offsets.Value(row) {
			return fmt.Errorf("%w: row %d does not begin where the previous row ends", ErrDamaged, row)
		}
		t := &a.tensors[last]
		from, to := lists.ValueOffsets(row)
		t.Data = append(t.Data, data[from:to]...)
		from, to = texts.ValueOffsets(row)
		for i := from; i < to; i++ {
			t.Text = append(t.Text, string([]byte(words.Value(int(i)))))
		}
	}
	return nil
}

// Nulls returns the number of nulls of columns, and of the items of lists in them.
func Nulls(columns ...arrow.Array) (n int) {
	for _, c := range columns {
		n += c.NullN()
		if lists, ok := c.(array.ListLike); ok {
			n += lists.ListValues().NullN()
		}
	}
	return n
}

// begin begins a tensor. It allocates the values in advance if they are in several rows and the chunks are large enough for the claimed
// shape. Otherwise the slice grows with the values. row is the number of values of the first row.
func (a *assembly[T]) begin(name string, sizes []int64, row int) {
	if last := len(a.tensors) - 1; last >= 0 {
		a.left -= cap(a.tensors[last].Data)
	}
	t := Tensor[T]{Name: string([]byte(name)), Shape: make([]int, len(sizes))}
	size := 1
	for i, n := range sizes {
		t.Shape[i] = int(n)
		if n <= 0 || int64(size) > int64(a.left)/n {
			size = 0
			continue
		}
		size *= int(n)
	}
	if size > row && row > 0 {
		t.Data = make([]T, 0, size)
	}
	a.tensors = append(a.tensors, t)
}

// Complete returns an error if a tensor's number of values or texts differs from its shape.
func (t Tensors[T]) Complete() error {
	for _, tensor := range t {
		product := 1
		for _, n := range tensor.Shape {
			if n < 0 || n > 0 && product > math.MaxInt32*256/n {
				return fmt.Errorf("tensor %q has shape %v", tensor.Name, tensor.Shape)
			}
			product *= n
		}
		if product != len(tensor.Data)+len(tensor.Text) || len(tensor.Data) > 0 && len(tensor.Text) > 0 {
			return fmt.Errorf("tensor %q of shape %v has %d values", tensor.Name, tensor.Shape, len(tensor.Data)+len(tensor.Text))
		}
	}
	return nil
}

// TensorsDigest returns the digest of tensors in a file: over the tensors in their order, for each its values and then
// its texts, with line breaks between them.
func TensorsDigest(tensors Tensors[float32]) Digest {
	h := newHasher()
	for _, t := range tensors {
		writeNumbers(h, t.Data)
		h.WriteString(strings.Join(t.Text, "\n"))
	}
	return h.digest()
}

// WriteTensors writes tensors as an Arrow IPC stream with the schema of a record, and one entry of metadata. It returns
// the number of bytes written.
func WriteTensors(w io.Writer, key, metadata string, tensors Tensors[float32], mem memory.Allocator) (int64, error) {
	of := arrow.NewMetadata([]string{key}, []string{metadata})
	var segments []segment[float32]
	for i := range tensors {
		segments = append(segments, tensors[i].segments()...)
	}
	value, err := encodeSegments(segments, &of, mem)
	if err != nil {
		return 0, fmt.Errorf("encode tensors: %w", err)
	}
	n, err := w.Write(value)
	return int64(n), err
}

// ReadTensors is the inverse of [WriteTensors]. ok is false if the stream has no metadata with that key. An error about
// the bytes wraps [ErrDamaged].
func ReadTensors(r io.Reader, key string, mem memory.Allocator) (metadata string, tensors Tensors[float32], ok bool, err error) {
	value, err := io.ReadAll(r)
	if err != nil {
		return "", nil, false, err
	}
	record, err := stream.Decode(value, mem, nil)
	if err != nil {
		return "", nil, false, err
	}
	defer record.Release()
	of := record.Schema().Metadata()
	if metadata, ok = of.GetValue(key); !ok {
		return "", nil, false, nil
	}
	a := newAssembly[float32](len(value))
	if err := a.add(record); err != nil {
		return "", nil, false, err
	}
	if err := a.tensors.Complete(); err != nil {
		return "", nil, false, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	return metadata, a.tensors, true, nil
}
