package pipeline

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"iter"
	"reflect"
	"slices"
	"sync"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/residuals"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
)

// cachingCodec returns what the codec of the topics returns, but encodes and decodes each content only once. Schedules repeat
// the same records over and over: without the cache, Arrow and JSON take three quarters of the simulation's time.
type cachingCodec struct {
	*codecCache
	protocol.Codec
	mem   memory.Allocator
	chunk int // how many bytes a message may have; 0: the brokers' limit
}

func newCachingCodec(cache *codecCache, chunk int) *cachingCodec {
	return &cachingCodec{cache, protocol.NewCodec(nil, chunk), memory.DefaultAllocator, chunk}
}

func (c *cachingCodec) maxBytes() int { return cmp.Or(c.chunk, wire.MaxMessage) }

// codecCache has the last contents of the latest keys, encoded and decoded. The simulations of a scenario share it. An entry counts
// only if its content is what is asked for, bit by bit.
type codecCache struct {
	seed             maphash.Seed
	encodedSingles   sharedMap[tensorsKey, *encodedTensors[float32]]
	encodedDoubles   sharedMap[tensorsKey, *encodedTensors[float64]]
	decodedSingles   sharedMap[tensorsKey, *encodedTensors[float32]]
	decodedDoubles   sharedMap[tensorsKey, *encodedTensors[float64]]
	encodedResiduals sharedMap[residualsKey, *encodedResiduals]
	decodedResiduals sharedMap[residualsMessageKey, *decodedResiduals]
	examples         sharedMap[*byte, *examples.Batch]
	json             sharedMap[string, *decodedJSON]
	surveys          sharedMap[*wire.Tensor[float32], *decodedSurvey]
	documents        sharedMap[documentKey, []byte]
}

func newCodecCache() *codecCache { return &codecCache{seed: maphash.MakeSeed()} }

// hash returns the hash of what write writes.
func (c *codecCache) hash(write func(*maphash.Hash)) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	write(&h)
	return h.Sum64()
}

// check returns an error if somebody has changed what was decoded, which simulations share and nobody may change.
func (c *codecCache) check() error {
	for key, entry := range c.decodedSingles.all() {
		if tensors, err := wire.DecodeTensors[float32](entry.values, memory.DefaultAllocator); err != nil || !sameBits(tensors, entry.tensors) {
			return fmt.Errorf("the tensors with the hash %x were changed after they were decoded: %v", key.hash, err)
		}
	}
	for _, entry := range c.surveys.all() {
		if again, err := statistics.SurveyResultOf(entry.record); err != nil || !reflect.DeepEqual(again, entry.result) {
			return fmt.Errorf("the %v was changed after it was decoded: %v", entry.record.Identity, err)
		}
	}
	for key, entry := range c.json.all() {
		if again, err := entry.decode(entry.message); err != nil || !reflect.DeepEqual(again, entry.value) {
			return fmt.Errorf("%s was changed after it was decoded: %v", key, err)
		}
	}
	return nil
}

// maxShared is how many entries a sharedMap may add before it forgets those that nobody has asked for meanwhile. Plans and manifests
// name offsets, and so new ones, and new records of their runs, come with every schedule.
const maxShared = 1 << 7

// sharedMap is a map that several goroutines may use. It has up to twice maxShared entries: those that were added or asked for last. The
// zero value is empty.
type sharedMap[K comparable, V any] struct {
	mutex           sync.RWMutex
	latest, earlier map[K]V
}

func (m *sharedMap[K, V]) get(k K) V {
	m.mutex.RLock()
	v, latest := m.latest[k]
	earlier := false
	if !latest {
		v, earlier = m.earlier[k]
	}
	m.mutex.RUnlock()
	if earlier {
		m.put(k, v)
	}
	return v
}

func (m *sharedMap[K, V]) put(k K, v V) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.latest == nil || len(m.latest) >= maxShared {
		m.latest, m.earlier = map[K]V{}, m.latest
	}
	m.latest[k] = v
}

