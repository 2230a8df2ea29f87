package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/pipeline/counting"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// simSource is a topic that is followed.
const simSource = "orders"

// sourcePartitions is how many partitions it has: those of the examples get as many of them as there are.
const sourcePartitions = 3

// followed makes of the scenario of a chain one whose examples also come from a topic, which two processes follow.
func (sc *scenario) followed() *scenario {
	sc.followers = true
	return sc
}

// followSource writes to a topic while two followers and the chain work, then ends it, and waits until all of it is ingested.
func (s *simulation) followSource() {
	s.differs = true
	s.onChanged = []string{ingest.ChangedTopicBehind, ingest.ChangedTopicAnew}[s.random.IntN(2)]
	for range sourcePartitions {
		s.log.addPartition(simSource, s.random.Int64N(3))
	}
	for i := range 2 {
		s.startFollower(i)
	}
	for i := range len(s.csv) { // as many processes as files
		s.startIngester(i)
		s.read += simFileRows
	}
	for steps := s.random.IntN(4000); steps > 0 && s.violation == nil; steps-- {
		if s.random.IntN(100) == 0 {
			s.writeSource()
		}
		s.goOn()
	}
	s.ended = true
	for _, a := range s.actors {
		if a.follower {
			a.killed, a.paused, a.waits = true, 0, nil // it is started again to read to the end
		}
	}
	for s.violation == nil && slices.ContainsFunc(s.actors, func(a *actor) bool { return a.follower }) {
		if s.goOn(); s.steps > maxSteps {
			s.fail("a follower has not ended after %d steps", maxSteps)
		}
	}
	if !s.dataLost && s.violation == nil {
		s.checkIngested()
	}
}

// writeSource writes a message of a few rows to the topic that is followed; some can't be used.
func (s *simulation) writeSource() {
	p := s.log.topics[simSource][s.random.IntN(sourcePartitions)]
	m := wire.Message{Key: fmt.Sprint("customer ", s.random.IntN(3))}
	if s.random.IntN(10) == 0 {
		m.Value = []byte("no number\n")
	} else {
		for range 1 + s.random.IntN(3) {
			s.read++
			m.Value = fmt.Appendf(m.Value, "%s,%d,%d\n", []string{"ring0", "ring1"}[s.read%2], s.random.IntN(9), s.read)
		}
	}
	p.append(m)
	p.last().Time = s.now()
}

// loseOfSource makes the topic that is followed lose messages, or be made anew.
func (s *simulation) loseOfSource() {
	if s.ended || s.log.topics[simSource] == nil {
		return
	}
	s.noteLoss(s.topics.Examples)
	if s.random.IntN(3) == 0 {
		s.log.happen(renewal, "%s is made anew", simSource)
		for _, p := range s.log.topics[simSource] {
			p.remake()
		}
		return
	}
	_, n, p := s.drawPartition(simSource)
	if s.random.IntN(2) == 0 {
		before := p.first + s.random.Int64N(p.end-p.first+1)
		s.log.happen(shortening, "%s[%d] expires before offset %d", simSource, n, before)
		p.expire(before)
		return
	}
	if p.end > p.first {
		from := p.end - 1 - s.random.Int64N(min(p.end-p.first, 3))
		s.log.happen(shortening, "%s[%d] loses what it has from offset %d on", simSource, n, from)
		p.truncate(from)
	}
}

func (s *simulation) startFollower(i int) {
	var a *actor
	a = s.start(fmt.Sprint("follower ", i), func() {
		_, unusable := errors.AsType[*source.NothingUsableError](a.err) // the topic may have lost all that could be used
		if a.err != nil && !unusable || !s.ended {
			s.startFollower(i)
		}
	}, func(a *actor) error {
		job := s.job
		job.Examples.Train, job.Examples.FromTopic, job.Examples.Format, job.Examples.BatchRows = nil, simSource, "csv", 4
		job.Examples.OnChangedTopic, job.Examples.Partitions = s.onChanged, simPartitions
		p := s.pipeline(a)
		if err := source.CheckSource(context.Background(), p, job); err != nil {
			return err
		}
		if err := topics.Create(context.Background(), p, &job); err != nil {
			return err
		}
		f := source.NewFollow(p, job, s.ended, event.Ignore{})
		f.Together = func(ctx context.Context, feeds []*source.Feed) error { return s.inThreads(ctx, a, feeds) }
		return f.Run(context.Background())
	})
	a.follower = true
}

// threads are what a process waits for.
type threads []*actor

// idle reports whether all go on.
func (t threads) idle() bool {
	return !slices.ContainsFunc(t, func(a *actor) bool { return a.ended })
}

// inThreads runs each feed of a process in a thread of it, until all have ended, or one has an error.
func (s *simulation) inThreads(ctx context.Context, process *actor, feeds []*source.Feed) (err error) {
	var running threads
	for n, feed := range feeds {
		running = append(running, s.startThread(process, fmt.Sprintf("%s, feed %d", process.name, n), func() error { return feed.Run(ctx) }))
	}
	for len(running) > 0 {
		process.waits = running
		killed := process.giveWay()
		process.waits = nil
		if err == nil {
			err = killed
		}
		for _, t := range running {
			if t.ended && t.err != nil && err == nil {
				err = t.err
			}
		}
		running = slices.DeleteFunc(running, func(t *actor) bool { return t.ended })
		if err != nil {
			for _, t := range running {
				t.killed, t.paused, t.waits = true, 0, nil
			}
		}
		if killed != nil {
			return killed
		}
	}
	return err
}

// startThread adds a thread of a process.
func (s *simulation) startThread(process *actor, name string, do func() error) *actor {
	t := &actor{name: name, process: process, restart: func() {}}
	t.resume, _ = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		t.err = do()
		t.ended = true
	})
	s.actors = append(s.actors, t)
	return t
}

// checkIngested checks that each row of the topic that is followed counts once.
func (s *simulation) checkIngested() {
	counting, counted := counting.New(&schemas.Plan{Foreign: true}), map[[2]int64]int{}
	for n, p := range s.log.topics[s.topics.Examples] {
		replay := counting.Replay(coverage.Span{Partition: n})
		for _, m := range p.messages {
			if replay.Accept(m.Message) != "" {
				continue
			}
			origins, err := examples.RowOriginsOf(m.Message)
			if err != nil {
				s.fail("%v", err)
			}
			for _, o := range origins {
				for i := range o.Messages {
					counted[[2]int64{int64(o.Partition), o.Offset + int64(i)}]++
				}
			}
		}
	}
	for n, p := range s.log.topics[simSource] {
		for _, m := range p.messages {
			want := 1
			if string(m.Value) == "no number\n" {
				want = 0
			}
			if got := counted[[2]int64{int64(n), m.Offset}]; got != want {
				s.fail("%s[%d]@%d counts %d times, expected %d", simSource, n, m.Offset, got, want)
			}
		}
	}
}
