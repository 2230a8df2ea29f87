package protocol

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A waiting run starts where the previous run ended, also after a sweep.
func TestSweptLedgerKnowsWhereRunsBegin(t *testing.T) {
	client := newTestClient()
	first, second := testPlan(1), testPlan(2)
	end := &schemas.End{Run: first.Run(), State: schemas.Failed, Since: schemas.Since{Weights: 9, Statistics: []int64{8}}}
	write(t, client, append(append(documents(t, first.Messages), documents(t, second.Messages)...), end.Message())...)
	sweepAll(t, client)
	l, err := client.ReadLedger(t.Context())
	assert.Need(t, err == nil && slices.Equal(unfinished(l), []string{second.Run()}), "unfinished: %v, %v", unfinished(l), err)
	since := l.Plan(second.Run()).Since
	assert.True(t, since.Weights == 9 && slices.Equal(since.Statistics, []int64{8}), "the second run begins at %+v, not at the end", since)
}

// sweepAll writes ends of runs until Prune sweeps the topic.
func sweepAll(t *testing.T, client *Client) {
	t.Helper()
	client.KeepRuns = 1
	for n := range 3 {
		write(t, client, (&schemas.End{Run: fmt.Sprint("x", n), State: schemas.Failed}).Message())
	}
	assert.NoError(t, client.Prune(t.Context(), 9))
}

// A seal and a removal are kept exactly as long as the examples topic has messages of their source.
func TestSourcesGoWithTheirMessages(t *testing.T) {
	client := newTestClient()
	client.KeepRuns = 1
	log := client.Log.(memoryLog)
	log[client.Topics.Examples] = make([]wire.Message, 2)
	sealed := &schemas.SourceSeal{ID: "sealed", Attempt: "a", Partitions: 1, Spans: coverage.Spans{{From: 0, To: 1}}}
	removed := &schemas.SourceSeal{ID: "removed", Attempt: "a", Partitions: 1, Spans: coverage.Spans{{From: 1, To: 2}}}
	write(t, client, sealed.Message(), removed.Message(), (&schemas.SourceRemoval{Seal: *removed}).Message())
	live := func() (keys []string) {
		for key := range log.live(client.Topics.Plans) {
			if strings.HasPrefix(key, "source/") {
				keys = append(keys, key)
			}
		}
		return keys
	}
	for range 2 {
		sweepAll(t, client)
		assert.Need(t, len(live()) == 2, "%q stay, expected both", live())
	}
	log[client.Topics.Examples] = nil
	sweepAll(t, client)
	l, err := client.ReadLedger(t.Context())
	assert.True(t, err == nil && len(live()) == 0 && len(l.Seals("sealed"))+len(l.Removed()) == 0,
		"%q stay, the ledger has %v and %v, %v; expected nothing", live(), l.Seals("sealed"), l.Removed(), err)
	size := len(log[client.Topics.Plans])
	sweepAll(t, client)
	for _, m := range log[client.Topics.Plans][size:] {
		assert.True(t, m.Value != nil || !strings.HasPrefix(m.Key, "source/"), "another tombstone of %s", m.Key)
	}
}

// Besides the newest versions, Prune keeps the latest for subscribers, with and without the pin, those that unfinished
// runs refer to, and the newest of a chain, from which the next attempt continues.
func TestVersionsThatStay(t *testing.T) {
	client := newTestClient()
	for version := 1; version <= 9; version++ {
		run := fmt.Sprint("run", version)
		place := &schemas.Place{Run: run, Version: version, Withheld: version > 6}
		write(t, client, (&schemas.End{Run: run, State: schemas.Done, Version: place}).Message())
	}
	warm, update := testPlan(1), testPlan(2)
	warm.Warm, update.Chain = &schemas.Warm{Run: "run3"}, &schemas.Chain{Number: 2, Parent: &schemas.Warm{Run: "run4"},
		Gate: &schemas.Gate{Split: "test", Offered: schemas.Warm{Run: "run5"}}}
	write(t, client, append(documents(t, warm.Messages), documents(t, update.Messages)...)...)
	prune := func(want ...int) {
		t.Helper()
		assert.NoError(t, client.Prune(t.Context(), 2))
		l := assert.Must(client.ReadLedger(t.Context()))(t)
		var stay []int
		for _, place := range l.Versions() {
			stay = append(stay, place.Version)
		}
		assert.Equal(t, stay, want, "the versions that stay")
	}
	write(t, client, (&schemas.Pin{Run: "run2", Version: 2}).Message())
	prune(2, 3, 4, 5, 6, 8, 9)
	write(t, client, (&schemas.Pin{}).Message())
	prune(3, 4, 5, 6, 8, 9)
	for _, plan := range []*schemas.Plan{warm, update} {
		write(t, client, (&schemas.End{Run: plan.Run(), State: schemas.Cancelled}).Message())
	}
	prune(4, 6, 8, 9)
}

