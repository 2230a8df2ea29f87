package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/assert"
)

func sums(tensors ...Tensor[float64]) *Record[float64] {
	return &Record[float64]{
		Identity: Identity{Kind: "visit", Run: "run", Stage: 1, Visit: 2, Partition: 3, Parent: "parent"},
		Notes:    []Header{{"covered", `[{"from":1}]`}, {"kind", "a note may have any key"}},
		Tensors:  tensors,
	}
}

// collect adds messages in order, and expects the record after the last.
func collect[T Number](t *testing.T, c *Collector[T], messages []Message, mem memory.Allocator) *Record[T] {
	t.Helper()
	for i, m := range messages {
		r, err := c.Add(m, mem)
		assert.Need(t, err == nil && (r != nil) == (i == len(messages)-1), "message %d of %d: %v, %v", i, len(messages), r, err)
		if r != nil {
			return r
		}
	}
	return nil
}

func roundTrip[T Number](t *testing.T, r *Record[T]) []Message {
	t.Helper()
	mem := assert.Allocator(t)
	messages := assert.Must(r.EncodeWithin(MaxMessage, mem))(t)
	for i, m := range messages {
		assert.True(t, len(m.Value) <= MaxMessage, "chunk %d of %d has %d bytes", i, len(messages), len(m.Value))
		assert.True(t, m.Key == r.Key(i) && m.Kind() == r.Kind && m.Get("chunks") == strconv.Itoa(len(messages)),
			"chunk %d has key %s, headers %v", i, m.Key, m.Headers)
	}
	got := collect(t, &Collector[T]{}, messages, mem)
	assert.Need(t, got.Digest() == r.Digest() && got.Identity == r.Identity && slices.Equal(got.Notes, r.Notes) &&
		len(got.Tensors) == len(r.Tensors), "%v became %v, notes %v, %d tensors", r.Identity, got.Identity, got.Notes, len(got.Tensors))
	for i, want := range r.Tensors {
		have := got.Tensors[i]
		assert.True(t, have.Name == want.Name && slices.Equal(have.Shape, want.Shape) && slices.Equal(have.Data, want.Data) &&
			slices.Equal(have.Text, want.Text), "tensor %q of shape %v became %q of shape %v", want.Name, want.Shape, have.Name, have.Shape)
	}
	return messages
}

func TestRecordsRoundTrip(t *testing.T) {
	roundTrip(t, sums())
	roundTrip(t, sums(Vector("none", []float64{}), Words[float64]("nobody", nil), Tensor[float64]{Name: "empty", Shape: []int{3, 0}}))
	roundTrip(t, sums(Tensor[float64]{Name: "scalar", Data: []float64{4}}))
	for _, n := range append(assert.Sizes(), segmentValues-1, segmentValues, segmentValues+1, 3*segmentValues) {
		roundTrip(t, sums(Vector("a", assert.Numbered[float64](n)), Vector("a", assert.Numbered[float64](n)),
			Matrix("b", n, 1, assert.Numbered[float64](n))))
		roundTrip(t, &Record[float32]{Tensors: Tensors[float32]{Vector("w", assert.Numbered[float32](n))}})
	}
}

func TestLargeRecordsAreChunked(t *testing.T) {
	const p = 1024
	gram := roundTrip(t, sums(Vector("gram", assert.Numbered[float64](p*(p+1)/2))))
	assert.True(t, len(gram) == 5, "a Gram matrix of %d makes %d chunks", p, len(gram)) // 4.2 MB
	w := roundTrip(t, &Record[float32]{Tensors: Tensors[float32]{Matrix("W", 4000, 100, assert.Numbered[float32](400_000))}})
	assert.True(t, len(w) == 2, "weights of 4000 × 100 make %d chunks", len(w))
	// The end of a chunk is near the end of a segment, with few large tensors and with many small ones.
	for _, n := range []int{26, 27, 28} {
		for _, length := range []int{segmentValues - 1, segmentValues, segmentValues + 1} {
			roundTrip(t, sums(Vector("x", assert.Numbered[float64](n*length)), Vector("y", assert.Numbered[float64](1))))
		}
	}
	var small []Tensor[float64]
	for i := range 20_000 {
		small = append(small, Vector(fmt.Sprint("tensor ", i), []float64{float64(i)}))
	}
	roundTrip(t, sums(small...))
}

