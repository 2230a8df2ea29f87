package pipeline

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
)

// memo is a codec that does the work of Arrow and JSON once for each content:
// schedules say the same over and over, and that took three quarters of their time.
// What it answers with is what the codec of the topics would.
type memo struct {
	*remembered
	run.Codec
	mem   memory.Allocator
	chunk int
}

func newMemo(r *remembered, chunk int) *memo {
	return &memo{r, run.NewCodec(nil, chunk), memory.DefaultAllocator, chunk}
}

func (c *memo) bytes() int { return cmp.Or(c.chunk, schemas.MaxMessage) }

// remembered is what the codecs of a world's simulations have in common: for each
// thing that is said, what it was last time.
type remembered struct {
	singles   mapped[recordOf, *chunked[float32]]
	doubles   mapped[recordOf, *chunked[float64]]
	float32s  mapped[recordOf, *chunked[float32]] // as they were read
	float64s  mapped[recordOf, *chunked[float64]]
	lefts     mapped[leftOf, *left]
	parts     mapped[partOf, *part]
	batches   mapped[*byte, *schemas.Examples]
	plans     mapped[string, *planned]
	manifests mapped[string, *versioned]
}

// mapped is a map that goroutines share.
type mapped[K comparable, V any] struct {
	mutex sync.RWMutex
	of    map[K]V
}

func (m *mapped[K, V]) get(k K) V {
	m.mutex.RLock()
	defer m.mutex.RUnlock()
	return m.of[k]
}

func (m *mapped[K, V]) put(k K, v V) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.of == nil {
		m.of = map[K]V{}
	}
	m.of[k] = v
}

// recordOf is a record, and how it is cut: the bytes of a message at most, or how
// many messages it came in.
type recordOf struct {
	schemas.Identity
	cut int
}

// chunked is tensors, and the values of the messages that hold them.
type chunked[T schemas.Number] struct {
	tensors schemas.Tensors[T]
	values  [][]byte
}

func (c *memo) EncodeSingle(r *schemas.Record[float32]) ([]schemas.Message, error) {
	return messagesBy(&c.singles, c, r)
}

func (c *memo) EncodeDouble(r *schemas.Record[float64]) ([]schemas.Message, error) {
	return messagesBy(&c.doubles, c, r)
}

func messagesBy[T schemas.Number](known *mapped[recordOf, *chunked[T]], c *memo, r *schemas.Record[T]) ([]schemas.Message, error) {
	of := recordOf{r.Identity, c.chunk}
	k := known.get(of)
	if k == nil || !equal(k.tensors, r.Tensors) {
		values, err := r.Tensors.EncodeWithin(c.bytes(), c.mem)
		if err != nil {
			return nil, err
		}
		k = &chunked[T]{own(r.Tensors), values}
		known.put(of, k)
	}
	return r.Messages(k.values), nil
}

// equal tells whether tensors have the same bits.
func equal[T schemas.Number](a, b schemas.Tensors[T]) bool {
	return slices.EqualFunc(a, b, func(a, b schemas.Tensor[T]) bool {
		return a.Name == b.Name && slices.Equal(a.Shape, b.Shape) && bytes.Equal(raws(a.Data), raws(b.Data)) && slices.Equal(a.Text, b.Text)
	})
}

// raws is the bytes of numbers.
func raws[T schemas.Number](data []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(T(0))))
}

// own is tensors whose numbers are nobody else's.
func own[T schemas.Number](t schemas.Tensors[T]) schemas.Tensors[T] {
	t = slices.Clone(t)
	for i := range t {
		t[i].Data = slices.Clone(t[i].Data)
	}
	return t
}

func (c *memo) CollectSingle(of *schemas.Collector[float32], m schemas.Message) (*schemas.Record[float32], error) {
	return collectedBy(&c.float32s, c, of, m)
}

func (c *memo) CollectDouble(of *schemas.Collector[float64], m schemas.Message) (*schemas.Record[float64], error) {
	r, err := collectedBy(&c.float64s, c, of, m)
	if r != nil {
		r.Tensors = own(r.Tensors) // who sums sums into them
	}
	return r, err
}

