package codec

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A process reads its own records like any other, repeatedly. Other bytes with the same digest are detected as damage.
func TestRecordsOfTheSameProcess(t *testing.T) {
	id := wire.Identity{Kind: schemas.KindWeights, Run: "run", Visit: 1, Parent: "parent"}
	notes := []wire.Header{{Key: "final", Value: "1"}}
	values := []float32{1, float32(math.Copysign(0, -1)), 3}
	single := &wire.Record[float32]{Identity: id, Notes: notes, Tensors: wire.Tensors[float32]{wire.Vector("W", values)}}
	double := &wire.Record[float64]{Identity: id, Notes: notes, Tensors: wire.Tensors[float64]{wire.Vector("cross", []float64{1, 2, 3})}}
	writer, reader := New(nil, 0), New(nil, 0)
	singles, err := writer.EncodeSingle(single)
	if err != nil {
		t.Fatal(err)
	}
	doubles, err := writer.EncodeDouble(double)
	if err != nil {
		t.Fatal(err)
	}
	double.Tensors[0].Data[0] = 7 // the writer reuses its memory
	for _, codec := range []Codec{writer, reader} {
		for range 3 {
			s, err := codec.CollectSingle(&wire.Collector[float32]{}, singles[0])
			if err != nil || s.Digest() != singles[0].Digest() || !slices.Equal(s.Tensors[0].Data, values) {
				t.Fatalf("%v, %v", s, err)
			}
			d, err := codec.CollectDouble(&wire.Collector[float64]{}, doubles[0])
			if err != nil || d.Digest() != doubles[0].Digest() {
				t.Fatalf("%v, %v", d, err)
			}
			d.Tensors[0].Data[0] = 9 // a reader may
		}
		damaged := singles[0]
		damaged.Value = slices.Clone(damaged.Value)
		at := len(damaged.Value) - 1
		for ; damaged.Value[at] != 0x40; at-- { // of the number 3
		}
		damaged.Value[at] = 0x41
		if r, err := codec.CollectSingle(&wire.Collector[float32]{}, damaged); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("other bytes: %v, %v", r, err)
		}
		renamed := singles[0]
		renamed.Headers = slices.Clone(renamed.Headers)
		for i, h := range renamed.Headers {
			if h.Key == "visit" {
				renamed.Headers[i].Value = "2"
			}
		}
		if r, err := codec.CollectSingle(&wire.Collector[float32]{}, renamed); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("another visit: %v, %v", r, err)
		}
	}
}

// The first reader in the writer's process gets the given tensors, and may modify them. Later readers decode the messages.
func TestGivenTensorsAreReadOnce(t *testing.T) {
	values := []float64{1, math.NaN(), 3}
	record := &wire.Record[float64]{Identity: wire.Identity{Kind: statistics.KindVisit, Run: "run", Parent: "parent"},
		Tensors: wire.Tensors[float64]{wire.Vector("cross", values)}}
	digest, codec := record.Digest(), New(nil, 0)
	messages, err := codec.Give(record, true)
	if err != nil {
		t.Fatal(err)
	}
	for reader := range 3 {
		got, err := codec.CollectDouble(&wire.Collector[float64]{}, messages[0])
		if err != nil || got.Digest() != digest {
			t.Fatalf("reader %d: %v, %v", reader, got, err)
		}
		if data := got.Tensors[0].Data; (&data[0] == &values[0]) != (reader == 0) {
			t.Errorf("reader %d has the writer's values: %v", reader, reader != 0)
		}
		got.Tensors[0].Data[0] = 9
	}
}

// A given record waits for its reader, whatever its size, until the partition gets another one.
func TestGivenRecordsWait(t *testing.T) {
	var r recent
	given := func(partition int, digest wire.Digest) *recentRecord {
		record := &recentRecord{identity: wire.Identity{Partition: partition}, digest: digest, content: content{bytes: recentBytes + 1},
			given: wire.Tensors[float64]{{Name: string(digest)}}}
		r.give(record)
		return record
	}
	first, other := given(0, "first"), given(1, "other")
	second := given(0, "second")
	if r.find(first.identity, nil, "first", first.content) != nil {
		t.Error("the first stays")
	}
	for _, want := range []*recentRecord{second, other} {
		have := r.find(want.identity, nil, want.digest, want.content)
		if have != want || r.consume(have)[0].Name != string(want.digest) || r.consume(have) != nil {
			t.Errorf("%s: %v", want.digest, have)
		}
	}
	if len(r.given) != 0 || len(r.records) != 0 {
		t.Errorf("%d and %d records stay", len(r.given), len(r.records))
	}
}

