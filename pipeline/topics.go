package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
)

// pipeline is the client of a pipeline's topics, and the log for setting them up.
type pipeline struct {
	*run.Client
	admin  *kafkalog.Log
	memory memory.Allocator // of Arrow, for ingest
}

// open returns the pipeline of that name; mem nil is Go's memory.
func open(log *kafkalog.Log, name string, mem memory.Allocator) *pipeline {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return &pipeline{Client: run.NewClient(log, name, mem), admin: log, memory: mem}
}

// maxStatisticsPartitions is enough to spread the Gram matrices over brokers, and few enough for a solver to follow all of
// them.
const maxStatisticsPartitions = 8

// compactionLag must exceed the longest run, so that compaction never removes a record that a worker still waits for.
const compactionLag = 7 * 24 * time.Hour

// Topics returns the topics that a job needs, as they are created where they are missing.
func Topics(job Job) []kafkalog.Topic {
	t, p := run.TopicsOf(job.Name), job.Examples.Partitions
	lag := map[string]string{"min.compaction.lag.ms": strconv.FormatInt(compactionLag.Milliseconds(), 10)}
	return []kafkalog.Topic{
		{Name: t.Examples, Partitions: p},
		{Name: t.Residuals, Partitions: p},
		{Name: t.Statistics, Partitions: min(p, maxStatisticsPartitions)},
		{Name: t.Weights, Partitions: 1, Compact: true, Config: lag},
		{Name: t.Plans, Partitions: 1, Compact: true, Config: lag},
		{Name: t.Quarantine, Partitions: 1},
	}
}

// PartitionsError says that the residuals topic has too few partitions: residuals stand in the partition of their examples.
type PartitionsError struct {
	Residuals  string
	Have, Want int
}

func (e *PartitionsError) Error() string {
	return fmt.Sprintf("%s has %d partitions, the examples have %d: add partitions, or delete it", e.Residuals, e.Have, e.Want)
}

// create creates the topics that are missing. An examples topic that exists keeps its number of partitions, which is the job's
// from then on.
func (p *pipeline) create(ctx context.Context, job *Job) error {
	if err := p.admin.Create(ctx, Topics(*job)[0]); err != nil {
		return err
	}
	var err error
	if job.Examples.Partitions, err = p.Log.Partitions(ctx, p.Topics.Examples); err != nil {
		return err
	}
	if err := p.admin.Create(ctx, Topics(*job)...); err != nil {
		return err
	}
	have, err := p.Log.Partitions(ctx, p.Topics.Residuals)
	if err == nil && have < job.Examples.Partitions && !p.admin.Embedded() {
		return &PartitionsError{p.Topics.Residuals, have, job.Examples.Partitions}
	}
	return err
}

// require creates the pipeline's topics if one of those that a role needs is missing. A role that may not create topics works
// if its own exist, and need not see the others.
func (p *pipeline) require(ctx context.Context, job *Job, needed ...string) error {
	for _, topic := range needed {
		_, err := p.Log.Partitions(ctx, topic)
		if errors.Is(err, kafkalog.ErrUnknownTopic) {
			return p.create(ctx, job)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// clear empties the topics that only a run under way reads. The embedded broker deletes nothing by age, and a run leaves a Gram
// matrix for each stage and partition.
func (p *pipeline) clear(ctx context.Context, job Job) error {
	if err := p.admin.Delete(ctx, p.Topics.Statistics, p.Topics.Residuals); err != nil {
		return err
	}
	return p.create(ctx, &job)
}
