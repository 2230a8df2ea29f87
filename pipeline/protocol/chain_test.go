package protocol

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// The due visit is determined by the accepted records, one by one.
func TestDue(t *testing.T) {
	plan := testPlan(1)
	records := newTestRun(plan).all()
	c := NewChain(plan, memory.DefaultAllocator, nil)
	type due struct{ stage, visit, seal int }
	want := []due{{wire.Survey, 0, NoStage}, {0, 0, NoStage}, {0, 1, NoStage}, {1, 0, 0}, {1, 1, NoStage}, {2, 0, 1}}
	for i := 0; ; i++ {
		v, seal := c.Due()
		got := due{v.Stage, v.Number, seal}
		assert.True(t, got == want[i] && v.Parent == c.Head(), "after %d records: %+v is due, expected %+v", i, got, want[i])
		assert.Equal(t, c.Began(), i > 1, "after %d records: began", i)
		if v.Stage < len(plan.Stages) {
			visits := c.Visits(v.Stage)
			assert.True(t, visits[len(visits)-1] == v && len(visits) == v.Number+1, "after %d records: visits %+v, due is %+v", i, visits, v)
			w, initial := c.WeightsFor(v)
			assert.True(t, (w == nil) == (v.Number == 0) && initial == nil, "after %d records: visit %d made with %v, %v", i, v.Number, w, initial)
		}
		if i == len(records) {
			break
		}
		assert.Need(t, add(t, c, records[i]), "record %d is not accepted", i)
	}
	w, digest := c.Final(0)
	assert.True(t, w.Tensors[0].Data[0] == 2 && digest == records[2].Digest() && len(c.weightsOf(1)) == 2, "stage 0: %v, %s", w, digest)
	surveyed := c.Surveyed(0)
	assert.True(t, surveyed.Rows[examples.Train] == 10 && surveyed.Classes == 2 && surveyed.Features == 2, "%+v", surveyed)
	w, digest = c.Final(2)
	assert.True(t, w == nil && digest == "", "a stage that is not there ends with %v", w)
}

// The chain does not depend on the order of records, on duplicates, or on interleaving with other runs.
func TestChainDependsOnNoOrder(t *testing.T) {
	plan := testPlan(1)
	records, chunk := newTestRun(plan).all(), 1 // as many chunks per record as possible
	other := newTestRun(testPlan(2)).all()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		var all []wire.Message
		for _, r := range append(append(records, other...), records[random.IntN(len(records))]) {
			all = append(all, messages(t, chunk, r)...)
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		c := NewChain(plan, memory.DefaultAllocator, nil)
		for _, m := range all {
			assert.Must(c.Add(m))(t)
		}
		assert.Need(t, c.Head() == records[len(records)-1].Digest() && c.SurveyDigest() == records[0].Digest(),
			"seed %d: the chain ends at %s, of %d records", seed, c.Head().Short(), len(c.digests))
		assert.Equal(t, len(c.early), 0, "seed %d: records that wait for a parent that is accepted", seed)
	}
}

// Damaged records, and records whose parent has the wrong kind, are skipped. The chain continues with the next valid record.
func TestChainSkips(t *testing.T) {
	plan := testPlan(1)
	r := newTestRun(plan)
	root := r.parent
	survey := r.survey()
	parent := r.parent
	first := r.weights(0, 1, 1, false)

	r.parent = root
	weightsOfPlan := r.weights(0, 1, 1, true)
	r.parent = parent
	secondSurvey := r.survey()

	told := notices{}
	c := NewChain(plan, memory.DefaultAllocator, (&told).Record)
	damage := func(r *wire.Record[float32]) wire.Message {
		m := messages(t, 0, r)[0]
		m.Value = append([]byte(nil), m.Value[:len(m.Value)/2]...)
		return m
	}
	refuse := func(m wire.Message) {
		t.Helper()
		before := len(told)
		grown, err := c.Add(m)
		assert.True(t, !grown && err == nil && len(told) == before+1, "grown %v, %v, %d notices", grown, err, len(told)-before)
	}
	refuse(damage(survey))
	refuse(messages(t, 0, weightsOfPlan)[0])
	assert.Need(t, add(t, c, survey), "the survey's result is not accepted")
	refuse(damage(first))
	refuse(messages(t, 0, secondSurvey)[0])
	assert.True(t, add(t, c, first) && c.Head() == first.Digest(), "the weights are not accepted")
	assert.Equal(t, assert.Must(c.Add(wire.Message{Headers: []wire.Header{{Key: "kind", Value: "manifest"}, {Key: "run", Value: c.Run}}}))(t), false,
		"a manifest is accepted")
}

