package pipeline

import (
	"context"
	"errors"
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// silentLog is a log of which nothing comes: its subscriptions are late twice, and then end.
type silentLog struct{ protocol.Log }

func (silentLog) Subscribe(context.Context, <-chan struct{}, ...protocol.Position) protocol.Subscription {
	return &silence{waits: 2}
}

type silence struct{ waits int }

func (s *silence) Next(context.Context, time.Duration) (d *protocol.Delivery, late bool, err error) {
	if s.waits == 0 {
		return nil, false, io.EOF
	}
	s.waits--
	return nil, true, nil
}

func (*silence) Close() {}

// Who is attached to a run of which nothing comes is told again what it waits for, and who works on it. Who works on it is not.
func TestFollowerOfASilentRun(t *testing.T) {
	log, job := openEmbedded(t), newMultiStageJob(t)
	id := must(Submit(t.Context(), log, openBLAS(t), job, dispatch.TrainOptions{}, event.Ignore{}))(t)
	p := topics.Open(log, job.Name, nil)
	p.Log = silentLog{p.Log}
	l := must(p.ReadLedger(t.Context()))(t)
	waits := event.Followed{Run: id, Stage: wire.Survey, Staff: event.Staff{Embedded: true}, Quiet: protocol.MinPatience}
	longer := waits
	longer.Quiet += 2 * protocol.MinPatience
	for attached, want := range map[bool][]event.Followed{true: {waits, longer}, false: nil} {
		rec := &eventRecorder{}
		f := dispatch.NewFollower(p, l.Plan(id), l, rec)
		f.Attached = attached
		if _, err := f.Follow(t.Context()); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if told := eventsOf[event.Followed](rec); !reflect.DeepEqual(told, want) {
			t.Errorf("attached %v: got %+v, expected %+v", attached, told, want)
		}
	}
}