// Weights that are too large for the cache are also shared, until other weights arrive.
func TestLargeWeightsAreShared(t *testing.T) {
	codec, collect := New(nil, 0), func(c Codec, messages []wire.Message) (r *wire.Record[float32]) {
		collector := &wire.Collector[float32]{}
		for _, m := range messages {
			var err error
			if r, err = c.CollectSingle(collector, m); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	values := make([]float32, recentBytes/4+1)
	for visit := range 2 {
		messages, err := codec.EncodeSingle(&wire.Record[float32]{
			Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run", Visit: visit, Parent: "parent"},
			Tensors:  wire.Tensors[float32]{wire.Vector("W", values)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if r := collect(codec, messages); &r.Tensors[0].Data[0] != &values[0] {
			t.Errorf("visit %d: the reader has a copy of the writer's", visit)
		}
		other := New(nil, 0) // of another process
		if first, second := collect(other, messages), collect(other, messages); &first.Tensors[0].Data[0] != &second.Tensors[0].Data[0] {
			t.Errorf("visit %d: two readers have copies", visit)
		}
	}
}

// The memory of recent records is limited: later ones evict them.
func TestRecentRecordsAreBounded(t *testing.T) {
	var r recent
	for i := range 10 {
		r.add(&recentRecord{digest: wire.Digest(rune('a' + i)), content: content{bytes: recentBytes/3 + 1}})
		if r.bytes > recentBytes || len(r.records) != min(i+1, 2) {
			t.Fatalf("%d records of %d bytes", len(r.records), r.bytes)
		}
	}
	r.add(&recentRecord{digest: "j", content: content{bytes: recentBytes / 3}}) // the last one
	r.add(&recentRecord{digest: "k", content: content{bytes: recentBytes / 3}})
	if r.last["j"] != r.records[len(r.records)-2] || len(r.last) != 2 {
		t.Errorf("%d digests of %d records", len(r.last), len(r.records))
	}
	r.add(&recentRecord{digest: "large", content: content{bytes: recentBytes + 1}})
	if len(r.records) != 0 || len(r.last) != 0 || r.bytes != 0 {
		t.Errorf("%d records of %d bytes after one that is too large", len(r.records), r.bytes)
	}
}

// Contents differ in any byte, or in the boundary of values, whether they are cached or hashed.
func TestContentsDiffer(t *testing.T) {
	var r, other recent
	large := func(change func([]byte) [][]byte) [][]byte { return change(make([]byte, recentBytes+1)) }
	all := [][][]byte{
		nil, {{1}}, {{0}}, {{1}, {}}, {{}, {1}}, {{1, 2}}, {{1}, {2}}, {{2}, {1}}, {make([]byte, 1000)}, {make([]byte, 999)},
		large(func(v []byte) [][]byte { return [][]byte{v} }), large(func(v []byte) [][]byte { return [][]byte{v[:9], v[9:]} }),
		large(func(v []byte) [][]byte { return [][]byte{v[:10], v[10:]} }), large(func(v []byte) [][]byte { v[0] = 1; return [][]byte{v} }),
		large(func(v []byte) [][]byte { v[recentBytes] = 1; return [][]byte{v} }),
	}
	var contents []content
	for i, values := range all {
		c := r.contentOf(values)
		if again := r.contentOf(values); !c.is(&again) {
			t.Errorf("content %d is not itself", i)
		}
		for j, before := range contents {
			if c.is(&before) {
				t.Errorf("content %d is content %d", i, j)
			}
		}
		if there := other.contentOf(values); (c.values == nil && values != nil) != (c.hashes != there.hashes) {
			t.Errorf("content %d has hashes %x here and %x there, %d values", i, c.hashes, there.hashes, len(c.values))
		}
		contents = append(contents, c)
	}
}