// A survey's result that does not fit the plan ends the run.
func TestSurveyOfAnotherPlan(t *testing.T) {
	plan := testPlan(1)
	plan.Prepare.PCA = 2
	c := NewChain(plan, memory.DefaultAllocator, nil)
	for _, m := range messages(t, 0, newTestRun(plan).survey()) {
		assert.MustFail(c.Add(m))(t, new(*wire.ShapeError))
	}
	assert.True(t, c.Survey == nil && c.Prepared == nil && c.Head() == c.Root, "it is accepted")
}

// Read folds the topic from the offset in the plan, and returns the end offset.
func TestChainRead(t *testing.T) {
	client, plan := newTestClient(), testPlan(1)
	records := newTestRun(plan).all()
	for _, r := range append([]*wire.Record[float32]{newTestRun(testPlan(2)).survey()}, records...) {
		assert.Must(WriteRecord(t.Context(), client, client.Topics.Weights, 0, r))(t)
	}
	for since, accepted := range map[int64]bool{0: true, 1: true, 2: false, 100: true} {
		plan.Since.Weights = since // no part of the plan's digest
		c := NewChain(plan, client.Memory, nil)
		next, err := c.Read(t.Context(), client)
		assert.Need(t, err == nil && next == int64(len(records)+1), "since %d: next is %d, %v", since, next, err)
		assert.Equal(t, c.Head() == records[len(records)-1].
			Digest(), accepted, "since %d: all records are accepted", since)
	}
}

// A topic differs from a chain if it does not have the head of the chain. If it has more of the same chain, the chain accepts that.
func TestDiffers(t *testing.T) {
	plan := testPlan(1)
	r, client := newTestRun(plan), newTestClient()
	root := r.parent
	survey, first, second := r.survey(), r.weights(0, 1, 1, false), r.weights(0, 2, 2, true)
	r.parent = root
	other := r.survey()
	other.Tensors = append(other.Tensors, wire.Vector("other", []float32{1}))
	c := NewChain(plan, client.Memory, nil)
	for _, step := range []struct {
		topic   []*wire.Record[float32]
		differs bool
		head    *wire.Record[float32] // of the chain afterwards; nil: its root
	}{
		{nil, false, nil},
		{[]*wire.Record[float32]{survey}, false, survey},
		{[]*wire.Record[float32]{survey, first}, false, first},
		{[]*wire.Record[float32]{first, survey, second}, false, second},
		{[]*wire.Record[float32]{survey, first}, true, second},
		{[]*wire.Record[float32]{other}, true, second},
		{nil, true, second},
	} {
		client.Log = memoryLog{}
		for _, record := range step.topic {
			assert.Must(WriteRecord(t.Context(), client, client.Topics.Weights, 0, record))(t)
		}
		want := c.Root
		if step.head != nil {
			want = step.head.Digest()
		}
		differs, err := c.Renew(t.Context(), client)
		assert.True(t, differs == step.differs && err == nil && c.Head() == want,
			"%d records: differs is %v, %v, and the chain ends at %s, expected %s", len(step.topic), differs, err, c.Head().Short(), want.Short())
	}
}

// expiring is a memoryLog whose first messages have expired.
type expiring struct {
	memoryLog
	first int64
}

func (l expiring) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	_, end, err = l.memoryLog.Bounds(ctx, topic, partition)
	return min(l.first, end), end, err
}

// Before reports that everything except the last message is old.
func (l expiring) Before(_ context.Context, topic string, _ time.Duration) ([]int64, error) {
	return []int64{int64(len(l.memoryLog[topic]) - 1)}, nil
}

