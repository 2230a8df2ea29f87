package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// An expiring chain is one whose examples come from a topic, and expire while its processes work, as far as their origins were written.
// Each process makes them again from that topic, or from an archive of it, so nothing is lost: all invariants of a chain hold as without
// expiry.

// topicExamples are examples that are ingested from a topic.
func topicExamples(messages int) *simExamples {
	return &simExamples{rows: int64(2 * messages), fromTopic: messages}
}

// sourceJob returns the job of a process that knows the topic of the examples.
func (s *simulation) sourceJob() topics.Job {
	job := s.job
	job.Examples.Train, job.Examples.FromTopic, job.Examples.Format, job.Examples.BatchRows = nil, simSource, "csv", simRows
	job.Examples.Partitions, job.Topics.Retention.Examples = simPartitions, time.Hour
	return job
}

// ingestTopic writes the topic of the examples, and ingests all of it.
func (s *simulation) ingestTopic() {
	for range sourcePartitions {
		s.log.addPartition(simSource, 0)
	}
	s.log.addPartition(s.topics.Origins, 0)
	s.settings[simSource] = map[string]string{}
	for i := range s.fromTopic {
		p := s.log.topics[simSource][i%sourcePartitions]
		p.append(wire.Message{Value: fmt.Appendf(nil, "ring0,%d,%d\nring1,%d,%d\n", i%5, i, i%7+3, i)})
		p.last().Time = time.UnixMilli(int64(i))
	}
	s.log.calm = true
	f := source.NewFollow(s.pipeline(unattended()), s.sourceJob(), true, event.Ignore{})
	f.Together = func(ctx context.Context, feeds []*source.Feed) error {
		for _, feed := range feeds {
			if err := feed.Run(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	if err := f.Run(context.Background()); err != nil {
		s.fail("ingest the examples: %v", err)
	}
	s.log.calm = false
}

// remaking makes expired examples again in a process.
func (s *simulation) remaking(p *topics.Pipeline) *topics.Pipeline {
	if s.fromTopic > 0 {
		p.Remade = topics.NewRemade(p.Client, s.sourceJob().Examples, p.Memory)
		p.Log = p.Remade
	}
	return p
}

// actorOf returns the actor that a pipeline is of.
func actorOf(p *topics.Pipeline) *actor {
	log := p.Log
	if p.Remade != nil {
		log = p.Remade.Log
	}
	return log.(actorLog).actor
}

// expireRemade deletes examples that can be made again, so no data is lost.
func (s *simulation) expireRemade() {
	n := s.random.IntN(simPartitions)
	p := s.log.topics[s.topics.Examples][n]
	before := p.first
	for _, m := range p.messages {
		if m.Get("stagewise-rows") != "" && s.random.IntN(4) > 0 {
			before = m.Offset + 1
		}
	}
	s.log.happen(archived, "%s[%d] expires before offset %d, and can be made again", s.topics.Examples, n, before)
	p.expire(before)
}
