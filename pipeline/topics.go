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

// pipeline reads and writes the topics of one pipeline, and creates them.
type pipeline struct {
	*run.Client
	admin  *kafkalog.Log    // creates, deletes and configures topics; joins consumer groups
	memory memory.Allocator // for the Arrow records of ingest
}

// open returns the pipeline of that name. mem is where Arrow's memory comes from; nil is Go's.
func open(log *kafkalog.Log, name string, mem memory.Allocator) *pipeline {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return &pipeline{Client: run.NewClient(log, name, mem), admin: log, memory: mem}
}

// maxStatisticsPartitions is enough to spread the Gram matrices over the brokers, and few enough for one solver to follow.
const maxStatisticsPartitions = 8

// compactionLag must be longer than any run. Otherwise compaction may remove a record that a worker still waits for.
const compactionLag = 7 * 24 * time.Hour

// Topics returns the topics that a job needs, with the settings that missing ones are created with.
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

// PartitionsError says that the residuals topic has fewer partitions than the examples topic. Residuals are in the same partition
// as their examples.
type PartitionsError struct {
	Residuals  string // the topic's name
	Have, Want int    // numbers of partitions
}

func (e *PartitionsError) Error() string {
	return fmt.Sprintf("%s has %d partitions, the examples topic has %d: add partitions to %[1]s, or delete it", e.Residuals, e.Have, e.Want)
}

// create creates the topics that are missing. If the examples topic exists, the job takes over its number of partitions.
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

// require creates the pipeline's topics if one of the needed topics is missing. A role without permission to create topics can
// work if the topics that it needs exist. It need not have access to the others.
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

// clear empties statistics and residuals, which only an unfinished run reads. The embedded broker deletes nothing by age, and each
// run leaves a Gram matrix for each stage and partition.
func (p *pipeline) clear(ctx context.Context, job Job) error {
	if err := p.admin.Delete(ctx, p.Topics.Statistics, p.Topics.Residuals); err != nil {
		return err
	}
	return p.create(ctx, &job)
}
