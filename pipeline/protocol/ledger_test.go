package protocol

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// The ledger has runs in the order of their first plans, and damaged messages in between do not affect it.
func TestLedger(t *testing.T) {
	client, told := newTestClient(), notices{}
	first, second := testPlan(1), testPlan(2)
	damaged := documents(t, first.Messages)[0]
	damaged.Key, damaged.Value = "plan/damaged", []byte("{")
	unsound := testPlan(3)
	unsound.Stages[0].Passes = 0
	seal := schemas.SourceSeal{ID: "s", Attempt: "a", Partitions: 1}
	other := schemas.SourceSeal{ID: "r", Attempt: "a", Partitions: 1}
	planOf := func(p *schemas.Plan) wire.Message { return documents(t, p.Messages)[0] }
	for _, m := range []wire.Message{
		damaged, planOf(first), seal.Message(), planOf(second), planOf(first), planOf(unsound), other.Message(), seal.Message(),
		{Key: "plan/tombstone", Headers: damaged.Headers}, {Value: []byte("of no kind")},
	} {
		assert.Must(client.Log.Append(t.Context(), client.Topics.Plans, 0, m))(t)
	}
	l, err := client.ReadLedger(t.Context())
	assert.Need(t, err == nil && l.Next == 10, "next is %d, %v", l.Next, err)
	l.Report((&told).Record)
	assert.True(t, len(told) == 2 && strings.Contains(told[0], "test.plans[0]@0: damaged") && strings.Contains(told[1], "passes"), "%q", told)
	assert.Equal(t, unfinished(l), []string{first.Run(), second.Run()}, "unfinished runs")
	got := slices.Collect(l.Sources())
	assert.True(t, slices.Equal(got, []string{"r", "s"}) && len(l.Seals("s")) == 1 && len(l.Seals("r")) == 1, "sources %q", got)
	assert.True(t, l.Plan(second.Run()).Digest() == second.Digest() && l.Plan("unknown") == nil && l.End(first.Run()) == nil,
		"a plan is not found by its run, or one that is not there is")
	end := &schemas.End{Run: first.Run(), State: schemas.Done, Since: schemas.Since{Weights: 9}}
	err = l.Add(Message{Message: end.Message(), Offset: 20})
	assert.True(t, err == nil && l.Next == 21, "next is %d, %v", l.Next, err)
	assert.True(t, len(unfinished(l)) == 1 && l.End(first.Run()) != nil, "the first run has not ended")
	assert.Equal(t, l.Plan(first.Run()).Since.Weights, 0, "where the first run begins")
	assert.Equal(t, l.Plan(second.Run()).Since.Weights, 9, "where the second run begins, as the first has ended")
	damaged.Key = "plan/also damaged"
	err = l.Add(Message{Message: damaged, Offset: 21})
	assert.True(t, errors.Is(err, wire.ErrDamaged) && l.Next == 22, "next is %d, %v", l.Next, err)
}

// unfinished returns the ids of the unfinished runs.
func unfinished(l *Ledger) (runs []string) {
	for run := range l.Unfinished() {
		runs = append(runs, run)
	}
	return runs
}

// sweptAtEachStep writes messages to the plans topic of a new log, which is swept after the first n of them, for each n, and calls check
// with what was done and the ledger: as the messages were written, compacted, swept again, and compacted again.
func sweptAtEachStep(t *testing.T, messages []wire.Message, check func(what string, l *Ledger)) {
	t.Helper()
	for step := range len(messages) + 1 {
		client := newTestClient()
		log := client.Log.(memoryLog)
		log[client.Topics.Examples] = make([]wire.Message, 1) // so that nothing has expired
		write(t, client, messages[:step]...)
		sweepAll(t, client)
		write(t, client, messages[step:]...)
		for i, state := range []string{"as it was written", "compacted", "swept", "swept and compacted"} {
			if i == 2 {
				sweepAll(t, client)
			} else if i > 0 {
				compact(log, client.Topics.Plans)
			}
			check(fmt.Sprintf("swept after %d messages, %s", step, state), assert.Must(client.ReadLedger(t.Context()))(t))
		}
	}
}