// A process that takes over a run whose first weights have expired gets an error, and does not conclude that the survey is
// due. A process that has already read them continues.
func TestExpiredWeights(t *testing.T) {
	plan, client := testPlan(1), newTestClient()
	records := newTestRun(plan).all()
	c := NewChain(plan, client.Memory, nil)
	for _, r := range records {
		assert.Must(WriteRecord(t.Context(), client, client.Topics.Weights, 0, r))(t)
		add(t, c, r)
	}
	head := c.Head()
	for first := range len(records) + 1 {
		client.Log = expiring{client.Log.(memoryLog), int64(first)}
		_, err := NewChain(plan, client.Memory, nil).Read(t.Context(), client)
		expired := func(err error, wanted bool) bool {
			return errors.As(err, new(*ExpiredError)) == wanted && (wanted || err == nil)
		}
		assert.True(t, expired(err, first > 0), "the first %d records are gone: %v", first, err)
		differs, err := c.Renew(t.Context(), client)
		assert.True(t, !differs && err == nil && c.Head() == head, "the first %d records are gone: for who has read them, the topic differs: %v", first, err)
		_, err = NewChain(plan, client.Memory, nil).Renew(t.Context(), client)
		assert.True(t, expired(err, first > 0), "the first %d records are gone before who waits for them has read any: %v", first, err)
		for read := range len(records) + 1 { // the others may have arrived unread, including the last expired one
			c := NewChain(plan, client.Memory, nil)
			for i, m := range client.Log.(expiring).memoryLog[client.Topics.Weights][:read] {
				assert.Must(c.Follow(Message{Message: m, Offset: int64(i)}))(t)
			}
			_, err := c.RenewUnread(t.Context(), client)
			assert.True(t, expired(err, first > read) && (first > read || c.Head() == head),
				"the first %d records are gone, of which %d were read: %v", first, read, err)
		}
		client.Log = client.Log.(expiring).memoryLog
	}
	plan.Since.Weights = int64(len(records)) // only earlier runs have expired
	client.Log = expiring{client.Log.(memoryLog), int64(len(records))}
	assert.Must(NewChain(plan, client.Memory, nil).Read(t.Context(), client))(t)
}

// The weights of a run that exceeds the topic's retention are written again in time, each once, so that a process that
// takes over the run has all of them.
func TestPreserve(t *testing.T) {
	plan, client := testPlan(1), newTestClient()
	records := newTestRun(plan).all()
	client.Chunk = 1 // several messages for some records
	topic := client.Topics.Weights
	c := NewChain(plan, client.Memory, nil)
	write := func(r *wire.Record[float32]) {
		t.Helper()
		assert.Must(WriteRecord(t.Context(), client, topic, 0, r))(t)
	}
	write(newTestRun(testPlan(2)).survey()) // of another run
	for i, r := range records {
		write(r)
		for _, m := range messages(t, client.Chunk, r) {
			assert.Must(c.Add(m))(t)
		}
		log := client.Log.(memoryLog)
		before := int64(len(log[topic]))
		client.Log = expiring{memoryLog: log}
		assert.NoError(t, client.Preserve(t.Context(), c, time.Hour))
		written := map[string]int{}
		for _, m := range log[topic][before:] {
			written[m.Key]++
			assert.True(t, m.Run() == c.Run && written[m.Key] <= 1, "%s of run %s is written again, %d times", m.Key, m.Run(), written[m.Key])
		}
		assert.True(t, len(written) != 0, "after %d records nothing is written again", i+1)
		client.Log = expiring{log, before - 1} // all except the last have expired
		taken := NewChain(plan, client.Memory, nil)
		assert.Must(taken.Read(t.Context(), client))(t)
		assert.Equal(t, taken.Head(), c.Head(), "after %d records: the head of who takes up the run", i+1)
		client.Log = log
	}
}

