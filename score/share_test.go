package score

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// member is an owner whose partitions come and go.
type member struct {
	mu      sync.Mutex
	owned   []int
	changed chan struct{}
}

func newMember() *member { return &member{changed: make(chan struct{}, 1)} }

func (m *member) own(partitions []int) {
	m.mu.Lock()
	m.owned = partitions
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default: // it will look
	}
}

func (m *member) Owned() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.owned)
}

func (m *member) Changed() <-chan struct{}              { return m.changed }
func (m *member) Commit(map[int]int64, func(err error)) {}
func (m *member) Err() error                            { return nil }

// Two processes whose partitions move with each write, and may be with both or none for a while, leave what one process leaves.
func TestPartitionsThatMove(t *testing.T) {
	m := newModel(t, 1, 3000)
	for seed := range uint64(3) {
		a := newTopic(t, 3, sizes...)
		random := rand.New(rand.NewPCG(seed, 2))
		var mu sync.Mutex // of random
		members := []*member{newMember(), newMember()}
		move := func() {
			mu.Lock()
			defer mu.Unlock()
			owned := make([][]int, len(members))
			for n := range a.partitions {
				for i := range members {
					if random.IntN(2) == 0 {
						owned[i] = append(owned[i], n)
					}
				}
			}
			for i := range members {
				members[i].own(owned[i])
			}
		}
		var running sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for _, owner := range members {
			rec := listener(func(e event.Event) {
				switch e.(type) {
				case event.Scored, event.ScoringLag: // the second comes also while nobody owns anything
					move()
				}
			})
			running.Go(func() {
				err := Run(ctx, a.client, Options{From: "p.examples", To: "p.predictions", UntilEnd: true}, Fixed(m), owner, kernel.Gonum(), rec)
				if err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		cancel()
		a.counted(t, m)
	}
}

// growing is a log whose topics of examples get another partition after the first look.
type growing struct {
	protocol.Log
	looked bool
}

func (g *growing) Spans(ctx context.Context, topic string) ([]coverage.Span, error) {
	spans, err := g.Log.Spans(ctx, topic)
	if g.looked {
		spans = append(spans, coverage.Span{Partition: len(spans)})
	}
	g.looked = true
	return spans, err
}

// A service ends if there is a partition that nobody would predict for. Who predicts until the end has nothing to do with it.
func TestPartitionsThatAreAdded(t *testing.T) {
	for _, untilEnd := range []bool{false, true} {
		a, m := newTopic(t, 2, 1, 2), newModel(t, 1, 3)
		a.client.Log = &growing{Log: a.client.Log}
		err := a.run(t.Context(), untilEnd, m, event.Ignore{})
		if untilEnd {
			if err != nil {
				t.Error(err)
			}
			a.counted(t, m)
		} else if want := "p.examples has 3 partitions, but had 2 when scoring began: restart score"; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

// unwritable is a log to which nothing can be written until the context ends.
type unwritable struct{ protocol.Log }

func (unwritable) Append(ctx context.Context, _ string, _ int, _ ...wire.Message) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// The lag is told of a process that can't write, too.
func TestLagOfWhoCannotWrite(t *testing.T) {
	a, m := newTopic(t, 1, 1, 2, 3), newModel(t, 1, 3)
	a.client.Log = unwritable{a.client.Log}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_ = a.run(ctx, false, m, listener(func(e event.Event) { // it ends with the context
		if e, ok := e.(event.ScoringLag); ok && e.Offsets[0] == 3 {
			cancel()
		}
	}))
}

// removed has a model until the version is removed.
type removed struct {
	mu      sync.Mutex
	model   *model.Model
	changed chan struct{}
}

func (r *removed) Model() *model.Model {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.model
}

func (r *removed) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

func (r *removed) put(m *model.Model) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.model = m
	close(r.changed)
	r.changed = make(chan struct{})
}

// While there is no version, messages wait; those of all partitions get predictions by the next one.
func TestMessagesWaitForVersion(t *testing.T) {
	a, m := newTopic(t, 3, sizes...), newModel(t, 1, 3)
	versions := &removed{changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, watched, scored := make(chan error, 1), make(chan bool, 9), make(chan event.Scored, len(sizes))
	go func() {
		o := Options{From: "p.examples", To: "p.predictions"}
		ended <- Run(ctx, a.client, o, versions, protocol.NewSoleOwner(a.partitions), kernel.Gonum(), listener(func(e event.Event) {
			switch e := e.(type) {
			case event.ScoringLag:
				select {
				case watched <- true:
				default:
				}
			case event.Scored:
				scored <- e
			}
		}))
	}()
	<-watched
	versions.put(m)
	first := <-scored
	versions.put(nil)
	for messages := first.Messages; messages < len(sizes); {
		select {
		case e := <-scored:
			messages += e.Messages
		case <-watched: // what was read before has predictions; the rest waits
			versions.put(m)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	a.counted(t, m)
}