// Chunks may arrive in any order and more than once. Records with the same identity and other content stay apart.
func TestChunksInAnyOrder(t *testing.T) {
	mem := assert.Allocator(t)
	var records []*Record[float64]
	for i := range 3 {
		r := sums(Vector("x", assert.Numbered[float64](segmentValues*60+i)))
		r.Partition = i % 2 // the third has the identity of the first, and other content
		records = append(records, r)
	}
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 1))
		var queue []Message
		for _, r := range records {
			messages := assert.Must(r.EncodeWithin(MaxMessage, mem))(t)
			queue = append(append(queue, messages...), messages[random.IntN(len(messages))])
		}
		random.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
		c, got := &Collector[float64]{}, map[Digest]int{}
		for _, m := range queue {
			r := assert.Must(c.Add(m, mem))(t)
			if r != nil {
				got[r.Digest()]++
			}
		}
		for i, r := range records {
			assert.True(t, got[r.Digest()] == 1, "seed %d: record %d came %d times", seed, i, got[r.Digest()])
		}
	}
}

func TestRecordsThatAreRefused(t *testing.T) {
	mem := assert.Allocator(t)
	set := func(key, value string) func(*Message) {
		return func(m *Message) {
			m.Headers = slices.Clone(m.Headers)
			for i := range m.Headers {
				if m.Headers[i].Key == key {
					m.Headers[i].Value = value
					return
				}
			}
		}
	}
	const damaged = "damaged or foreign bytes"
	const decoding = "decode visit of run run, stage 1, visit 2, partition 3: "
	digest := sums(Vector("x", []float64{1, 2})).Digest()
	for _, c := range []struct {
		name   string
		damage func(*Message)
		want   string
	}{
		{"stage", set("stage", "x"), damaged + `: header stage is "x", expected a whole number`},
		{"several", func(m *Message) { m.Headers = nil }, damaged + `: header stage is "", expected a whole number`},
		{"chunk", set("chunk", "1"), damaged + ": chunk 1 of 1"},
		{"negative", set("chunk", "-1"), damaged + ": chunk -1 of 1"},
		{"none", set("chunks", "0"), damaged + ": chunk 0 of 0"},
		{"too many", set("chunks", "10001"), damaged + ": chunk 0 of 10001"},
		{"value", func(m *Message) { m.Value = nil }, decoding + damaged},
		{"float32", func(m *Message) {
			m.Value = assert.Must((&Record[float32]{Tensors: Tensors[float32]{Vector("x", []float32{1, 2})}}).EncodeWithin(MaxMessage, mem))(t)[0].Value
		}, decoding + damaged + ": schema a7e965b85f74, expected c21849451d83"},
		{"digest", set("digest", "0123456789abcdef"), decoding + damaged + ": its digest is " + digest.Short() + `, its header says "0123456789ab"`},
		{"no digest", set("digest", ""), decoding + damaged + ": its digest is " + digest.Short() + `, its header says ""`},
		{"parent", set("parent", "another"), decoding + damaged + ": its digest is "},
		{"note", set("covered", "another"), decoding + damaged + ": its digest is "},
		{"notes", set("notes", "1"), decoding + damaged + ": its digest is "},
		{"too many notes", set("notes", "3"), decoding + damaged + ": its digest is "},
		{"values", func(m *Message) {
			m.Value = assert.Must(sums(Vector("x", []float64{1, 3})).EncodeWithin(MaxMessage, mem))(t)[0].Value
		}, decoding + damaged + ": its digest is "},
	} {
		m := assert.Must(sums(Vector("x", []float64{1, 2})).EncodeWithin(MaxMessage, mem))(t)[0]
		c.damage(&m)
		collector := &Collector[float64]{}
		r, err := collector.Add(m, mem)
		assert.True(t, r == nil && errors.Is(err, ErrDamaged) && strings.HasPrefix(err.Error(), c.want),
			"%s: %v, expected %s", c.name, err, c.want)
		assert.True(t, len(collector.open) == 0, "%s: the record is kept", c.name)
	}
}

