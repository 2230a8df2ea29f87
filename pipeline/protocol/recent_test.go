package protocol

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

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
	writer, reader := NewCodec(nil, 0), NewCodec(nil, 0)
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
	digest, codec := record.Digest(), NewCodec(nil, 0)
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
	codec, collect := NewCodec(nil, 0), func(c Codec, messages []wire.Message) (r *wire.Record[float32]) {
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
		other := NewCodec(nil, 0) // of another process
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
		if there := other.contentOf(values); (c.values == nil && values != nil) != !slices.Equal(c.hashes, there.hashes) {
			t.Errorf("content %d has hashes %x here and %x there, %d values", i, c.hashes, there.hashes, len(c.values))
		}
		contents = append(contents, c)
	}
}

// encodeLarge encodes a record a few messages at a time, with the messages of one that is encoded as a whole.
func encodeLarge[T wire.Number](t *testing.T, c Codec, r *wire.Record[T], given bool) (messages []wire.Message) {
	t.Helper()
	most := encodedBatch
	for batch, err := range encodeBatches(c, r, given) {
		if err != nil || len(batch) > most {
			t.Fatalf("%d messages at a time: %v", len(batch), err)
		}
		messages = append(messages, batch...)
	}
	whole, err := r.EncodeWithin(wire.MaxMessage, memory.DefaultAllocator)
	if err != nil || !reflect.DeepEqual(messages, whole) {
		t.Fatalf("%d messages a few at a time, %d as a whole: %v", len(messages), len(whole), err)
	}
	return messages
}

// The first reader of a large record that the process has given gets the writer's values, and keeps no messages. Others,
// which read at the same time or later, decode the record.
func TestLargeRecordsAreGiven(t *testing.T) {
	here, values := NewCodec(nil, 0), make([]float64, recentBytes/8+1)
	for i := range values {
		values[i] = float64(i % 1000)
	}
	record := &wire.Record[float64]{Identity: wire.Identity{Kind: statistics.KindVisit, Run: "run"},
		Tensors: wire.Tensors[float64]{wire.Vector(statistics.FieldCross, values)}}
	messages := encodeLarge(t, here, record, true)
	other := wire.Message{Headers: (&wire.Record[float64]{Identity: wire.Identity{Kind: statistics.KindVisit, Run: "other"}}).Headers(), Value: []byte{1}}
	other.Headers = append(other.Headers, wire.Header{Key: "chunk", Value: "0"}, wire.Header{Key: "chunks", Value: "2"})

	first, second := &wire.Collector[float64]{MaxBytes: recentBytes / 4}, &wire.Collector[float64]{}
	var got [2]*wire.Record[float64]
	for i, m := range messages {
		var err error
		if got[0], err = here.CollectDouble(first, m); err != nil {
			t.Fatal(err)
		}
		if got[1], err = here.CollectDouble(second, m); err != nil {
			t.Fatal(err)
		}
		if i == len(messages)-2 { // evicts the record if the collector has its messages
			if _, err := here.CollectDouble(first, other); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got[0] == nil || got[0].Identity != record.Identity || &got[0].Tensors[0].Data[0] != &values[0] {
		t.Error("the first reader has not the writer's values")
	}
	for _, c := range []Codec{here, NewCodec(nil, 0)} { // again, and another process
		collector := &wire.Collector[float64]{}
		for _, m := range messages {
			r, err := c.CollectDouble(collector, m)
			if err != nil {
				t.Fatal(err)
			}
			got[0] = r
		}
		if got[0] == nil || got[0].Digest() != record.Digest() {
			t.Errorf("a later reader has %v", got[0])
		}
	}
	if got[1] == nil || &got[1].Tensors[0].Data[0] == &values[0] || got[1].Digest() != record.Digest() {
		t.Error("a second reader, at the same time, has not the record's values in other memory")
	}
}

// Readers of large weights share the writer's values, also if others are written before they have read them. A damaged message is
// an error, and the record can be read again. Weights of which the process has written a part can be read if another one writes them.
func TestLargeWeightsAreSharedWhileOthersAreWritten(t *testing.T) {
	codec, collector := NewCodec(nil, 0), &wire.Collector[float32]{MaxBytes: recentBytes / 4}
	weights := func(visit int) *wire.Record[float32] {
		return &wire.Record[float32]{Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run", Visit: visit, Parent: "parent"},
			Notes: []wire.Header{{Key: "final", Value: "1"}}, Tensors: wire.Tensors[float32]{wire.Vector("W", make([]float32, recentBytes/4+1))}}
	}
	record := weights(0)
	messages := encodeLarge(t, codec, record, false)
	damaged := messages[1]
	damaged.Value = append(slices.Clone(damaged.Value), 0)
	if _, err := codec.CollectSingle(collector, messages[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := codec.CollectSingle(collector, damaged); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("a damaged message: %v", err)
	}
	var got *wire.Record[float32]
	for i, m := range messages {
		r, err := codec.CollectSingle(collector, m)
		if err != nil {
			t.Fatal(err)
		}
		if got = r; i == len(messages)/2 {
			encodeLarge(t, codec, weights(1), false)
		}
	}
	if got == nil || !reflect.DeepEqual(got.Notes, record.Notes) || &got.Tensors[0].Data[0] != &record.Tensors[0].Data[0] {
		t.Errorf("a reader has not the writer's values: %v", got)
	}
	for range encodeBatches(codec, weights(2), false) {
		break
	}
	for _, m := range encodeLarge(t, NewCodec(nil, 0), weights(2), false) {
		var err error
		if got, err = codec.CollectSingle(collector, m); err != nil {
			t.Fatal(err)
		}
	}
	if got == nil || got.Visit != 2 {
		t.Errorf("of weights that another process writes too: %v", got)
	}
}