// Of the seal and the removal of a source the later counts, also after compaction. A source
// without a valid seal does not exist, and a restored one is the last.
func TestRemovedSources(t *testing.T) {
	seals := map[string]*schemas.SourceSeal{}
	for _, name := range []string{"s/a", "s/b", "r/a"} {
		id, attempt, _ := strings.Cut(name, "/")
		seals[name] = &schemas.SourceSeal{ID: id, Attempt: attempt, Partitions: 1, Spans: coverage.Spans{{From: 0, To: 1}}}
	}
	seal := func(name string) wire.Message { return seals[name].Message() }
	removal := func(name string) wire.Message { return (&schemas.SourceRemoval{Seal: *seals[name]}).Message() }
	incomplete := (&schemas.End{Run: "x", State: schemas.Failed, Source: "s/a"}).Message()
	for name, test := range map[string]struct {
		messages                 []wire.Message
		sources, counts, removed string
	}{
		"sealed":            {[]wire.Message{seal("s/a"), seal("r/a")}, "s r", "s/a r/a", ""},
		"removed":           {[]wire.Message{seal("s/a"), seal("r/a"), removal("s/a")}, "r", "r/a", "s/a"},
		"removed twice":     {[]wire.Message{seal("s/a"), removal("s/a"), removal("s/a")}, "", "", "s/a"},
		"written again":     {[]wire.Message{seal("s/a"), seal("s/a"), removal("s/a")}, "", "", "s/a"},
		"brought back":      {[]wire.Message{seal("s/a"), seal("r/a"), removal("s/a"), seal("s/a")}, "r s", "r/a s/a", ""},
		"one attempt":       {[]wire.Message{seal("s/a"), seal("s/b"), removal("s/a")}, "s", "s/b", "s/a"},
		"another attempt":   {[]wire.Message{seal("s/a"), removal("s/a"), seal("s/b")}, "s", "s/b", "s/a"},
		"in another order":  {[]wire.Message{seal("s/a"), seal("r/a"), removal("r/a"), removal("s/a")}, "", "", "r/a s/a"},
		"without messages":  {[]wire.Message{seal("s/a"), removal("s/a"), incomplete}, "", "", ""},
		"not of its ledger": {[]wire.Message{removal("s/a")}, "", "", "s/a"},
	} {
		t.Run(name, func(t *testing.T) {
			sweptAtEachStep(t, test.messages, func(what string, l *Ledger) {
				var counts, removed []string
				for id := range l.Sources() {
					for _, s := range l.Seals(id) {
						counts = append(counts, s.Name())
					}
				}
				for _, s := range l.Removed() {
					removed = append(removed, s.Name())
				}
				got := []string{strings.Join(slices.Collect(l.Sources()), " "), strings.Join(counts, " "), strings.Join(removed, " ")}
				assert.Equal(t, got, []string{test.sources, test.counts, test.removed},
					"%s: sources, those that count, and those that are removed", what)
				for name := range seals {
					assert.Equal(t, l.Sealed(name), slices.Contains(counts, name) || slices.Contains(removed, name), "%s is sealed", name)
				}
			})
		})
	}
}

// Of the divisions of a topic the first of the last attempt counts, also after a sweep and after compaction.
func TestDivisionOfATopic(t *testing.T) {
	divisions := []schemas.Division{{Topic: "a", Attempt: 1, Partitions: 2}, {Topic: "a", Attempt: 1, Partitions: 3},
		{Topic: "b", Attempt: 1, Partitions: 4, Joined: true}, {Topic: "a", Attempt: 2, Partitions: 5}, {Topic: "a", Attempt: 1, Partitions: 6}, {Topic: "a", Attempt: 2, Partitions: 7}}
	var messages []wire.Message
	for i := range divisions {
		divisions[i].Writer = fmt.Sprint("writer ", i)
		messages = append(messages, divisions[i].Message())
	}
	sweptAtEachStep(t, messages, func(what string, l *Ledger) {
		got := []*schemas.Division{l.Division("a", 1), l.Division("a", 2), l.Division("b", 1), l.Division("c", 1)}
		assert.Equal(t, got, []*schemas.Division{nil, &divisions[3], &divisions[2], nil}, "%s: divisions", what)
	})
}