// A record with a damaged chunk is refused, and its next copy is accepted.
func TestDamagedRecordsComeAgain(t *testing.T) {
	mem := assert.Allocator(t)
	whole := assert.Must(sums(Vector("x", assert.Numbered[float64](segmentValues*60))).EncodeWithin(MaxMessage, mem))(t)
	bad := slices.Clone(whole)
	bad[0].Value = slices.Clone(bad[0].Value)
	bad[0].Value[len(bad[0].Value)/2] ^= 1
	c := &Collector[float64]{}
	for i, m := range bad {
		_, err := c.Add(m, mem)
		assert.Need(t, (err != nil) == (i == len(bad)-1), "chunk %d: %v", i, err)
	}
	collect(t, c, whole, mem)
}

func TestSegmentsHaveToGoOn(t *testing.T) {
	mem := assert.Allocator(t)
	a, b := Vector("a", assert.Numbered[float64](3)), Vector("b", assert.Numbered[float64](3))
	for name, segments := range map[string][]segment[float64]{
		"begins within":  {{&a, 1, a.Data[1:], nil}},
		"leaves out":     {{&a, 0, a.Data[:1], nil}, {&a, 2, a.Data[2:], nil}},
		"another tensor": {{&a, 0, a.Data[:1], nil}, {&b, 1, b.Data[1:], nil}},
		"too few":        {{&a, 0, a.Data[:1], nil}},
		"both":           {{&a, 0, a.Data[:1], []string{"x", "y"}}},
		"great shape":    {{&Tensor[float64]{Name: "a", Shape: []int{1 << 40, 1 << 40}}, 0, nil, nil}},
		"negative shape": {{&Tensor[float64]{Name: "a", Shape: []int{-1, -3}}, 0, a.Data, nil}},
	} {
		m := assert.Must(sums().EncodeWithin(MaxMessage, mem))(t)[0]
		m.Value = assert.Must(encodeSegments(segments, nil, mem))(t)
		r, err := (&Collector[float64]{}).Add(m, mem)
		assert.True(t, r == nil && errors.Is(err, ErrDamaged) && !strings.Contains(err.Error(), "digest"), "%s: %v", name, err)
	}
}

func TestEncodeRefusesOtherShapes(t *testing.T) {
	defer func() {
		got := fmt.Sprint(recover())
		assert.True(t, strings.HasSuffix(got, `tensor "x" of shape [3] has 2 values`), "%v", got)
	}()
	sums(Tensor[float64]{Name: "x", Shape: []int{3}, Data: []float64{1, 2}}).EncodeWithin(MaxMessage, memory.NewGoAllocator())
}

// Records that differ have different digests, even if their content has the same bytes.
func TestDigestsTellRecordsApart(t *testing.T) {
	zero := math.Float64frombits(0)
	seen := map[Digest]string{}
	add := func(name string, change func(*Record[float64])) {
		r := sums(Vector("x", []float64{1, 2}))
		change(r)
		d := r.Digest()
		other, twice := seen[d]
		assert.True(t, !twice, "%s is the same as %s", name, other)
		seen[d] = name
		assert.Equal(t, d, r.Digest(), "%s has two digests", name)
	}
	add("itself", func(*Record[float64]) {})
	add("kind", func(r *Record[float64]) { r.Kind = "gram" })
	add("run", func(r *Record[float64]) { r.Run = "rum" })
	add("stage", func(r *Record[float64]) { r.Stage++ })
	add("visit", func(r *Record[float64]) { r.Visit++ })
	add("partition", func(r *Record[float64]) { r.Partition++ })
	add("parent", func(r *Record[float64]) { r.Parent = "" })
	add("no notes", func(r *Record[float64]) { r.Notes = nil })
	add("a note", func(r *Record[float64]) { r.Notes = []Header{{"a", "bc"}} })
	add("its letters", func(r *Record[float64]) { r.Notes = []Header{{"ab", "c"}} })
	add("a value", func(r *Record[float64]) { r.Tensors[0].Data[1] = 3 })
	add("shape", func(r *Record[float64]) { r.Tensors[0].Shape = []int{1, 2} })
	add("name", func(r *Record[float64]) { r.Tensors[0].Name = "y" })
	add("no tensor", func(r *Record[float64]) { r.Tensors = nil })
	add("zero", func(r *Record[float64]) { r.Tensors[0] = Vector("x", []float64{zero}) })
	add("negative zero", func(r *Record[float64]) { r.Tensors[0] = Vector("x", []float64{-1 / math.Inf(1)}) })
	add("empty text", func(r *Record[float64]) { r.Tensors[0] = Words[float64]("x", []string{""}) })
	add("two texts", func(r *Record[float64]) { r.Tensors[0] = Words[float64]("x", []string{"a", "b"}) })
	add("one text", func(r *Record[float64]) { r.Tensors[0] = Words[float64]("x", []string{"ab"}) })
}

