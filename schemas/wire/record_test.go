package wire

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/arrowtest"
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
		if err != nil || (r != nil) != (i == len(messages)-1) {
			t.Fatalf("message %d of %d: %v, %v", i, len(messages), r, err)
		}
		if r != nil {
			return r
		}
	}
	return nil
}

func roundTrip[T Number](t *testing.T, r *Record[T]) []Message {
	t.Helper()
	mem := arrowtest.Allocator(t)
	messages := arrowtest.Must(r.Encode(mem))(t)
	for i, m := range messages {
		if len(m.Value) > MaxMessage {
			t.Errorf("chunk %d of %d has %d bytes", i, len(messages), len(m.Value))
		}
		if m.Key != r.Key(i) || m.Kind() != r.Kind || m.Get("chunks") != strconv.Itoa(len(messages)) {
			t.Errorf("chunk %d has key %s, headers %v", i, m.Key, m.Headers)
		}
	}
	got := collect(t, &Collector[T]{}, messages, mem)
	if got.Digest() != r.Digest() || got.Identity != r.Identity || !slices.Equal(got.Notes, r.Notes) || len(got.Tensors) != len(r.Tensors) {
		t.Fatalf("%v became %v, notes %v, %d tensors", r.Identity, got.Identity, got.Notes, len(got.Tensors))
	}
	for i, want := range r.Tensors {
		have := got.Tensors[i]
		if have.Name != want.Name || !slices.Equal(have.Shape, want.Shape) || !slices.Equal(have.Data, want.Data) ||
			!slices.Equal(have.Text, want.Text) {
			t.Errorf("tensor %q of shape %v became %q of shape %v", want.Name, want.Shape, have.Name, have.Shape)
		}
	}
	return messages
}

func TestRecordsRoundTrip(t *testing.T) {
	roundTrip(t, sums())
	roundTrip(t, sums(Vector("none", []float64{}), Words[float64]("nobody", nil), Tensor[float64]{Name: "empty", Shape: []int{3, 0}}))
	roundTrip(t, sums(Tensor[float64]{Name: "scalar", Data: []float64{4}}))
	for _, n := range append(arrowtest.Sizes(), segmentValues-1, segmentValues, segmentValues+1, 3*segmentValues) {
		roundTrip(t, sums(Vector("a", arrowtest.Numbered[float64](n)), Vector("a", arrowtest.Numbered[float64](n)),
			Matrix("b", n, 1, arrowtest.Numbered[float64](n))))
		roundTrip(t, &Record[float32]{Tensors: Tensors[float32]{Vector("w", arrowtest.Numbered[float32](n))}})
	}
}

func TestLargeRecordsAreChunked(t *testing.T) {
	const p = 1024
	gram := roundTrip(t, sums(Vector("gram", arrowtest.Numbered[float64](p*(p+1)/2))))
	if len(gram) != 5 { // 4.2 MB
		t.Errorf("a Gram matrix of %d makes %d chunks", p, len(gram))
	}
	if w := roundTrip(t, &Record[float32]{Tensors: Tensors[float32]{Matrix("W", 4000, 100,
		arrowtest.Numbered[float32](400_000))}}); len(w) != 2 {
		t.Errorf("weights of 4000 × 100 make %d chunks", len(w))
	}
	// The end of a chunk is near the end of a segment, with few large tensors and with many small ones.
	for _, n := range []int{26, 27, 28} {
		for _, length := range []int{segmentValues - 1, segmentValues, segmentValues + 1} {
			roundTrip(t, sums(Vector("x", arrowtest.Numbered[float64](n*length)), Vector("y", arrowtest.Numbered[float64](1))))
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
	mem := arrowtest.Allocator(t)
	var records []*Record[float64]
	for i := range 3 {
		r := sums(Vector("x", arrowtest.Numbered[float64](segmentValues*60+i)))
		r.Partition = i % 2 // the third has the identity of the first, and other content
		records = append(records, r)
	}
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 1))
		var queue []Message
		for _, r := range records {
			messages := arrowtest.Must(r.Encode(mem))(t)
			queue = append(append(queue, messages...), messages[random.IntN(len(messages))])
		}
		random.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
		c, got := &Collector[float64]{}, map[Digest]int{}
		for _, m := range queue {
			r, err := c.Add(m, mem)
			if err != nil {
				t.Fatal(err)
			}
			if r != nil {
				got[r.Digest()]++
			}
		}
		for i, r := range records {
			if got[r.Digest()] != 1 {
				t.Errorf("seed %d: record %d came %d times", seed, i, got[r.Digest()])
			}
		}
	}
}

