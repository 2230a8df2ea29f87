package pipeline

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// loseData loses messages that a run may need. A run that was planned before may then fail.
func (s *simulation) loseData() {
	t := s.topics
	switch s.random.IntN(4) {
	case 0:
		topic, n, p := s.drawPartition(t.Statistics)
		if len(p.messages) == 0 {
			return
		}
		at := s.random.IntN(len(p.messages)) // acknowledged, but only the leader had it, and the leader is gone
		s.noteLoss(topic)
		s.log.happen(loss, "%s[%d]@%d is lost", topic, n, p.messages[at].Offset)
		p.messages = slices.Delete(slices.Clone(p.messages), at, at+1)
	case 1:
		topic, n, _ := s.drawPartition(t.Statistics, t.Examples, t.Weights)
		s.noteLoss(topic)
		s.expire(topic, n)
	case 2:
		topic, n, p := s.drawPartition(t.Examples, t.Residuals, t.Statistics, t.Weights, t.Versions, t.Plans, t.Quarantine)
		if p.end == p.first {
			return
		}
		from := p.end - 1 - s.random.Int64N(min(p.end-p.first, 8))
		s.noteLoss(topic)
		s.log.happen(truncation, "%s[%d] loses what it has from offset %d on, and uses the offsets again", topic, n, from)
		p.truncate(from)
		s.examplesReused = s.examplesReused || topic == t.Examples
	case 3:
		topic, _, _ := s.drawPartition(t.Residuals, t.Statistics, t.Weights)
		s.noteLoss(topic)
		s.log.happen(remaking, "%s is deleted and made anew", topic)
		for _, p := range s.log.topics[topic] {
			p.remake()
		}
	}
}

// drawPartition draws one of the topics, and one of its partitions.
func (s *simulation) drawPartition(topics ...string) (topic string, n int, p *simPartition) {
	topic = topics[s.random.IntN(len(topics))]
	n = s.random.IntN(len(s.log.topics[topic]))
	return topic, n, s.log.topics[topic][n]
}

// noteLoss notes that messages of a topic are lost.
func (s *simulation) noteLoss(topic string) {
	s.dataLost, s.lostAt = true, s.steps
	s.examplesChanged = s.examplesChanged || topic == s.topics.Examples || topic == s.topics.Plans && s.seal != nil
	s.historyLost = s.historyLost || topic == s.topics.Plans || topic == s.topics.Versions || topic == s.topics.Weights
}

// aboutTheLog are parts of the reasons why runs fail whose messages are lost.
var aboutTheLog = []string{"no longer holds", "is gone", "the survey had", "no longer on", "no examples on", "were deleted",
	"another message was there when the survey began"}

// checkFailure checks that a run fails only because messages were lost after its plan was begun.
func (s *simulation) checkFailure(end *dispatch.RunError) {
	about := func(text string) bool { return strings.Contains(end.Reason, text) }
	s.oneClass = s.oneClass || s.examplesChanged && about("all examples have the label")
	switch begun := s.begun[end.Run]; {
	case s.giveUp > 0 && about("started the run within"):
	case about("no example has a label") && about("rows are forgotten"): // an operator may have forgotten all
		s.oneClass = true
	case about("warm start: the version of run") && s.removed[s.warm[end.Run]]: // forget --now removes it, whoever is about to start from it
	case !s.dataLost:
		s.fail("run %s failed, though no data was lost: %v", end.Run, end)
	case s.examplesChanged && (about("no examples on") || about("all examples have the label")): // what is left can't be used
	case s.examplesReused && about("train again to ingest the source again"): // only the survey can find it out
	case s.lostAt < begun:
		s.fail("run %s failed, though the last data was lost in step %d, before it was planned in step %d: %v", end.Run, s.lostAt, begun, end)
	case !slices.ContainsFunc(aboutTheLog, about):
		s.fail("run %s failed, but not because data was lost: %v", end.Run, end)
	}
}