func TestIdentity(t *testing.T) {
	id := Identity{"weights", "r", 2, 5, 7, "p"}
	got := assert.Must(IdentityOf(Message{Headers: id.Headers()}))(t)
	assert.True(t, got == id && got.Key(3) == "r/weights/2/5/7/3", "%v becomes %v", id, got)
	for _, wrong := range []string{"7+1", "x", ""} {
		m := Message{Headers: id.Headers()}
		m.Headers[4].Value = wrong
		got, err := IdentityOf(m)
		assert.True(t, errors.Is(err, ErrDamaged), "partition %q becomes %v, %v", wrong, got, err)
	}
	chain := []Identity{{Stage: Survey}, {Stage: 0}, {Stage: 0, Visit: 1}, {Stage: 1}, {Stage: 2, Visit: 3}}
	for i, a := range chain {
		for j, b := range chain {
			assert.True(t, a.Before(b) == (i < j), "%v before %v: %v", a, b, i >= j)
		}
	}
}

func TestSameTensors(t *testing.T) {
	of := func() Tensors[float32] {
		return Tensors[float32]{Matrix("w", 2, 2, []float32{1, 2, 3, float32(math.NaN())}), Words[float32]("labels", []string{"a", "b"})}
	}
	assert.True(t, of().Same(of()), "tensors are not the same as a copy of them")
	for what, change := range map[string]func(t Tensors[float32]){
		"name":  func(t Tensors[float32]) { t[0].Name = "v" },
		"shape": func(t Tensors[float32]) { t[0].Shape = []int{4, 1} },
		"value": func(t Tensors[float32]) { t[0].Data[1] = 2.5 },
		"sign":  func(t Tensors[float32]) { t[0].Data[3] = -t[0].Data[3] },
		"size":  func(t Tensors[float32]) { t[0] = Vector("w", t[0].Data[:3]) },
		"text":  func(t Tensors[float32]) { t[1].Text[1] = "c" },
	} {
		other := of()
		change(other)
		assert.True(t, !of().Same(other), "tensors of another %s are the same", what)
	}
	assert.True(t, !of().Same(of()[:1]), "tensors are the same as some of them")
}

// tagsOfAllKinds has a field of each kind that a tag may describe.
type tagsOfAllKinds struct {
	Identity
	Text   string           `header:"text"`
	Count  int              `header:"count,count"`
	Weight *float64         `header:"weight,omitzero"`
	Rest   Tensors[float64] `tensor:"*"`
	Group  *struct {
		First int `header:"first"`
	} `header:"first,group"`
	Object map[string]int `header:"object,omitempty"`
	Words  []string       `tensor:"words"`
	Whole  []int64        `tensor:"whole,omitzero"`
	Single []float32      `tensor:"single"`
	Rows   []struct {
		Column int32
		Sum    struct{ Value float64 }
	} `tensor:"rows,omitempty"`
	Texts   []map[string]int `tensor:"texts,texts,omitempty"`
	Objects map[string]int   `tensor:"objects,text,omitzero"`
}