func collectedBy[T schemas.Number](known *mapped[recordOf, *chunked[T]], c *memo, by *schemas.Collector[T], m schemas.Message) (*schemas.Record[T], error) {
	chunks, err := by.Collect(m)
	if err != nil || chunks == nil {
		return nil, err
	}
	of := recordOf{chunks.Identity, len(chunks.Values)}
	k := known.get(of)
	if k == nil || !slices.EqualFunc(k.values, chunks.Values, bytes.Equal) {
		tensors, err := schemas.DecodeTensors[T](chunks.Values, c.mem)
		if err != nil {
			return nil, err
		}
		k = &chunked[T]{tensors, chunks.Values}
		known.put(of, k)
	}
	return chunks.Record(k.tensors)
}

// leftOf is which residuals messages are.
type leftOf struct {
	schemas.Identity
	attempt string
	offset  int64
}

// left is their content.
type left struct {
	score, residual kernel.Dense
	messages        []schemas.Message
}

func (c *memo) EncodeResiduals(id schemas.Identity, attempt string, offset int64, score, residual kernel.Dense) ([]schemas.Message, error) {
	of := leftOf{id, attempt, offset}
	same := func(a, b kernel.Dense) bool {
		return a.Rows == b.Rows && a.Cols == b.Cols && bytes.Equal(raws(a.Data), raws(b.Data))
	}
	if k := c.lefts.get(of); k != nil && same(k.score, score) && same(k.residual, residual) {
		return k.messages, nil
	}
	messages, err := c.Codec.EncodeResiduals(id, attempt, offset, score, residual)
	if err == nil {
		score.Data, residual.Data = slices.Clone(score.Data), slices.Clone(residual.Data)
		c.lefts.put(of, &left{score, residual, messages})
	}
	return messages, err
}

// partOf is which residuals messages are of one place.
type partOf struct{ key, attempt string }

// part is a residuals message, and what it says.
type part struct {
	message schemas.Message
	classes int
	says    *schemas.Residuals
}

func (c *memo) DecodeResiduals(m schemas.Message, classes int) (*schemas.Residuals, error) {
	is := partOf{m.Key, m.Get("attempt")}
	k := c.parts.get(is)
	if k != nil && k.classes == classes && slices.Equal(k.message.Headers, m.Headers) && bytes.Equal(k.message.Value, m.Value) {
		return k.says, nil
	}
	says, err := c.Codec.DecodeResiduals(m, classes)
	if err == nil {
		c.parts.put(is, &part{m, classes, says})
	}
	return says, err
}

func (c *memo) DecodeExamples(value []byte) (*schemas.Examples, error) {
	of := unsafe.SliceData(value) // a world has each once
	e := c.batches.get(of)
	if e == nil {
		var err error
		if e, err = c.Codec.DecodeExamples(value); err != nil {
			return nil, err
		}
		c.batches.put(of, e)
	}
	e.Retain()
	return e, nil
}

// planned is a plan, the id of its run, and what it was read from.
type planned struct {
	value []byte
	plan  *schemas.Plan
	id    string
}

func (c *memo) DecodePlan(m schemas.Message) (*schemas.Plan, string, error) {
	if k := c.plans.get(m.Key); k != nil && bytes.Equal(k.value, m.Value) {
		return k.plan, k.id, nil
	}
	p, id, err := c.Codec.DecodePlan(m)
	if err == nil {
		c.plans.put(m.Key, &planned{m.Value, p, id})
	}
	return p, id, err
}

// versioned is a manifest, and what it was read from.
type versioned struct {
	value    []byte
	manifest *schemas.Manifest
}

func (c *memo) DecodeManifest(m schemas.Message) (*schemas.Manifest, error) {
	if k := c.manifests.get(m.Key); k != nil && bytes.Equal(k.value, m.Value) {
		return k.manifest, nil
	}
	manifest, err := c.Codec.DecodeManifest(m)
	if err == nil {
		c.manifests.put(m.Key, &versioned{m.Value, manifest})
	}
	return manifest, err
}

// changed tells whether anybody has changed what simulations share.
func (r *remembered) changed() error {
	for of, k := range r.float32s.of {
		if tensors, err := schemas.DecodeTensors[float32](k.values, memory.DefaultAllocator); err != nil || !equal(tensors, k.tensors) {
			return fmt.Errorf("the %v was changed by who had it read: %v", of.Identity, err)
		}
	}
	return nil
}