func TestRecordsThatAreRefused(t *testing.T) {
	mem := arrowtest.Allocator(t)
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
			m.Value = arrowtest.Must((&Record[float32]{Tensors: Tensors[float32]{Vector("x", []float32{1, 2})}}).Encode(mem))(t)[0].Value
		}, decoding + damaged + ": schema a7e965b85f74, expected c21849451d83"},
		{"digest", set("digest", "0123456789abcdef"), decoding + damaged + ": its digest is " + digest.Short() + `, its header says "0123456789ab"`},
		{"no digest", set("digest", ""), decoding + damaged + ": its digest is " + digest.Short() + `, its header says ""`},
		{"parent", set("parent", "another"), decoding + damaged + ": its digest is "},
		{"note", set("covered", "another"), decoding + damaged + ": its digest is "},
		{"notes", set("notes", "1"), decoding + damaged + ": its digest is "},
		{"too many notes", set("notes", "3"), decoding + damaged + ": its digest is "},
		{"values", func(m *Message) {
			m.Value = arrowtest.Must(sums(Vector("x", []float64{1, 3})).Encode(mem))(t)[0].Value
		}, decoding + damaged + ": its digest is "},
	} {
		m := arrowtest.Must(sums(Vector("x", []float64{1, 2})).Encode(mem))(t)[0]
		c.damage(&m)
		collector := &Collector[float64]{}
		r, err := collector.Add(m, mem)
		if r != nil || !errors.Is(err, ErrDamaged) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %s", c.name, err, c.want)
		}
		if len(collector.open) > 0 {
			t.Errorf("%s: the record is kept", c.name)
		}
	}
}

// A record with a damaged chunk is refused, and its next copy is accepted.
func TestDamagedRecordsComeAgain(t *testing.T) {
	mem := arrowtest.Allocator(t)
	whole := arrowtest.Must(sums(Vector("x", arrowtest.Numbered[float64](segmentValues*60))).Encode(mem))(t)
	bad := slices.Clone(whole)
	bad[0].Value = slices.Clone(bad[0].Value)
	bad[0].Value[len(bad[0].Value)/2] ^= 1
	c := &Collector[float64]{}
	for i, m := range bad {
		_, err := c.Add(m, mem)
		if (err != nil) != (i == len(bad)-1) {
			t.Fatalf("chunk %d: %v", i, err)
		}
	}
	collect(t, c, whole, mem)
}

func TestSegmentsHaveToGoOn(t *testing.T) {
	mem := arrowtest.Allocator(t)
	a, b := Vector("a", arrowtest.Numbered[float64](3)), Vector("b", arrowtest.Numbered[float64](3))
	for name, segments := range map[string][]segment[float64]{
		"begins within":  {{&a, 1, a.Data[1:], nil}},
		"leaves out":     {{&a, 0, a.Data[:1], nil}, {&a, 2, a.Data[2:], nil}},
		"another tensor": {{&a, 0, a.Data[:1], nil}, {&b, 1, b.Data[1:], nil}},
		"too few":        {{&a, 0, a.Data[:1], nil}},
		"both":           {{&a, 0, a.Data[:1], []string{"x", "y"}}},
		"great shape":    {{&Tensor[float64]{Name: "a", Shape: []int{1 << 40, 1 << 40}}, 0, nil, nil}},
		"negative shape": {{&Tensor[float64]{Name: "a", Shape: []int{-1, -3}}, 0, a.Data, nil}},
	} {
		m := arrowtest.Must(sums().Encode(mem))(t)[0]
		m.Value = arrowtest.Must(encodeSegments(FormatOf[float64]().Schema, segments, mem))(t)
		if r, err := (&Collector[float64]{}).Add(m, mem); r != nil || !errors.Is(err, ErrDamaged) || strings.Contains(err.Error(), "digest") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEncodeRefusesOtherShapes(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.HasSuffix(got, `tensor "x" of shape [3] has 2 values`) {
			t.Error(got)
		}
	}()
	sums(Tensor[float64]{Name: "x", Shape: []int{3}, Data: []float64{1, 2}}).Encode(memory.NewGoAllocator())
}

// Records that differ have different digests, even if their content has the same bytes.
func TestDigestsTellRecordsApart(t *testing.T) {
	zero := math.Float64frombits(0)
	seen := map[Digest]string{}
	add := func(name string, change func(*Record[float64])) {
		r := sums(Vector("x", []float64{1, 2}))
		change(r)
		d := r.Digest()
		if other, twice := seen[d]; twice {
			t.Errorf("%s is the same as %s", name, other)
		}
		if seen[d] = name; d != r.Digest() {
			t.Errorf("%s has two digests", name)
		}
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
	if got := arrowtest.Must(IdentityOf(Message{Headers: id.Headers()}))(t); got != id || got.Key(3) != "r/weights/2/5/7/3" {
		t.Errorf("%v becomes %v", id, got)
	}
	for _, wrong := range []string{"7+1", "x", ""} {
		m := Message{Headers: id.Headers()}
		m.Headers[4].Value = wrong
		if got, err := IdentityOf(m); !errors.Is(err, ErrDamaged) {
			t.Errorf("partition %q becomes %v, %v", wrong, got, err)
		}
	}
	chain := []Identity{{Stage: Survey}, {Stage: 0}, {Stage: 0, Visit: 1}, {Stage: 1}, {Stage: 2, Visit: 3}}
	for i, a := range chain {
		for j, b := range chain {
			if a.Before(b) != (i < j) {
				t.Errorf("%v before %v: %v", a, b, i >= j)
			}
		}
	}
}

func TestSameTensors(t *testing.T) {
	of := func() Tensors[float32] {
		return Tensors[float32]{Matrix("w", 2, 2, []float32{1, 2, 3, float32(math.NaN())}), Words[float32]("labels", []string{"a", "b"})}
	}
	if !of().Same(of()) {
		t.Error("tensors are not the same as a copy of them")
	}
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
		if of().Same(other) {
			t.Errorf("tensors of another %s are the same", what)
		}
	}
	if of().Same(of()[:1]) {
		t.Error("tensors are the same as some of them")
	}
}