// From a visit on, only final weights, the weights of the visit itself, and all weights of learnt links are needed.
// Forgetting the others affects neither the due visits nor the end of the run.
func TestForget(t *testing.T) {
	plan := testPlan(1)
	whole := NewChain(plan, memory.DefaultAllocator, nil)
	c := NewChain(plan, memory.DefaultAllocator, nil)
	for i, r := range newTestRun(plan).all() {
		add(t, whole, r)
		add(t, c, r)
		v, seal := whole.Due()
		before := c.weightsOf(v.Stage)
		held := len(before) > 0 && before[0].Tensors != nil
		c.Forget(v)
		assert.True(t, !held || before[0].Tensors != nil, "after %d records: weights that others use have changed", i+1)
		got, gotSeal := c.Due()
		assert.True(t, got == v && gotSeal == seal && c.Head() == whole.Head(), "after %d records: %+v is due, expected %+v", i+1, got, v)
		want, _ := whole.WeightsFor(v)
		if got, _ := c.WeightsFor(v); (got == nil) != (want == nil) || want != nil && !slices.Equal(got.Tensors[0].Data, want.Tensors[0].Data) {
			t.Errorf("after %d records: the weights of the visit are %v, expected %v", i+1, got, want)
		}
	}
	forgotten := 0
	for i, w := range c.weights {
		learnt := link.Named(plan.Stages[w.Stage].Link).Learnt
		if w.Tensors == nil {
			forgotten++
		}
		assert.True(t, w.Final == nil && !learnt || w.Tensors != nil && slices.Equal(w.Tensors[0].Data, whole.weights[i].Tensors[0].Data),
			"weights %d, final %v, of a learnt link %v, are %v", i, w.Final != nil, learnt, w.Tensors)
	}
	assert.True(t, forgotten != 0, "nothing is forgotten")
	assert.Equal(t, len(c.Records(nil)), len(whole.Records(nil)), "records of the version")
	for i, r := range c.Records(nil) {
		assert.Equal(t, r.Digest(), whole.Records(nil)[i].Digest(), "record %d of the version", i)
	}
}

// Weights with changes require the weights that they change, which are the last full ones.
func TestChanges(t *testing.T) {
	plan := testPlan(1)
	r, c := newTestRun(plan), NewChain(plan, memory.DefaultAllocator, nil)
	change := func(visit int) *wire.Record[float32] {
		w := schemas.Weights{
			Identity: wire.Identity{Kind: schemas.KindWeights, Run: r.run, Visit: visit, Parent: r.parent},
			Tensors:  wire.Tensors[float32]{wire.Matrix(statistics.TensorChange, 1, 2, []float32{1, 1})},
		}
		return r.next(wire.RecordOf[float32](&w))
	}
	add(t, c, r.survey())
	stage := assert.Must(c.Stage(0))(t)
	since := c.Head()
	for i, step := range []struct {
		record  *wire.Record[float32]
		whole   bool // the record has full weights
		changes int  // number since the full weights
	}{
		{change(1), false, 1}, {change(2), false, 2}, {r.weights(0, 3, 7, false), true, 0}, {change(4), false, 1}, {change(5), false, 2}, {r.weights(0, 6, 7, true), true, 0},
	} {
		if add(t, c, step.record); step.whole {
			since = c.Head()
		}
		v, _ := c.Due()
		if v.Stage > 0 {
			v = Visit{Stage: 0, Number: 6}
		}
		c.Forget(v)
		changes, err := c.Changes(stage, 0)
		assert.Need(t, err == nil && changes.Since == since && len(changes.By) == step.changes && len(changes.Names) == step.changes &&
			(changes.Whole.W.Rows > 0) == (i >= 2),
			"record %d: %d changes since %s, %v; expected %d since %s", i, len(changes.By), changes.Since.Short(), err, step.changes, since.Short())
		for j, w := range changes.By {
			assert.True(t, w.Tensors != nil && changes.Names[j] == wire.RecordOf[float32](w).Digest(),
				"record %d: change %d is %v, named %s", i, j, w, changes.Names[j].Short())
		}
		assert.True(t, step.changes == 0 || changes.Names[step.changes-1] == c.Head(), "record %d: the last change is not the newest record", i)
	}
	for i, w := range c.weights[:5] {
		assert.True(t, w.Tensors == nil, "weights %d are still there", i)
	}
}

// documents returns the messages of a document.
func documents(t *testing.T, messages func() ([]wire.Message, error)) []wire.Message {
	t.Helper()
	return assert.Must(messages())(t)
}

// finished puts a run and its version on the topics, and returns the manifest.
func finished(t *testing.T, client *Client, plan *schemas.Plan, version int) *schemas.Manifest {
	t.Helper()
	assert.Must(client.Log.Append(t.Context(), client.Topics.Plans, 0, documents(t, plan.Messages)...))(t)
	c := NewChain(plan, client.Memory, nil)
	for _, r := range newTestRun(plan).all() {
		assert.Must(WriteRecord(t.Context(), client, client.Topics.Weights, 0, r))(t)
		add(t, c, r)
	}
	manifest := &schemas.Manifest{Name: plan.Name, Version: version, Run: c.Run, Plan: plan, Labels: []string{"a", "b"},
		Prepare: c.SurveyDigest(), PlansFrom: plan.Since.Plans}
	for stage := range plan.Stages {
		_, digest := c.Final(stage)
		manifest.Blocks = append(manifest.Blocks, schemas.BlockDigest{Stage: stage, Digest: digest})
	}
	manifest.WeightsDigest = assert.Must(c.Model(manifest))(t).Digest()
	place := assert.Must(client.PublishVersion(t.Context(), manifest, c.Records(nil), nil))(t)
	end := &schemas.End{Run: c.Run, State: schemas.Done, Version: place}
	assert.Must(client.Log.Append(t.Context(), client.Topics.Plans, 0, end.Message()))(t)
	return manifest
}

