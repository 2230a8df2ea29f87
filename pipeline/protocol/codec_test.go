package protocol

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/residuals"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
)

// Records of both precisions, in one message or many, are restored from their messages in any order.
func TestRecordsRoundTrip(t *testing.T) {
	mem := arrowtest.Allocator(t)
	for _, chunk := range []int{0, 1} {
		client := &Client{Log: memoryLog{}, Codec: NewCodec(mem, chunk)}
		id := wire.Identity{Kind: statistics.KindVisit, Run: "run", Stage: 1, Visit: 2, Partition: 3, Parent: "parent"}
		notes := []wire.Header{{Key: "note", Value: "text"}}
		single := &wire.Record[float32]{Identity: id, Notes: notes, Tensors: wire.Tensors[float32]{wire.Vector("v", make([]float32, 10_000))}}
		double := &wire.Record[float64]{Identity: id, Notes: notes, Tensors: wire.Tensors[float64]{wire.Matrix("m", 100, 100,
			make([]float64, 10_000))}}
		for i := range 10_000 {
			single.Tensors[0].Data[i], double.Tensors[0].Data[i] = float32(i), 1/float64(i+1)
		}
		if _, err := WriteRecord(t.Context(), client, "single", 0, single); err != nil {
			t.Fatal(err)
		}
		if _, err := WriteRecord(t.Context(), client, "double", 0, double); err != nil {
			t.Fatal(err)
		}
		var (
			singles    wire.Collector[float32]
			doubles    wire.Collector[float64]
			gotSingle  *wire.Record[float32]
			gotDouble  *wire.Record[float64]
			singleSize = len(client.Log.(memoryLog)["single"])
		)
		err := errors.Join(
			client.Remaining(t.Context(), "single", 0, 0, math.MaxInt64, func(m Message) (err error) {
				gotSingle, err = client.Codec.CollectSingle(&singles, m.Message)
				return err
			}),
			client.Remaining(t.Context(), "double", 0, 0, math.MaxInt64, func(m Message) (err error) {
				gotDouble, err = client.Codec.CollectDouble(&doubles, m.Message)
				return err
			}))
		if err != nil || !reflect.DeepEqual(gotSingle, single) || !reflect.DeepEqual(gotDouble, double) {
			t.Errorf("chunk %d: other records come back, %v", chunk, err)
		}
		if (singleSize > 1) != (chunk == 1) {
			t.Errorf("chunk %d: %d messages", chunk, singleSize)
		}
	}
}

// Residuals and examples round-trip.
func TestRowsRoundTrip(t *testing.T) {
	codec := NewCodec(nil, 0)
	score, residual := kernel.Dense{Rows: 2, Cols: 2, Data: []float32{1, 2, 3, 4}}, kernel.Dense{Rows: 2, Cols: 2, Data: []float32{5, 6, 7, 8}}
	votes := kernel.Dense{Rows: 2, Cols: 2, Data: []float32{0, 1, 1, 0}}
	list, err := codec.EncodeResiduals(wire.Identity{Kind: residuals.Kind, Run: "run"}, "attempt", 9,
		sink.Finished{Score: score, Residual: residual, Votes: votes})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d messages, %v", len(list), err)
	}
	r, err := codec.DecodeResiduals(list[0], 2)
	if err != nil || r.Offset != 9 || r.Attempt != "attempt" || !slices.Equal(r.Score, score.Data) || !slices.Equal(r.Residual,
		residual.Data) || !slices.Equal(r.Votes, votes.Data) {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := codec.DecodeResiduals(list[0], 3); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("of 3 classes: %v", err)
	}
	if _, err := codec.DecodeExamples([]byte("none")); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("examples of text: %v", err)
	}
}

// Plans and manifests round-trip, with the run id. Invalid ones are reported as damaged.
func TestPlansRoundTrip(t *testing.T) {
	p, run, err := DecodePlan(documents(t, testPlan(1).Messages)[0])
	if err != nil || run != testPlan(1).Run() || p.Digest() != testPlan(1).Digest() {
		t.Errorf("%v of run %s, %v", p, run, err)
	}
	for name, change := range map[string]func(*schemas.Plan){
		"no stages":           func(p *schemas.Plan) { p.Stages = nil },
		"unknown kind":        func(p *schemas.Plan) { p.Stages[0].Features.Kind = "wavelet" },
		"unknown link":        func(p *schemas.Plan) { p.Stages[1].Link = "probit" },
		"no passes":           func(p *schemas.Plan) { p.Stages[1].Passes = 0 },
		"unknown scale":       func(p *schemas.Plan) { p.Prepare.Scale = "huge" },
		"segments of nothing": func(p *schemas.Plan) { p.Segment = 0 },
	} {
		plan := testPlan(1)
		change(plan)
		if p, _, err := DecodePlan(documents(t, plan.Messages)[0]); !errors.Is(err, wire.ErrDamaged) || p != nil {
			t.Errorf("%s: plan %v, %v", name, p, err)
		}
		manifest := schemas.Manifest{Run: "run", Plan: plan}
		if _, err := DecodeManifest(documents(t, manifest.Messages)[0]); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%s: manifest: %v", name, err)
		}
	}
	manifest := schemas.Manifest{Run: "run"}
	if _, err := DecodeManifest(documents(t, manifest.Messages)[0]); !errors.Is(err, wire.ErrDamaged) {
		t.Errorf("a manifest without its plan: %v", err)
	}
}

// A message keeps key, value and headers on its way to the log and back.
func TestMessageOfKafka(t *testing.T) {
	want := []wire.Message{
		{Key: "k", Value: []byte("v"), Headers: []wire.Header{{Key: "a", Value: "1"}, {Key: "a", Value: "2"}}},
		{Key: "tombstone", Headers: []wire.Header{}},
	}
	for i, k := range toKafka(want) {
		k.Offset = 7
		if got := FromKafka(k); !reflect.DeepEqual(got, want[i]) || (k.Value == nil) != (want[i].Value == nil) {
			t.Errorf("%+v, expected %+v", got, want[i])
		}
	}
	if m := FromKafka(kafkalog.Message{}); m.Key != "" || m.Value != nil || len(m.Headers) != 0 {
		t.Errorf("%+v", m)
	}
}