// all returns all entries.
func (m *sharedMap[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, entries := range []map[K]V{m.latest, m.earlier} {
			for k, v := range entries {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// tensorsKey is a hash of tensors, or of the values of messages that contain them, which do not depend on whose record
// it is, and the size of a message when they are encoded.
type tensorsKey struct {
	hash  uint64
	chunk int
}

// encodedTensors is tensors, and the values of the messages that contain them.
type encodedTensors[T wire.Number] struct {
	tensors wire.Tensors[T]
	values  [][]byte
	of      *wire.Chunks[T] // whose record has the digest that it claims; nil if the tensors were encoded
}

func (c *cachingCodec) EncodeSingle(r *wire.Record[float32]) ([]wire.Message, error) {
	return encodeCached(&c.encodedSingles, c, r)
}

func (c *cachingCodec) EncodeDouble(r *wire.Record[float64]) ([]wire.Message, error) {
	return encodeCached(&c.encodedDoubles, c, r)
}

func encodeCached[T wire.Number](cache *sharedMap[tensorsKey, *encodedTensors[T]], c *cachingCodec,
	r *wire.Record[T]) ([]wire.Message, error) {
	key := tensorsKey{c.hash(func(h *maphash.Hash) {
		for _, t := range r.Tensors {
			h.WriteString(t.Name)
			h.Write(rawBytes(t.Data))
			for _, text := range t.Text {
				h.WriteString(text)
			}
		}
	}), c.chunk}
	entry := cache.get(key)
	if entry == nil || !sameBits(entry.tensors, r.Tensors) {
		values, err := r.Tensors.EncodeWithin(c.maxBytes(), c.mem)
		if err != nil {
			return nil, err
		}
		entry = &encodedTensors[T]{tensors: cloneTensors(r.Tensors), values: values}
		cache.put(key, entry)
	}
	return r.Messages(entry.values), nil
}

func (c *cachingCodec) CollectSingle(collector *wire.Collector[float32], m wire.Message) (*wire.Record[float32], error) {
	return collectCached(&c.decodedSingles, c, collector, m)
}

func (c *cachingCodec) CollectDouble(collector *wire.Collector[float64], m wire.Message) (*wire.Record[float64], error) {
	r, err := collectCached(&c.decodedDoubles, c, collector, m)
	if r != nil {
		if err := statistics.CheckCounts(r); err != nil {
			return nil, err
		}
		r.Tensors = cloneTensors(r.Tensors) // the caller adds other sums to them
	}
	return r, err
}

func collectCached[T wire.Number](cache *sharedMap[tensorsKey, *encodedTensors[T]], c *cachingCodec, collector *wire.Collector[T],
	m wire.Message) (*wire.Record[T], error) {
	chunks, err := collector.Collect(m)
	if err != nil || chunks == nil {
		return nil, err
	}
	key := tensorsKey{hash: c.hash(func(h *maphash.Hash) {
		for _, value := range chunks.Values {
			h.Write(value)
		}
	})}
	entry := cache.get(key)
	if entry == nil || !slices.EqualFunc(entry.values, chunks.Values, bytes.Equal) {
		tensors, err := wire.DecodeTensors[T](chunks.Values, c.mem)
		if err != nil {
			return nil, err
		}
		entry = &encodedTensors[T]{tensors: tensors, values: chunks.Values}
	} else if of := entry.of; of != nil && of.Identity == chunks.Identity && of.Digest == chunks.Digest && slices.Equal(of.Notes,
		chunks.Notes) {
		return &wire.Record[T]{Identity: chunks.Identity, Notes: chunks.Notes, Tensors: entry.tensors}, nil
	}
	r, err := chunks.Record(entry.tensors)
	if err == nil {
		cache.put(key, &encodedTensors[T]{entry.tensors, entry.values, chunks})
	}
	return r, err
}

// decodedSurvey is the record of a survey's result, and what it says.
type decodedSurvey struct {
	record *wire.Record[float32]
	result *statistics.SurveyResult
}

func (c *cachingCodec) SurveyResult(r *wire.Record[float32]) (*statistics.SurveyResult, error) {
	key := unsafe.SliceData(r.Tensors) // all who decode the same content share its tensors
	if entry := c.surveys.get(key); entry != nil && entry.record.Identity == r.Identity &&
		len(entry.record.Tensors) == len(r.Tensors) && slices.Equal(entry.record.Notes, r.Notes) {
		return entry.result, nil
	}
	result, err := c.Codec.SurveyResult(r)
	if err == nil {
		c.surveys.put(key, &decodedSurvey{r, result})
	}
	return result, err
}

// documentKey is a document of one message, and the digest that it claims.
type documentKey struct {
	key    string
	digest wire.Digest
}

func (c *cachingCodec) Document(d *wire.Documents, m wire.Message) (whole wire.Message, ok bool, err error) {
	key := documentKey{m.Key, m.Digest()}
	if known := c.documents.get(key); known != nil && m.Get("chunks") == "1" && bytes.Equal(known, m.Value) {
		return m, true, nil
	}
	whole, ok, err = c.Codec.Document(d, m)
	if ok && m.Get("chunks") == "1" {
		c.documents.put(key, m.Value)
	}
	return whole, ok, err
}

// residualsKey is which residuals messages are encoded.
type residualsKey struct {
	wire.Identity
	attempt string
	offset  int64
}

// encodedResiduals is what was published of rows, and the messages that contain it.
type encodedResiduals struct {
	sink.Finished
	messages []wire.Message
}

func (c *cachingCodec) EncodeResiduals(id wire.Identity, attempt string, offset int64, f sink.Finished) ([]wire.Message, error) {
	key := residualsKey{id, attempt, offset}
	same := func(a, b kernel.Dense) bool {
		return a.Rows == b.Rows && a.Cols == b.Cols && bytes.Equal(rawBytes(a.Data), rawBytes(b.Data))
	}
	if entry := c.encodedResiduals.get(key); entry != nil && same(entry.Score, f.Score) && same(entry.Residual, f.Residual) &&
		same(entry.Votes, f.Votes) {
		return entry.messages, nil
	}
	messages, err := c.Codec.EncodeResiduals(id, attempt, offset, f)
	if err == nil {
		for _, matrix := range []*kernel.Dense{&f.Score, &f.Residual, &f.Votes} {
			matrix.Data = slices.Clone(matrix.Data)
		}
		c.encodedResiduals.put(key, &encodedResiduals{f, messages})
	}
	return messages, err
}

// residualsMessageKey is which residuals message is decoded.
type residualsMessageKey struct{ key, attempt string }

// decodedResiduals is a residuals message, and what it decodes to.
type decodedResiduals struct {
	message   wire.Message
	classes   int
	residuals *residuals.Message
}

func (c *cachingCodec) DecodeResiduals(m wire.Message, classes int) (*residuals.Message, error) {
	key := residualsMessageKey{m.Key, m.Get("attempt")}
	entry := c.decodedResiduals.get(key)
	if entry != nil && entry.classes == classes && slices.Equal(entry.message.Headers, m.Headers) && bytes.Equal(entry.message.Value,
		m.Value) {
		return entry.residuals, nil
	}
	residuals, err := c.Codec.DecodeResiduals(m, classes)
	if err == nil {
		c.decodedResiduals.put(key, &decodedResiduals{m, classes, residuals})
	}
	return residuals, err
}

func (c *cachingCodec) DecodeExamples(value []byte) (*examples.Batch, error) {
	key := unsafe.SliceData(value) // all simulations of a scenario share the bytes of its examples
	examples := c.examples.get(key)
	if examples == nil {
		var err error
		if examples, err = c.Codec.DecodeExamples(value); err != nil {
			return nil, err
		}
		c.examples.put(key, examples)
	}
	examples.Retain()
	return examples, nil
}

// decodedJSON is a message that is JSON, and what it decodes to.
type decodedJSON struct {
	message wire.Message
	decode  func(wire.Message) (any, error)
	value   any
}

func (c *cachingCodec) Once(m wire.Message, decode func(wire.Message) (any, error)) (any, error) {
	if entry := c.json.get(m.Key); entry != nil && entry.message.Kind() == m.Kind() && bytes.Equal(entry.message.Value, m.Value) {
		return entry.value, nil
	}
	value, err := c.Codec.Once(m, decode)
	if err == nil {
		c.json.put(m.Key, &decodedJSON{m, decode, value})
	}
	return value, err
}

// sameBits reports whether tensors are equal bit by bit.
func sameBits[T wire.Number](a, b wire.Tensors[T]) bool {
	return slices.EqualFunc(a, b, func(a, b wire.Tensor[T]) bool {
		return a.Name == b.Name && slices.Equal(a.Shape, b.Shape) && bytes.Equal(rawBytes(a.Data), rawBytes(b.Data)) &&
			slices.Equal(a.Text, b.Text)
	})
}

// rawBytes returns the memory of numbers as bytes.
func rawBytes[T wire.Number](data []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*int(unsafe.Sizeof(T(0))))
}

// cloneTensors returns tensors with their own copy of the numbers.
func cloneTensors[T wire.Number](t wire.Tensors[T]) wire.Tensors[T] {
	t = slices.Clone(t)
	for i := range t {
		t[i].Data = slices.Clone(t[i].Data)
	}
	return t
}