// The latest version is the pinned one, or else the newest that is not withheld, also after a sweep and after compaction.
func TestLatest(t *testing.T) {
	end := func(version int, withheld bool) wire.Message {
		run := fmt.Sprint("run", version)
		return (&schemas.End{Run: run, State: schemas.Done, Version: &schemas.Place{Run: run, Version: version, Withheld: withheld}}).Message()
	}
	made := func(version int) wire.Message { return end(version, false) }
	withheld := func(version int) wire.Message { return end(version, true) }
	pin := func(version int) wire.Message {
		return (&schemas.Pin{Run: fmt.Sprint("run", version), Version: version}).Message()
	}
	removal := func(version int) wire.Message {
		return (&schemas.Removal{Run: fmt.Sprint("run", version), Version: version}).Message()
	}
	off := (&schemas.Pin{}).Message()
	for name, test := range map[string]struct {
		messages                []wire.Message
		latest, offered, pinned int // 0: there is none
	}{
		"no version":                  {nil, 0, 0, 0},
		"the newest":                  {[]wire.Message{made(1), made(2)}, 2, 2, 0},
		"the newest is withheld":      {[]wire.Message{made(1), withheld(2), withheld(3)}, 1, 1, 0},
		"all are withheld":            {[]wire.Message{withheld(1), withheld(2)}, 0, 0, 0},
		"offered again":               {[]wire.Message{made(1), withheld(2), made(3)}, 3, 3, 0},
		"pinned":                      {[]wire.Message{made(1), made(2), pin(1), made(3)}, 1, 3, 1},
		"pinned and withheld":         {[]wire.Message{made(1), withheld(2), pin(2)}, 2, 1, 2},
		"another is pinned":           {[]wire.Message{made(1), made(2), made(3), pin(1), pin(2)}, 2, 3, 2},
		"pinned no more":              {[]wire.Message{made(1), made(2), pin(1), off}, 2, 2, 0},
		"pinned again":                {[]wire.Message{made(1), made(2), pin(1), off, pin(1)}, 1, 2, 1},
		"the pinned one was removed":  {[]wire.Message{made(1), made(2), pin(1), removal(1)}, 2, 2, 0},
		"pinned as it was removed":    {[]wire.Message{made(1), made(2), removal(1), pin(1)}, 2, 2, 0},
		"the offered one was removed": {[]wire.Message{made(1), withheld(2), made(3), removal(3)}, 1, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			sweptAtEachStep(t, test.messages, func(what string, l *Ledger) {
				latest, _ := l.Find(Latest)
				got := []int{latest.Version, number(l.Offered()), number(l.Pinned())}
				assert.Equal(t, got, []int{test.latest, test.offered, test.pinned}, "%s: latest, offered and pinned", what)
			})
		})
	}
}

// number returns the number of a version; 0 if there is none.
func number(p *schemas.Place) int {
	if p == nil {
		return 0
	}
	return p.Version
}

// compact removes all messages of a topic except the last of each key, and tombstones.
func compact(log memoryLog, topic string) {
	last := map[string]int{}
	for i, m := range log[topic] {
		last[m.Key] = i
	}
	for i, m := range log[topic] {
		if last[m.Key] != i || m.Value == nil {
			log[topic][i] = wire.Message{} // of no kind, as a gap
		}
	}
}

// A process that has read the topic reads only what was written since, and one that follows it nothing; both have the ledger of a process
// that reads all of it.
func TestLedgerOfAProcess(t *testing.T) {
	begun := newTestClient().Beside("test")
	log, read := begun.Log.(memoryLog), 0
	begun.KeepRuns, begun.Log = 1, countedLog{log, &read}
	describe := func(l *Ledger) string {
		return fmt.Sprint(unfinished(l), slices.Sorted(maps.Keys(maps.Collect(l.Runs()))), len(l.Versions()), number(l.Pinned()), l.NextVersion(),
			l.Chained(), l.Next, slices.Collect(l.Sources()), len(l.Removed()), l.Division("t", l.NextVersion()+1) != nil)
	}
	followed := assert.Must(begun.RereadLedger(t.Context()))(t)
	compare := func(what string) (offsets int) {
		t.Helper()
		for _, m := range log[begun.Topics.Plans][followed.Next:] {
			assert.NoError(t, followed.Add(Message{Message: m, Offset: followed.Next}))
		}
		read = 0
		l := assert.Must(begun.ReadLedger(t.Context()))(t)
		offsets = read
		all, err := begun.RereadLedger(t.Context())
		assert.Need(t, err == nil && describe(l) == describe(all),
			"%s: the ledger is %s; read again it is %s, %v", what, describe(l), describe(all), err)
		assert.Need(t, what == "recreated" || describe(followed) == describe(all),
			"%s: the ledger that was followed is %s, expected %s", what, describe(followed), describe(all))
		return offsets
	}
	for n := range 40 {
		plan := testPlan(uint64(n))
		messages := documents(t, plan.Messages)
		switch n % 4 {
		case 0:
			messages = append(messages, (&schemas.End{Run: plan.Run(), State: schemas.Failed}).Message())
		case 1:
			place := &schemas.Place{Run: plan.Run(), Version: n}
			messages = append(messages, (&schemas.End{Run: plan.Run(), State: schemas.Done, Version: place}).Message(),
				(&schemas.Pin{Run: plan.Run(), Version: n}).Message())
		case 2:
			messages = append(messages, (&schemas.End{Run: plan.Run(), State: schemas.Cancelled}).Message(),
				(&schemas.Division{Topic: "t", Attempt: n, Partitions: 2}).Message())
		}
		write(t, begun, messages...)
		offsets := compare("written")
		assert.True(t, n%5 <= 1 || offsets <= len(messages)+1, "%d offsets are read after %d messages were written", offsets, len(messages))
		if n%5 == 0 {
			assert.NoError(t, begun.Prune(t.Context(), 2))
			compare("pruned")
			compact(log, begun.Topics.Plans)
			compare("compacted")
		}
	}
	log[begun.Topics.Plans] = slices.Repeat([]wire.Message{(&schemas.Pin{}).Message()}, len(log[begun.Topics.Plans])+5)
	compare("recreated")
}

