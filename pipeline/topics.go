package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// topics are the names of a pipeline's topics.
type topics struct{ name, examples, residuals, statistics, weights, plans, quarantine string }

func topicsOf(name string) topics {
	return topics{
		name: name, examples: name + ".examples", residuals: name + ".residuals", statistics: name + ".statistics",
		weights: name + ".weights", plans: name + ".plans", quarantine: name + ".quarantine",
	}
}

// statisticsPartitions is the most partitions of the statistics topic: enough
// to spread the Gram matrices, few enough for a solver to follow all of them.
const statisticsPartitions = 8

// compactionLag must exceed the longest run, so that compaction never eats a
// barrier that a worker still waits for.
const compactionLag = 7 * 24 * time.Hour

// Topics are the topics that a job needs, as they are made where they are not
// there.
func Topics(job Job) []kafkalog.Topic {
	t, p := topicsOf(job.Name), job.Examples.Partitions
	lag := map[string]string{"min.compaction.lag.ms": strconv.FormatInt(compactionLag.Milliseconds(), 10)}
	return []kafkalog.Topic{
		{Name: t.examples, Partitions: p},
		{Name: t.residuals, Partitions: p},
		{Name: t.statistics, Partitions: min(p, statisticsPartitions)},
		{Name: t.weights, Partitions: 1, Compact: true, Config: lag},
		{Name: t.plans, Partitions: 1, Compact: true, Config: lag},
		{Name: t.quarantine, Partitions: 1},
	}
}

// PartitionsError says that residuals can't stand beside their examples.
type PartitionsError struct {
	Residuals  string
	Have, Want int
}

func (e *PartitionsError) Error() string {
	return fmt.Sprintf("%s has %d partitions, the examples have %d: add partitions, or delete it", e.Residuals, e.Have, e.Want)
}

// create makes the topics that are missing. An examples topic that is there
// keeps its number of partitions, which is the job's from then on.
func (d desk) create(ctx context.Context, job *Job) error {
	if err := d.admin.Create(ctx, Topics(*job)[0]); err != nil {
		return err
	}
	var err error
	if job.Examples.Partitions, err = d.log.Partitions(ctx, d.examples); err != nil {
		return err
	}
	if err := d.admin.Create(ctx, Topics(*job)...); err != nil {
		return err
	}
	have, err := d.log.Partitions(ctx, d.residuals)
	if err == nil && have < job.Examples.Partitions && !d.admin.Embedded() {
		return &PartitionsError{d.residuals, have, job.Examples.Partitions}
	}
	return err
}

// prepare makes the pipeline's topics where one is missing that a role needs: a
// role that may not make any needs its own to be there, and need not see others.
func (d desk) prepare(ctx context.Context, job *Job, needs ...string) error {
	for _, topic := range needs {
		_, err := d.log.Partitions(ctx, topic)
		if errors.Is(err, kafkalog.ErrUnknownTopic) {
			return d.create(ctx, job)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// desk is a log with the names of a pipeline's topics: what all roles hold.
type desk struct {
	log   journal
	admin *kafkalog.Log // the same, for who sets topics up
	topics
	codec codec
	fresh func() string    // a text unlike any before, of whomever
	mem   memory.Allocator // of Arrow, for who ingests
}

// newDesk is the desk of a pipeline; mem nil is Go's memory.
func newDesk(log *kafkalog.Log, name string, mem memory.Allocator) desk {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return desk{log: brokers{log}, admin: log, topics: topicsOf(name), codec: formats{mem: mem}, fresh: rand.Text, mem: mem}
}

// write appends messages of ours to a partition.
func (d desk) write(ctx context.Context, topic string, partition int, messages ...schemas.Message) (int64, error) {
	return d.log.Append(ctx, topic, partition, messages...)
}

// each calls with all messages that a partition has now, in order.
func (d desk) each(ctx context.Context, topic string, partition int, with func(entry) error) error {
	first, end, err := d.log.Bounds(ctx, topic, partition)
	if err != nil {
		return err
	}
	return d.between(ctx, topic, partition, first, end, with)
}

// between calls with the messages of a range of offsets, in order.
func (d desk) between(ctx context.Context, topic string, partition int, from, to int64, with func(entry) error) error {
	r := d.log.Range(topic, partition, from, to)
	defer r.Close()
	for {
		m, err := r.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := with(m); err != nil {
			return err
		}
	}
}

// statisticsPartition is where the statistics of a partition of examples go.
func statisticsPartition(partition, partitions int) int { return partition % partitions }