// checkRecovery checks that once the faults are over a run is done, whatever was lost before. If the examples topic has nothing left,
// a producer writes again.
func (s *simulation) checkRecovery() {
	s.log.deliver(maxSteps)
	s.log.calm, s.faultsLeft = true, 0
	if s.seal == nil || !s.files {
		s.examplesChanged = true
		s.addExamples()
	}
	before := len(s.outcomes)
	for range 3 { // the first may resume a run that has lost something, and must then fail
		s.submit(1, false, false)
		s.awaitRuns()
		if n := len(s.outcomes); n > before && s.outcomes[n-1] == schemas.Done {
			return
		}
	}
	if s.oneClass {
		return
	}
	s.fail("after the faults no run succeeds: they are %v", s.outcomes[before:])
}

// noteWarm notes what the weights of a run depend on, when its plan is written for the first time: the seed of the run that began
// its chain of warm starts, and how many there were. The ids of runs would not do, as a plan names the manifest of the version that it
// starts from, which has offsets of the schedule.
func (s *simulation) noteWarm(m wire.Message) {
	plan, id, err := protocol.DecodePlan(m)
	if err != nil {
		s.fail("a plan is written that can't be read: %v", err)
		return
	}
	if plan.Warm != nil {
		s.warm[id] = plan.Warm.Run
	}
	if plan.Chain != nil {
		s.noteChained(id, plan)
		return
	}
	lineage := "seed " + strconv.FormatUint(plan.Seed, 10)
	if plan.Warm != nil {
		lineage = s.lineages[plan.Warm.Run] + ", warm"
	}
	if s.examplesChanged || lineage == ", warm" {
		lineage = "" // nobody knows its weights
	}
	s.lineages[id] = lineage
}

// learnVersion adds the weights of a version that was made without faults to the reference.
func (s *simulation) learnVersion(m wire.Message) {
	s.versionsOf[s.lineages[m.Run()]] = s.content(m)
}

// checkVersion checks that the weights of a version are those that it has without faults.
func (s *simulation) checkVersion(m wire.Message) {
	lineage := s.lineages[m.Run()]
	if lineage == "" || s.examplesReused || (s.dataLost || s.differs) && s.chain != nil {
		return
	}
	if got, want := s.content(m), s.versionsOf[lineage]; got != want {
		s.fail("the version of run %s (%s) has weights %s, without faults %s", m.Run(), lineage, got, want)
	}
}

// prune removes old versions, and checks that none of them is one that an unfinished run starts from.
func (s *simulation) prune(ctx context.Context, p *topics.Pipeline) error {
	needed := map[string]string{}
	for id, version := range s.warm {
		if s.ends[id] == "" && !s.removed[version] {
			needed[id] = version
		}
	}
	err := p.Prune(ctx, simKeep)
	for id, version := range needed {
		if len(s.solvers) == 1 && !s.historyLost && s.ends[id] == "" && s.removed[version] {
			s.fail("the version of run %s was removed, from which the unfinished run %s starts", version, id)
		}
	}
	return err
}

// warmStart is the version that a submitter starts from; "" starts from nothing.
func (s *simulation) warmStart(ctx context.Context, p *topics.Pipeline, seed uint64) string {
	latest, err := p.Version(ctx, protocol.Latest)
	if err != nil || latest.Plan.Seed != seed {
		return ""
	}
	s.log.count(warming)
	return strconv.Itoa(latest.Version)
}

// Examples of the kinds that the others are not: sparse rows, rows with several labels or with numbers, rows with a
// missing feature, test rows and images.

// kindRows is how many rows a message of them has.
const kindRows = 12

// kindExamples returns two messages in each partition, whose rows change what rings returns.
func kindExamples(columns int, change func(rows *examples.Rows, seed int)) *simExamples {
	e := &simExamples{rows: 4 * kindRows}
	for p := range simPartitions {
		var messages []wire.Message
		for n := range 2 {
			seed := 500 + 10*p + n
			rows := rings(kindRows, columns, 2, uint64(seed)).exampleRows()
			change(&rows, seed)
			messages = append(messages, examplesMessage(schemas.Origin{}, &rows))
		}
		e.messages = append(e.messages, messages)
	}
	return e
}