// countedLog counts the offsets that are read.
type countedLog struct {
	memoryLog
	read *int
}

func (l countedLog) Range(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[Message, error] {
	*l.read += int(to - from)
	return l.memoryLog.Range(ctx, topic, partition, from, to)
}

// If a client writes the plan of a chain's run again after the run has ended and another was planned, and compaction
// removes the first copy, the run has still ended: the next run is not taken for it.
func TestPlanOfAChainBehindItsEnd(t *testing.T) {
	client := newTestClient()
	log := client.Log.(memoryLog)
	first, second := testPlan(1), testPlan(2)
	first.Chain = &schemas.Chain{Number: 1}
	second.Chain = &schemas.Chain{Number: 2, Parent: &schemas.Warm{Run: first.Run()}}
	plan := documents(t, first.Messages)
	write(t, client, append(plan, (&schemas.End{Run: first.Run(), State: schemas.Done}).Message())...)
	write(t, client, append(documents(t, second.Messages), plan...)...)
	for _, what := range []string{"written twice", "compacted"} {
		reader := newTestClient()
		reader.Log = log
		l := assert.Must(reader.ReadLedger(t.Context()))(t)
		end := l.End(first.Run())
		assert.True(t, end != nil && end.State == schemas.Done && len(l.Overtaken()) == 0, "%s: %+v, overtaken are %v", what, end, l.Overtaken())
		chained := l.Chained()
		assert.True(t, chained != nil && chained.Run == second.Run(), "%s: the newest run is %+v", what, chained)
		compact(log, client.Topics.Plans)
	}
}

// If a runner that was killed and its successor plan the same run, which then starts to read at other offsets, the first plan counts, and
// does not overtake itself.
func TestRunThatIsPlannedTwice(t *testing.T) {
	client := newTestClient()
	first, second := testPlan(1), testPlan(1)
	first.Chain, second.Chain = &schemas.Chain{Number: 1}, &schemas.Chain{Number: 1}
	second.Since.Weights = first.Since.Weights + 1
	assert.Equal(t, first.Run(), second.Run(), "the run")
	write(t, client, append(documents(t, first.Messages), documents(t, second.Messages)...)...)
	l := assert.Must(client.ReadLedger(t.Context()))(t)
	assert.True(t, l.GoesOn(first.Run()) && len(l.Overtaken()) == 0, "the run has ended as %+v", l.End(first.Run()))
	assert.Equal(t, l.Plan(first.Run()).Since.Weights, first.Since.Weights, "the offset of the weights")
	assert.Equal(t, len(l.planned), 1, "planned runs")
}

// Which of several ends of a run counts does not depend on their order: a version stays, and a cancelled run has not failed.
func TestEndThatCounts(t *testing.T) {
	states := []string{schemas.Failed, schemas.Cancelled, schemas.Done}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}, {0, 1}, {1, 0}} {
		l := assert.Must(newTestClient().ReadLedger(t.Context()))(t)
		for at, i := range order {
			end := &schemas.End{Run: "run", State: states[i], Attempt: states[i]}
			assert.NoError(t, l.Add(Message{Message: end.Message(), Offset: int64(at)}))
		}
		assert.Equal(t, l.End("run").State, states[slices.Max(order)], "order %v: the state of the run", order)
	}
}