// A struct with tags is what its record is read as, and a record of other content is damaged.
func TestTaggedStructs(t *testing.T) {
	weight := 0.5
	full := tagsOfAllKinds{Identity: Identity{Kind: "visit", Run: "run"}, Text: "a", Count: 3, Weight: &weight,
		Rest: Tensors[float64]{Vector("other", []float64{1})}, Object: map[string]int{"x": 1}, Words: []string{"a", "b"}, Whole: []int64{1 << 40},
		Single: []float32{0.25}, Texts: []map[string]int{{"y": 2}}, Objects: map[string]int{"z": 3}}
	full.Group = &struct {
		First int `header:"first"`
	}{4}
	full.Rows = append(full.Rows, struct {
		Column int32
		Sum    struct{ Value float64 }
	}{7, struct{ Value float64 }{0.5}})
	for _, want := range []tagsOfAllKinds{full, {Words: []string{}, Rest: Tensors[float64]{}}} {
		var got tagsOfAllKinds
		err := RecordOf[float64](&want).Into(&got)
		assert.True(t, err == nil && reflect.DeepEqual(got, want), "%+v became %+v, %v", want, got, err)
	}
	for name, damage := range map[string]func(*Record[float64]){
		"no count":            func(r *Record[float64]) { r.Notes = r.Notes[:1] },
		"negative count":      func(r *Record[float64]) { r.Notes[1].Value = "-1" },
		"text as weight":      func(r *Record[float64]) { r.Notes[2].Value = "x" },
		"no JSON":             func(r *Record[float64]) { r.Notes[4].Value = "{" },
		"no words":            func(r *Record[float64]) { r.Tensors[1].Name = "others" },
		"numbers as words":    func(r *Record[float64]) { r.Tensors[1] = Vector("words", []float64{1}) },
		"words as numbers":    func(r *Record[float64]) { r.Tensors[2] = Words[float64]("whole", []string{"1"}) },
		"a fraction":          func(r *Record[float64]) { r.Tensors[2].Data[0] = 0.5 },
		"beyond int32":        func(r *Record[float64]) { r.Tensors[4].Data[0] = 1 << 31 },
		"a matrix of another": func(r *Record[float64]) { r.Tensors[4].Shape = []int{2, 1} },
		"a vector":            func(r *Record[float64]) { r.Tensors[4].Shape = []int{2} },
		"a matrix":            func(r *Record[float64]) { r.Tensors[3].Shape = []int{1, 1} },
		"no JSON in a text":   func(r *Record[float64]) { r.Tensors[5].Text[0] = "{" },
		"two texts":           func(r *Record[float64]) { r.Tensors[6] = Words[float64]("objects", []string{"{}", "{}"}) },
	} {
		r := RecordOf[float64](&full)
		r.Notes, r.Tensors = append([]Header{}, r.Notes...), append(Tensors[float64]{}, r.Tensors...)
		for i := range r.Tensors {
			r.Tensors[i].Data, r.Tensors[i].Text = append([]float64(nil), r.Tensors[i].Data...), append([]string(nil), r.Tensors[i].Text...)
		}
		damage(r)
		err := r.Into(&tagsOfAllKinds{})
		assert.True(t, errors.Is(err, ErrDamaged), "%s: %v, expected ErrDamaged", name, err)
	}
}

// Mix gives the published sequence of SplitMix64 from seed 0. The state grows by the golden gamma before each output, and Mix adds it.
func TestMixIsSplitMix64(t *testing.T) {
	for i, want := range []uint64{0xe220a8397b1dcdaf, 0x6e789e6aa1b965f4, 0x06c45d188009454f, 0xf88bb8a8724c81ec} {
		assert.Equal(t, Mix(uint64(i)*0x9e3779b97f4a7c15), want, "output %d", i)
	}
}

func TestHash(t *testing.T) {
	for _, c := range []struct {
		values []uint64
		want   uint64
	}{
		{nil, 0},
		{[]uint64{0}, 0xe220a8397b1dcdaf},
		{[]uint64{0, 0}, Mix(0xe220a8397b1dcdaf)},
		{[]uint64{1, 2, 3}, Mix(Mix(Mix(1)^2) ^ 3)},
	} {
		assert.Equal(t, Hash(c.values...), c.want, "Hash(%v) =", c.values)
	}
	// FORMAT.md has these values, to test other implementations.
	assert.Equal(t, fmt.Sprintf("%#x %#x", Hash(1, 2, 3), Hash(3, 2, 1)), "0xd0734750fde362b3 0xd62a7f6e291fef64", "")
}