// A version is found by number, by run, and as the latest, and read as a model whose digest is the manifest's.
func TestVersions(t *testing.T) {
	client := newTestClient()
	assert.MustFail(client.Model(t.Context(), Latest))(t, new(*NoVersionError), "latest")
	first, second := finished(t, client, testPlan(1), 1), finished(t, client, testPlan(2), 2)
	ctx, topics := t.Context(), client.Topics
	damaged := documents(t, first.Messages)[0]
	damaged.Value = []byte("{")
	// written again, damaged, a tombstone
	for _, m := range append(documents(t, first.Messages), damaged, wire.Message{Key: "tombstone", Headers: damaged.Headers}) {
		assert.Must(client.Log.Append(ctx, topics.Versions, 0, m))(t)
	}
	for want, manifest := range map[string]*schemas.Manifest{Latest: second, "1": first, "2": second, first.Run: first} {
		m, err := client.Model(ctx, want)
		assert.Need(t, err == nil, "version %s: %v", want, err)
		assert.Equal(t, m.Manifest.Run, manifest.Run, "the run of version %s", want)
		assert.Equal(t, m.Digest(), manifest.WeightsDigest, "the digest of version %s", want)
	}
	// The second writing of manifest 1 remains after compaction, behind manifest 2.
	log := client.Log.(memoryLog)
	key := documents(t, first.Messages)[0].Key
	at := slices.IndexFunc(log[topics.Versions], func(m wire.Message) bool { return m.Key == key })
	log[topics.Versions][at] = wire.Message{Key: "gone"}
	assert.Equal(t, assert.Must(client.Version(ctx, Latest))(t).Run, second.Run, "the run of the latest version after compaction")
	assert.Equal(t, assert.Must(client.Model(ctx, "1"))(t).Digest(), first.WeightsDigest, "the digest of version 1 after compaction")
	var missing *NoVersionError
	_, err := client.Version(ctx, "3")
	assert.True(t, errors.As(err, &missing) && missing.Have == 2, "version 3: %v", err)
	// A solver that did not know that its run was cancelled may have made a version with a number that another run has: the first counts.
	late := &schemas.End{Run: "late", State: schemas.Done, Version: &schemas.Place{Run: "late", Version: 2}}
	assert.Must(client.Log.Append(ctx, topics.Plans, 0, late.Message()))(t)
	assert.Equal(t, assert.Must(client.Version(ctx, Latest))(t).Run, second.Run, "the run of the latest version after a late end")
	l := assert.Must(client.ReadLedger(ctx))(t)
	assert.True(t, l.End("late").State == schemas.Cancelled && l.NextVersion() == 3, "the late run has end %+v", l.End("late"))
}

// A withheld version can be read by number and run, and is the latest only while it is pinned.
func TestWithheldVersion(t *testing.T) {
	client := newTestClient()
	manifest := finished(t, client, testPlan(1), 1)
	log, plans := client.Log.(memoryLog), client.Topics.Plans
	last := len(log[plans]) - 1
	end := assert.Must(schemas.DecodeJSON[schemas.End](log[plans][last]))(t)
	end.Version.Withheld = true
	log[plans][last] = end.Message()
	latest := func() error {
		_, err := client.Model(t.Context(), Latest)
		return err
	}
	assert.Fails(t, latest(), new(*NoVersionError), "none of the pipeline's 1 versions is offered")
	for _, want := range []string{"1", manifest.Run} {
		assert.Equal(t, assert.Must(client.Model(t.Context(), want))(t).Digest(), manifest.WeightsDigest, "the digest of version %s", want)
	}
	offered := func(want, pinned bool) {
		t.Helper()
		all, err := client.Versions(t.Context())
		assert.True(t, err == nil && len(all) == 1 && all[0].Offered == want && all[0].Pinned == pinned, "the versions are %+v, %v", all, err)
	}
	offered(false, false)
	write(t, client, (&schemas.Pin{Run: manifest.Run, Version: 1}).Message())
	offered(false, true)
	err := latest()
	assert.True(t, err == nil, "pinned: %v", err)
	write(t, client, (&schemas.Pin{}).Message())
	err = latest()
	assert.True(t, err != nil, "it is the latest, though no longer pinned")
}