// If a solver that had not read that its run failed finishes the run, and another run has made the version with that
// number, the number is not assigned twice, even if the first version was removed.
func TestNumberOfARemovedVersion(t *testing.T) {
	l := assert.Must(newTestClient().ReadLedger(t.Context()))(t)
	done := func(run string) wire.Message {
		end := schemas.End{Run: run, State: schemas.Done, Version: &schemas.Place{Run: run, Version: 2}}
		return end.Message()
	}
	failed := schemas.End{Run: "slow", State: schemas.Failed, Attempt: "failed"}
	removal := schemas.Removal{Run: "quick", Version: 2}
	for at, m := range []wire.Message{failed.Message(), done("quick"), removal.Message(), done("slow"), done("quick")} {
		assert.NoError(t, l.Add(Message{Message: m, Offset: int64(at)}))
	}
	assert.Equal(t, len(l.Versions()), 0, "versions")
	assert.True(t, l.End("slow").State == schemas.Cancelled && l.End("quick").State == schemas.Done, "%+v, %+v", l.End("slow"), l.End("quick"))
}

// What waits are the offsets behind what was read, but for a tail without a message, as a transaction leaves it: that
// is looked at once it stays.
func TestWaiting(t *testing.T) {
	log := &gappedLog{first: 2, partitions: []*gapped{{map[int64]wire.Message{8: {}}, 10}, {map[int64]wire.Message{3: {}}, 6}, {nil, 2}}}
	next := []int64{8, 4, 0}
	waiting := NewWaiting(&Client{Log: log}, "events")
	expect := func(when string, want int64, reads int) {
		t.Helper()
		got, partitions, err := waiting.Count(t.Context(), func(p int) int64 { return next[p] })
		assert.True(t, err == nil && got == want && partitions == 3 && log.reads == reads,
			"%s: %d of %d partitions wait after %d reads, error %v; expected %d of 3 after %d", when, got, partitions, log.reads, err, want, reads)
	}
	expect("at first", 2+2, 0)
	expect("when it stays", 2, 2) // offset 9 has no message, but 8 has; 4 and 5 have none
	expect("when it still stays", 2, 2)
	next[0] = 10
	expect("when all is read", 0, 2)
	log.partitions[1].end = 7
	expect("when more comes", 3, 2)
}

// What the partitions of the examples say of a topic is what those say that have read it last.
func TestMerge(t *testing.T) {
	at := func(partition int, next int64) schemas.TopicPosition {
		return schemas.TopicPosition{Partition: partition, Next: next}
	}
	all := MergeTopicProgress([]TopicProgress{
		{Attempt: 1, Positions: []schemas.TopicPosition{at(0, 90)}}, // before the topic was made anew
		{Attempt: 2, Partitions: 2, Positions: []schemas.TopicPosition{at(0, 3), at(1, 7)}},
		{Attempt: 2, Partitions: 2, Positions: []schemas.TopicPosition{at(0, 5)}},
		{},
	})
	assert.True(t, all.Attempt == 2 && all.Partitions == 2 && all.Position(0).Next == 5 && all.Position(1).Next == 7 &&
		all.Position(2).Next == 0, "%+v", all)
	none := MergeTopicProgress(make([]TopicProgress, 3))
	assert.True(t, none.Attempt == 1 && len(none.Positions) == 0, "nothing was read: %+v", none)
}

// How far a topic was read is the same if copies of earlier messages arrive late, behind any gap, and behind messages of other sources:
// what follows would otherwise be read again, and what a longer batch then has beyond the message with its sequence would never count.
func TestReadBehindGapsAndOthers(t *testing.T) {
	message := func(topic string, sequence int64) wire.Message {
		rows := &examples.Rows{Rows: 1, Cols: 1, Floats: []float32{1}, Words: []string{"a"}}
		m, err := schemas.Origin{Source: schemas.TopicSource(topic), Attempt: "1", Sequence: sequence, Partitions: 1}.TopicMessage(
			[]schemas.TopicPosition{{Next: sequence + 1}}, rows, memory.DefaultAllocator)
		assert.NoError(t, err)
		return m
	}
	for _, gap := range []int64{0, 1, 15, 16, 17, 200_000} {
		for _, others := range []int64{0, 15, 16, 17} {
			t.Run(fmt.Sprint(gap, " and ", others), func(t *testing.T) {
				log := newGappedLog(1)
				p := log.partitions[0]
				for sequence := range int64(20) {
					p.write(message("orders", sequence))
				}
				p.end += gap
				for sequence := range others {
					p.write(message("clicks", sequence))
				}
				p.write(message("orders", 3))
				client := &Client{Log: log, Topics: TopicsOf("test")}
				state, err := ReadTopicProgress(t.Context(), client, "orders", coverage.Span{To: p.end}, 16)
				assert.True(t, err == nil && state.Next == 20 && state.Position(0).Next == 20,
					"read to sequence %d and offset %d, %v; expected 20", state.Next, state.Position(0).Next, err)
			})
		}
	}
}