// Only values of the form in the specification are passed on, in any version but ff. Identifiers are not all zero.
func TestTrace(t *testing.T) {
	const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	zero := strings.Repeat("0", 32)
	for text, want := range map[string]string{
		valid: valid, "cc" + valid[2:]: "cc" + valid[2:], "": "", "ff" + valid[2:]: "", valid + "-x": "", valid + "\n": "", strings.ToUpper(valid): "",
		valid[:54]: "", "00-" + zero + valid[35:]: "", valid[:36] + zero[:16] + "-01": "",
	} {
		assert.Equal(t, (Message{Headers: []Header{{HeaderTrace, text}}}).Trace(), want, "%q", text)
	}
	assert.Equal(t, (Message{}).Trace(), "", "without the header")
}

// loneChunk makes a message that claims to be one of many chunks. The others never arrive.
func loneChunk(i int, value []byte) Message {
	id := Identity{Kind: "visit", Run: "run", Stage: i % 3, Visit: i % 5, Partition: i % 7, Parent: "parent"}
	return Message{Value: value, Headers: append(id.Headers(),
		Header{"chunk", "0"}, Header{"chunks", "10000"}, Header{"digest", fmt.Sprint("never ", i)})}
}

// kept counts again how many bytes the collector keeps.
func (c *Collector[T]) kept() (bytes int) {
	for _, at := range c.open {
		bytes += recordOverhead
		for _, value := range at.Value.(*incomplete).values {
			bytes += chunkOverhead + len(value)
		}
	}
	return bytes
}

// Records that never become complete take at most MaxBytes, whether their chunks are large or small.
func TestCollectorIsBounded(t *testing.T) {
	for _, size := range []int{0, 1000, MaxMessage} {
		mem := assert.NewMeter()
		c, evicted := &Collector[float64]{MaxBytes: 4 << 20}, 0
		value := make([]byte, size)
		for i := range 20_000 {
			r, err := c.Add(loneChunk(i, value), mem)
			gone := (*EvictedError)(nil)
			assert.Need(t, r == nil &&
				(err == nil || errors.As(err, &gone) && errors.Is(err, ErrDamaged) && gone.Have == 1 && gone.Chunks == 10_000), "%v, %v", r, err)
			if gone != nil {
				evicted++
			}
			if i%1000 > 0 {
				continue
			}
			kept := c.kept()
			assert.Need(t, kept <= c.MaxBytes && kept == c.bytes && c.waiting.Len() == len(c.open),
				"%d bytes are kept, %d counted, of %d records, %d waiting", kept, c.bytes, len(c.open), c.waiting.Len())
		}
		assert.True(t, evicted != 0 && mem.Total <= 0, "%d records are evicted, %d bytes decoded", evicted, mem.Total)
	}
	c := &Collector[float64]{}
	_, err := c.Add(loneChunk(0, make([]byte, MaxMessage+1)), assert.NewMeter())
	assert.True(t, errors.Is(err, ErrDamaged) && len(c.open) == 0, "%v, %d records", err, len(c.open))
}