// A version whose weights are deleted, or differ from its manifest, is an error.
func TestVersionWithoutItsWeights(t *testing.T) {
	client := newTestClient()
	finished(t, client, testPlan(1), 1)
	log := client.Log.(memoryLog)
	whole := log[client.Topics.Versions]
	for lost, says := range map[int]string{0: "survey", 1: "stage 0", 2: "stage 1", 3: "manifest"} {
		log[client.Topics.Versions] = slices.Clone(whole)
		log[client.Topics.Versions][lost] = wire.Message{Key: "gone"}
		_, err := client.Model(t.Context(), Latest)
		assert.True(t, err != nil && strings.Contains(err.Error(), says) && strings.Contains(err.Error(), "no longer on"),
			"without message %d: %v", lost, err)
	}
}

// A warm start begins with the weights of the version in the plan, and of no other.
func TestWarmStart(t *testing.T) {
	client := newTestClient()
	manifest := finished(t, client, testPlan(1), 1)
	plan := testPlan(1)
	plan.Submission = "another"
	plan.Warm = &schemas.Warm{Run: manifest.Run, Manifest: wire.DigestJSON(manifest)}
	c := NewChain(plan, client.Memory, nil)
	earlier, err := c.Warm(t.Context(), client)
	assert.Need(t, err == nil && earlier.Digest() == manifest.WeightsDigest, "%v, %v", earlier, err)
	for stage, want := range []float32{2, 4} {
		w, initial := c.WeightsFor(Visit{Stage: stage})
		assert.True(t, w == nil && len(initial) == 6 && initial[0] == want, "stage %d begins at %v, %v", stage, w, initial)
	}
	add(t, c, newTestRun(plan).survey())
	s := assert.Must(c.Stage(1))(t)
	again, err := c.Stage(1)
	assert.True(t, again == s && err == nil, "the stage is drawn twice")
	assert.Equal(t, assert.Must(c.Fitted(s, 1))(t).W.Data[0], 4, "stage 1 before its first weights")
	plan.Warm.Manifest = "other"
	assert.MustFail(NewChain(plan, client.Memory, nil).Warm(t.Context(), client))(t, "names other")
	earlier, err = NewChain(testPlan(1), client.Memory, nil).Warm(t.Context(), client)
	assert.True(t, earlier == nil && err == nil, "no warm start: %v, %v", earlier, err)
}

// Plans and manifests round-trip, with the run id. Invalid ones are reported as damaged.
func TestPlansRoundTrip(t *testing.T) {
	p, run, err := DecodePlan(documents(t, testPlan(1).Messages)[0])
	assert.True(t, err == nil && run == testPlan(1).Run() && p.Digest() == testPlan(1).Digest(), "%v of run %s, %v", p, run, err)
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
		p, _, err := DecodePlan(documents(t, plan.Messages)[0])
		assert.True(t, errors.Is(err, wire.ErrDamaged) && p == nil, "%s: plan %v, %v", name, p, err)
		manifest := schemas.Manifest{Run: "run", Plan: plan}
		_, err = DecodeManifest(documents(t, manifest.Messages)[0])
		assert.True(t, errors.Is(err, wire.ErrDamaged), "%s: manifest: %v", name, err)
	}
	manifest := schemas.Manifest{Run: "run"}
	assert.MustFail(DecodeManifest(documents(t, manifest.Messages)[0]))(t, wire.ErrDamaged)
}

// A message keeps key, value and headers on its way to the log and back.
func TestMessageOfKafka(t *testing.T) {
	want := []wire.Message{
		{Key: "k", Value: []byte("v"), Headers: []wire.Header{{Key: "a", Value: "1"}, {Key: "a", Value: "2"}}},
		{Key: "tombstone", Headers: []wire.Header{}},
	}
	for i, k := range toKafka(want) {
		k.Offset = 7
		got := FromKafka(k)
		assert.True(t, reflect.DeepEqual(got, want[i]) && (k.Value == nil) == (want[i].Value == nil), "%+v, expected %+v", got, want[i])
	}
	m := FromKafka(kafkalog.Message{})
	assert.True(t, m.Key == "" && m.Value == nil && len(m.Headers) == 0, "%+v", m)
}

