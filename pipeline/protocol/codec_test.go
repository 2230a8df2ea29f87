package protocol

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

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