// The records of several workers become complete in a flood of other chunks that takes MaxBytes many times over, as long
// as their chunks keep arriving.
func TestRecordsComeThroughAFlood(t *testing.T) {
	const writers = 8
	mem := assert.Allocator(t)
	var queues [][]Message
	size := 0
	for i := range writers {
		r := sums(Vector("x", assert.Numbered[float64](segmentValues*120)))
		r.Partition = i
		messages := assert.Must(r.EncodeWithin(MaxMessage, mem))(t)
		for _, m := range messages {
			size += len(m.Value)
		}
		queues = append(queues, messages)
	}
	filler := make([]byte, 200_000)
	for seed := range uint64(5) {
		random := rand.New(rand.NewPCG(seed, 1))
		c, whole, left := &Collector[float64]{MaxBytes: 2 * size}, 0, make([][]Message, writers)
		copy(left, queues)
		for whole < writers {
			for flood := range 3 {
				_, err := c.Add(loneChunk(random.Int(), filler[:100_000*flood]), mem)
				gone := (*EvictedError)(nil)
				assert.Need(t, !errors.As(err, &gone) || gone.Chunks == 10_000, "%v", err)
			}
			i := random.IntN(writers)
			if len(left[i]) == 0 {
				continue
			}
			r, err := c.Add(left[i][0], mem)
			gone, evicted := errors.AsType[*EvictedError](err)
			assert.Need(t, (!evicted || gone.Chunks == 10_000) && (r != nil || len(left[i]) != 1), "seed %d, writer %d: %v, %v", seed, i, r, err)
			if left[i] = left[i][1:]; r != nil {
				whole++
			}
		}
	}
}

// Decoding very many tensors takes time proportional to their bytes.
func TestRecordOfManyTensors(t *testing.T) {
	var tensors Tensors[float64]
	for range 60_000 {
		tensors = append(tensors, Tensor[float64]{Name: "", Shape: []int{0}})
	}
	roundTrip(t, sums(tensors...))
}

// The memory of a Collector is bounded, and it returns only records that were written, whatever messages come. Every
// three bytes are a message: which chunk of which record, and what is wrong with it.
func FuzzCollectorSequence(f *testing.F) {
	const records, chunks, maxBytes = 8, 3, 4 << 10
	mem := assert.Allocator(f)
	var messages [records][chunks]Message
	whole, largest := map[Digest]bool{}, 0
	for i := range messages {
		x := Vector("x", assert.Numbered[float64](chunks*(i+1)))
		r := sums(x)
		r.Partition, r.Visit = i/4, i%2 // some share an identity
		whole[r.Digest()] = true
		size := recordOverhead
		for j := range chunks {
			n := i + 1
			value := assert.Must(encodeSegments([]segment[float64]{{&x, j * n, x.Data[j*n : (j+1)*n], nil}}, nil, mem))(f)
			headers := append(r.Headers(), Header{"chunk", strconv.Itoa(j)}, Header{"chunks", strconv.Itoa(chunks)},
				Header{"digest", string(r.Digest())}, Header{"notes", strconv.Itoa(len(r.Notes))})
			messages[i][j] = Message{Headers: append(headers, r.Notes...), Value: value}
			size += chunkOverhead + len(value)
		}
		largest = max(largest, size)
	}
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 2, 0})
	f.Add([]byte{3, 2, 0, 4, 0, 0, 3, 1, 0, 4, 2, 0, 4, 1, 0, 3, 0, 0})
	f.Add(bytes.Repeat([]byte{0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0, 0, 5, 0, 0, 6, 1, 0, 7, 1, 9}, 20))
	f.Fuzz(func(t *testing.T, sequence []byte) {
		mem, c := assert.Allocator(t), &Collector[float64]{MaxBytes: maxBytes}
		for ; len(sequence) >= 3; sequence = sequence[3:] {
			i, j, wrong := sequence[0], sequence[1], int(sequence[2])
			m := messages[i%records][j%chunks]
			switch wrong % 4 {
			case 1:
				m.Value = bytes.Clone(m.Value)
				m.Value[wrong*len(m.Value)/256] ^= 1 << (wrong >> 2 % 8)
			case 2:
				m.Headers = append([]Header{{"digest", strconv.Itoa(int(j))}}, m.Headers...)
			case 3:
				m.Headers = append([]Header{{"chunk", strconv.Itoa(wrong >> 2 % chunks)}}, m.Headers...)
			}
			r, err := c.Add(m, mem)
			assert.Need(t, (err == nil || errors.Is(err, ErrDamaged)) && (r == nil || whole[r.Digest()]), "%v, %v", r, err)
			kept := c.kept()
			assert.Need(t, kept == c.bytes && kept <= maxBytes+largest && c.waiting.Len() == len(c.open),
				"%d bytes are kept, %d counted, of %d incomplete records", kept, c.bytes, len(c.open))
		}
	})
}