// sparseExamples have two of eight columns in each row, and holdout rows.
func sparseExamples() *simExamples {
	e := kindExamples(2, func(rows *examples.Rows, seed int) {
		sparse := &examples.SparseRows{}
		for i := range rows.Rows {
			first := int32((seed + i) % 4)
			sparse.Indices = append(sparse.Indices, first, first+4)
			sparse.Values = append(sparse.Values, rows.Floats[2*i]*rows.Floats[2*i], 1+float32(i%3))
			sparse.Ends = append(sparse.Ends, len(sparse.Indices))
		}
		rows.Floats, rows.Cols, rows.Sparse = nil, 0, sparse
	})
	e.holdout = 0.3
	return e
}

// sparseChainExamples have rows like sparseExamples, in ten messages of each partition. Later ones have columns that earlier ones lack.
func sparseChainExamples() *simExamples {
	const messages, rowsOfMessage = 10, 8
	e := &simExamples{rows: simPartitions * messages * rowsOfMessage, sparse: true}
	for p := range simPartitions {
		var list []wire.Message
		for n := range messages {
			list = append(list, sparseMessage(p, n, rowsOfMessage))
		}
		e.messages = append(e.messages, list)
	}
	return e
}

func sparseMessage(partition, number, rowsOfMessage int) wire.Message {
	rows := rings(rowsOfMessage, 2, 2, uint64(700+100*partition+number)).exampleRows()
	sparse := &examples.SparseRows{}
	for i := range rows.Rows {
		first := int32((number + i) % 4)
		sparse.Indices = append(sparse.Indices, first, first+4+int32(number/2))
		sparse.Values = append(sparse.Values, rows.Floats[2*i]*rows.Floats[2*i], 1+float32(i%3))
		sparse.Ends = append(sparse.Ends, len(sparse.Indices))
	}
	rows.Floats, rows.Cols, rows.Sparse = nil, 0, sparse
	return examplesMessage(schemas.Origin{}, &rows)
}

// severalExamples have one label or two.
func severalExamples() *simExamples {
	return kindExamples(2, func(rows *examples.Rows, seed int) {
		for i := range rows.Rows {
			rows.LabelLists = append(rows.LabelLists, [][]string{{"right"}, {"up"}, {"right", "up"}}[(seed+i)%3])
		}
		rows.Words = nil
	})
}

// numberExamples have two numbers to predict, and test rows.
func numberExamples() *simExamples {
	e := kindExamples(2, func(rows *examples.Rows, _ int) {
		for i := range rows.Rows {
			rows.Targets = append(rows.Targets, float64(rows.Floats[2*i]), float64(rows.Floats[2*i+1]))
			rows.Splits = append(rows.Splits, []examples.Split{examples.Train, examples.Train, examples.Test}[i%3])
		}
		rows.Words = nil
	})
	e.rows = 4 * kindRows * 2 / 3
	return e
}

// missingExamples lack some features, and have test rows and weights. A label of test rows is a class of its own.
func missingExamples() *simExamples {
	e := kindExamples(2, func(rows *examples.Rows, seed int) {
		for i := range rows.Rows {
			if (seed+i)%5 == 0 {
				rows.Floats[2*i] = float32(math.NaN())
			}
			rows.Splits = append(rows.Splits, []examples.Split{examples.Train, examples.Train, examples.Test}[i%3])
			rows.Weights = append(rows.Weights, float32(1+i%2))
		}
		rows.Words[5] = "Ring-1" // which no training row has
	})
	e.rows = 4 * kindRows * 2 / 3
	return e
}

// imageExamples have 2 × 2 pixels.
func imageExamples() *simExamples { return kindExamples(4, func(*examples.Rows, int) {}) }

// withJob returns the scenario of a job that is changed.
func (sc *scenario) withJob(change func(*topics.Job)) *scenario {
	change(&sc.job)
	return sc
}