// Outcomes are compared with the rows of all partitions, whichever of them a run has, and however far each has come.
func TestReadJoined(t *testing.T) {
	type at struct{ outcomes, matched int64 }
	for name, test := range map[string]struct {
		partition       int    // of the joins; -1: they share the outcomes
		partitions      [][]at // progress of each message
		spans           coverage.Spans
		outcomes, alone int64
	}{
		"one partition": {-1, [][]at{{{10, 10}, {20, 15}, {40, 15}}}, coverage.Spans{{From: 1, To: 3}}, 30, 25},
		"level": {-1, [][]at{{{100, 50}, {200, 100}}, {{100, 50}, {200, 100}}},
			coverage.Spans{{From: 1, To: 2}, {Partition: 1, From: 1, To: 2}}, 100, 0},
		"one is ahead": {-1, [][]at{{{100, 50}, {300, 150}}, {{100, 50}, {200, 100}}},
			coverage.Spans{{From: 1, To: 2}, {Partition: 1, From: 1, To: 2}}, 200, 0},
		"one of the run": {-1, [][]at{{{100, 50}, {300, 150}}, {{100, 50}, {200, 100}}}, coverage.Spans{{From: 1, To: 2}}, 200, 0},
		"written since":  {-1, [][]at{{{100, 50}, {300, 150}}, {{20, 10}, {300, 150}}}, coverage.Spans{{To: 1}, {Partition: 1, To: 1}}, 100, 0},
		"far behind":     {-1, [][]at{{{100, 50}, {300, 150}}, {{20, 10}}}, coverage.Spans{{To: 2}, {Partition: 1, To: 1}}, 160, 0},
		"no rows":        {-1, [][]at{{{100, 50}, {300, 150}}, {}}, coverage.Spans{{To: 2}}, 300, 150},
		"other keys":     {-1, [][]at{{{100, 0}, {300, 0}}, {{90, 0}, {200, 0}}}, coverage.Spans{{To: 2}, {Partition: 1, To: 1}}, 300, 300},
		"other keys now": {-1, [][]at{{{100, 50}, {300, 50}}, {{100, 50}, {250, 50}}},
			coverage.Spans{{From: 1, To: 2}, {Partition: 1, From: 1, To: 2}}, 200, 200},
		"another topic": {-1, [][]at{{{100, 50}, {-30, 20}, {-60, 30}}}, coverage.Spans{{From: 1, To: 3}}, 60, 30},
		"by partition": {0, [][]at{{{100, 50}, {300, 150}}, {{10, 10}, {20, 20}}},
			coverage.Spans{{To: 2}, {Partition: 1, From: 1, To: 2}}, 310, 150},
	} {
		t.Run(name, func(t *testing.T) {
			log := newGappedLog(len(test.partitions))
			for p, all := range test.partitions {
				for i, c := range all {
					rows := &examples.Rows{Rows: 1, Cols: 1, Floats: []float32{1}, Words: []string{"a"}}
					topic := schemas.TopicSource(map[bool]string{false: "views", true: "hits"}[c.outcomes < 0]) // below 0: those of another topic
					origin := schemas.Origin{Source: topic, Attempt: "1", Sequence: int64(i), Partitions: len(test.partitions)}
					m := assert.Must(origin.TopicMessage([]schemas.TopicPosition{{Partition: p, Next: int64(i) + 1}}, rows, memory.DefaultAllocator))(t)
					joined := &examples.Joined{Joins: []examples.JoinCursor{{Partition: min(test.partition, p),
						Counts: examples.JoinCounts{Rows: 2 * c.matched, Outcomes: max(c.outcomes, -c.outcomes), Matched: c.matched}}}}
					m.Headers = append(m.Headers, joined.Header())
					log.partitions[p].write(m)
				}
			}
			c, _ := assert.Must(ReadJoined(t.Context(), &Client{Log: log, Topics: TopicsOf("test")}, test.spans))(t).Counts()
			assert.True(t, c.Outcomes == test.outcomes && c.Alone() == test.alone, "%+v, %d without a row; expected %+v", c, c.Alone(), test)
		})
	}
}