// The plans from which the versions of a chain can be made again stay: those since the last full run of the oldest version. Others go.
func TestPlansOfAChainStay(t *testing.T) {
	client := newTestClient()
	client.KeepRuns, client.Alone = 1, true
	log, plans := client.Log.(memoryLog), client.Topics.Plans
	var keys []string
	full := int64(0)
	for n := 1; n <= 9; n++ {
		plan := testPlan(uint64(n))
		plan.Chain = &schemas.Chain{Number: n, Update: &schemas.Update{Passes: 1}}
		if n%3 == 1 { // 1, 4 and 7 are full
			plan.Chain.Update, full = nil, int64(len(log[plans]))
		}
		plan.Since.Plans = full
		finished(t, client, plan, n)
		keys = append(keys, documents(t, plan.Messages)[0].Key)
		assert.NoError(t, client.Prune(t.Context(), 2))
		oldest := max(n-1, 1)
		last := (oldest - 1) / 3 * 3 // its full run
		live := log.live(plans)
		for i, key := range keys {
			_, stays := live[key]
			assert.True(t, stays || i < last, "after %d runs the plan of run %d is gone, expected those from %d on", n, i+1, last+1)
			assert.True(t, !stays || n != 9 || i >= 3, "the plan of run %d stays, which no version needs", i+1)
		}
	}
}

// What a run has left on the versions topic is removed if the run was cancelled before its version counted. A version stays, and so
// does what a run that goes on has written, until a later sweep.
func TestVersionsThatNeverCount(t *testing.T) {
	client := newTestClient().Beside("test") // with the memory of a process
	client.KeepRuns = 1
	log, versions := client.Log.(memoryLog), client.Topics.Versions
	live := func() (runs []string) {
		for _, m := range log.live(versions) {
			runs = append(runs, m.Run())
		}
		slices.Sort(runs)
		return slices.Compact(runs)
	}
	counts, cancelled, goesOn := finished(t, client, testPlan(1), 1), testPlan(2), testPlan(3)
	for _, plan := range []*schemas.Plan{cancelled, goesOn} {
		write(t, client, documents(t, plan.Messages)...)
		manifest := &schemas.Manifest{Name: plan.Name, Version: 2, Run: plan.Run(), Plan: plan}
		assert.Must(client.PublishVersion(t.Context(), manifest, newTestRun(plan).all(), nil))(t)
	}
	write(t, client, (&schemas.End{Run: cancelled.Run(), State: schemas.Cancelled}).Message())
	log[versions] = append(log[versions], wire.Message{Value: []byte("of another program")})
	prune := func(want ...string) {
		t.Helper()
		sweepAll(t, client)
		slices.Sort(want)
		assert.Equal(t, live(), want, "the runs of which the topic has messages")
	}
	prune("", counts.Run, goesOn.Run())
	write(t, client, (&schemas.End{Run: goesOn.Run(), State: schemas.Cancelled}).Message())
	prune("", counts.Run)
	size := len(log[versions])
	prune("", counts.Run)
	assert.Equal(t, len(log[versions]), size, "messages where nothing was left to remove")
}

// A process that is suspended while it prunes removes no version that another process has made meanwhile.
func TestVersionOfAnotherProcessStays(t *testing.T) {
	client := newTestClient()
	var made *schemas.Manifest
	log := client.Log.(memoryLog)
	client.Log = suspendedLog{log, func() {
		if made == nil {
			made = finished(t, client, testPlan(1), 1)
		}
	}}
	sweepAll(t, client)
	assert.Need(t, made != nil, "Prune has not looked for old messages")
	for _, m := range log[client.Topics.Versions] {
		assert.True(t, m.Value != nil, "a tombstone of %s", m.Key)
	}
}

// suspendedLog calls others before it says which messages are old.
type suspendedLog struct {
	Log
	others func()
}

func (l suspendedLog) Before(ctx context.Context, topic string, age time.Duration) ([]int64, error) {
	l.others()
	return l.Log.Before(ctx, topic, age)
}

// Later calls of Prune complete an interrupted one.
func TestInterruptedPrune(t *testing.T) {
	for fails := range 4 {
		client := newTestClient()
		client.KeepRuns = 1
		log := client.Log.(memoryLog)
		prune := func(seed uint64) error {
			plan := testPlan(seed)
			write(t, client, append(documents(t, plan.Messages), (&schemas.End{Run: plan.Run(), State: schemas.Failed}).Message())...)
			return client.Prune(t.Context(), 1)
		}
		for seed := range uint64(3) {
			assert.NoError(t, prune(10+seed))
		}
		client.Log = &failingLog{log, fails}
		err := client.Prune(t.Context(), 1)
		assert.Need(t, err == nil || errors.Is(err, errWrite), "%v", err)
		client.Log = log
		for seed := range uint64(3) {
			assert.NoError(t, prune(20+seed))
		}
		live := log.live(client.Topics.Plans)
		assert.True(t, len(live) <= 6, "interrupted at write %d: %d messages stay, expected those of the last runs", fails, len(live))
	}
}

var errWrite = errors.New("no write")

// failingLog fails at one write.
type failingLog struct {
	Log
	left int
}

func (l *failingLog) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (int64, error) {
	if l.left--; l.left < 0 {
		return -1, errWrite
	}
	return l.Log.Append(ctx, topic, partition, messages...)
}

// write appends messages to the plans topic.
func write(t *testing.T, client *Client, messages ...wire.Message) {
	t.Helper()
	assert.Must(client.Log.Append(t.Context(), client.Topics.Plans, 0, messages...))(t)
}
