// Package topics opens the pipeline of a job, configures its topics (their partitions, policies, retention and replicas), and keeps
// their messages readable after retention has deleted them.
//
//	Job ──Open──▶ Pipeline ──Create, CheckPolicies, ReadSettings, Apply──▶ topics
//	version ──Pin, Unpin, RemoveVersions──▶ plans topic, versions topic
//	examples, as ingest writes them ──Remade.Record──▶ origins: each message without its value
//	origins, messages of the followed topic ──Remade.Range──▶ the same messages, after retention has deleted them
//
// A [Remade] is a log whose examples topic begins where the followed topic does, so that the examples topic may have a shorter
// retention than that topic. Which messages have become which rows, in which batches, depends on when ingest read them, so the
// origins topic records that. The rows themselves do not depend on it.
//
// A Pipeline is a client of its topics that can also administer them. The sibling packages are functions over a Pipeline.
package topics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/solver"
	"github.com/stagewise/stagewise/schemas"
)

// Pipeline reads and writes the topics of one pipeline, and creates them.
type Pipeline struct {
	*protocol.Client
	Admin   admin
	Sums    *solver.Store    // state of a chain in this process's solver
	Foreign string           // the topic with the examples of the runs, as in plans, if it does not belong to the pipeline
	owner   *protocol.Client // of the pipeline that owns Foreign, by its name; nil: none
	// Remade is the log with the expired examples that can be made again; nil: examples do not expire, or come from files.
	Remade *Remade
}

// admin creates, deletes and configures topics, and joins and describes consumer groups. A [kafkalog.Log] implements it.
type admin interface {
	Create(ctx context.Context, topics ...kafkalog.Topic) error
	// AddPartitions makes sure that a topic has at least the given number of partitions.
	AddPartitions(ctx context.Context, topic string, partitions int) error
	Delete(ctx context.Context, topics ...string) error
	Compact(ctx context.Context, topics ...string) error
	Topics(ctx context.Context, prefix string) ([]kafkalog.Topic, error)
	Settings(t kafkalog.Topic) map[string]string
	Configure(ctx context.Context, topic string, settings map[string]string) error
	Configs(ctx context.Context, topics ...string) (map[string]map[string]string, error)
	OffsetsAt(ctx context.Context, topic string, at time.Time) ([]int64, error)
	// Uncommitted returns the offsets of each partition that can't be read until a transaction ends.
	Uncommitted(ctx context.Context, topic string) ([]kafkalog.Bounds, error)
	Embedded() bool
	IsEmbedded(ctx context.Context) (bool, error)
	Members(ctx context.Context, group string) ([]string, error)
	Join(group, topic string) *kafkalog.Member
	JoinGroups(group, topic string, size func(partitions int) int) *kafkalog.Member
}

// Open returns the named pipeline. Arrow allocates from mem; nil means the Go heap.
func Open(log *kafkalog.Log, name string, mem memory.Allocator) *Pipeline {
	return &Pipeline{Client: protocol.NewClient(log, name, mem), Admin: log, Sums: &solver.Store{}}
}

// OpenFor returns the pipeline of a job, whose runs read the examples topic of the job, make expired examples again, and end as failed if
// no process starts them.
func OpenFor(log *kafkalog.Log, job Job, mem memory.Allocator) *Pipeline {
	p := Open(log, job.Name, mem)
	p.GiveUp = cmp.Or(job.GiveUp, DefaultGiveUp)
	p.Log = withArchive(p.Log, job.Examples)
	if p.Foreign = job.Examples.Topic; p.Foreign != "" {
		p.Topics.Examples = p.Foreign
		if name, ok := OwnerOf(p.Foreign); ok {
			p.owner = protocol.NewClient(log, name, nil)
		}
	}
	if job.Remakes() {
		p.Remade = NewRemade(p.Client, job.Examples, p.Memory)
		p.Log = p.Remade
	}
	return p
}

// Beside returns another pipeline on the same log that reads the examples of this one.
func (p *Pipeline) Beside(name string) *Pipeline {
	beside := *p
	beside.Client, beside.Sums = p.Client.Beside(name), &solver.Store{}
	return &beside
}

// maxStatisticsPartitions is sufficient to spread the Gram matrices over the brokers, and few enough for one solver to
// follow.
const maxStatisticsPartitions = 8

// TopicOptions are the keys under `topics` of the configuration: the settings of created topics. Start from
// [DefaultTopics].
type TopicOptions struct {
	Replication int           // replication factor; 0: 3 in a cluster of three brokers or more, otherwise 1
	Retention   Retention     // by topic
	Segment     option.Bytes  // segment size, the unit of deletion
	SegmentTime time.Duration // after which a segment is rolled
	State       option.Bytes  // maximum size of a chain's state on the state topic: see StateSize
}

// Retention is the retention of topics with time limits.
type Retention struct {
	Examples    time.Duration // 0: unlimited
	Residuals   time.Duration
	Statistics  time.Duration
	Weights     time.Duration
	Quarantine  time.Duration // 0: unlimited
	Predictions time.Duration // the retention of predictions; 0: unlimited
	Tombstones  time.Duration // tombstone retention of the compacted topics
}

// DefaultTopics returns the options of an empty configuration.
func DefaultTopics() TopicOptions {
	const day = 24 * time.Hour
	return TopicOptions{
		Retention: Retention{Residuals: day, Statistics: day, Weights: day, Quarantine: 7 * day, Tombstones: day},
		Segment:   64 << 20, SegmentTime: time.Hour, State: 4 << 30,
	}
}

// minSegment is the size of a segment for any message of the brokers' default maximum size.
const minSegment = 2 << 20

// maxRetention is ten years.
const maxRetention = 10 * 365 * 24 * time.Hour

// TopicKeys is the table of the keys under `topics` of the configuration, in the order of the documentation.
func TopicKeys() []option.Key {
	isTime := option.Range(0, float64(maxRetention), "a time of at most ten years, 87600h")
	outlivesRuns := option.Range(float64(minRetention), float64(maxRetention),
		"at least 1h, because runs need the messages that long, and at most ten years, 87600h")
	return []option.Key{
		{Name: "replication", Rule: option.Range(0, 100, "a replication factor of at most 100; 0: 3 in a cluster of three or more "+
			"brokers, otherwise 1"),
			Meaning: "replication factor of created topics; 0: 3 in a cluster of three or more brokers, otherwise " +
				"1. With fewer brokers up, no topic is created. From 3 on, a write needs two replicas"},
		{Name: "retention.examples", Rule: isTime,
			Meaning: "retention of examples; 0: forever. Expired ones are made again from `examples.from_topic`, as long as that topic has " +
				"their messages, but not those with outcomes"},
		{Name: "retention.residuals", Rule: outlivesRuns,
			Meaning: fmt.Sprintf("retention of residuals: at least the duration of a run, and %v", minRetention)},
		{Name: "retention.statistics", Rule: outlivesRuns,
			Meaning: "retention of statistics, as for residuals"},
		{Name: "retention.weights", Rule: outlivesRuns,
			Meaning: "retention of the weights of a run, as for residuals. Versions have their " +
				"own topic: see `keep`"},
		{Name: "retention.quarantine", Rule: isTime,
			Meaning: "retention of messages that could not be used; 0: forever"},
		{Name: "retention.predictions", Rule: isTime,
			Meaning: "retention of the predictions of `score`; 0: forever. If all predictions of a " +
				"partition have expired, its examples are predicted again"},
		{Name: "retention.tombstones", Rule: outlivesRuns,
			Meaning: "tombstone retention"},
		{Name: "segment", Rule: option.Range(minSegment, 1<<30, "a size from 2MiB to 1GiB"),
			Meaning: "segment size of partitions: brokers delete messages by segment"},
		{Name: "segment_time", Rule: option.Range(float64(time.Minute), float64(maxRetention), "a time from 1m to ten years, 87600h"),
			Meaning: "time after which a partition starts a new segment"},
		{Name: "state", Rule: option.Range(minSegment, math.MaxInt64, "a size of at least 2MiB"),
			Meaning: "maximum size of the data of a `run` chain on `state`: `check` computes the size, and rejects keys " +
				"under `retrain` that need more"},
	}
}

// deleted returns the settings of a topic with time retention; 0 means unlimited.
func (o TopicOptions) deleted(name string, partitions int, after time.Duration) kafkalog.Topic {
	retention := "-1"
	if after > 0 {
		retention = Milliseconds(after)
	}
	return o.topic(name, partitions, "cleanup.policy", "delete", "retention.ms", retention, "retention.bytes", "-1")
}

// topic returns the settings of a topic. settings are names, each followed by a value.
func (o TopicOptions) topic(name string, partitions int, settings ...string) kafkalog.Topic {
	topic := kafkalog.Topic{Name: name, Partitions: partitions, Replication: o.Replication, Config: map[string]string{
		"segment.bytes": strconv.FormatInt(int64(o.Segment), 10), "segment.ms": Milliseconds(o.SegmentTime),
	}}
	for i := 0; i < len(settings); i += 2 {
		topic.Config[settings[i]] = settings[i+1]
	}
	return topic
}

// Milliseconds formats a duration for topic settings.
func Milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// PredictionsTopic returns the predictions topic for a topic with the given number of partitions, as created by score.
func PredictionsTopic(job Job, name string, partitions int) kafkalog.Topic {
	o := cmp.Or(job.Topics, DefaultTopics())
	return o.deleted(name, partitions, o.Retention.Predictions)
}

// Topics returns the topics that a job needs, with the settings for creating missing ones. It excludes the topic in
// examples.topic, which only its owner creates or changes.
func Topics(job Job) []kafkalog.Topic {
	t, p, o := protocol.TopicsOf(job.Name), job.Examples.Partitions, cmp.Or(job.Topics, DefaultTopics())
	// Tombstoned messages are deleted from disk after the compaction lag and the tombstone retention, even on a topic with few
	// writes.
	compacted := func(name string) kafkalog.Topic {
		topic := o.topic(name, 1, "delete.retention.ms", Milliseconds(o.Retention.Tombstones), "max.compaction.lag.ms",
			Milliseconds(max(o.Retention.Tombstones, o.SegmentTime)),
			"min.cleanable.dirty.ratio", "0.1")
		topic.Compact = true
		return topic
	}
	plans := compacted(t.Plans)
	// A client that gets no response writes a plan again. Compaction keeps the later copy, which may be after plans that
	// others have written in the meantime, and would change the order of the waiting runs.
	plans.Config["min.compaction.lag.ms"] = Milliseconds(o.Retention.Tombstones)
	topics := []kafkalog.Topic{
		o.deleted(t.Examples, p, o.Retention.Examples),
		o.deleted(t.Residuals, p, o.Retention.Residuals),
		o.deleted(t.Statistics, min(p, maxStatisticsPartitions), o.Retention.Statistics),
		o.deleted(t.Weights, 1, o.Retention.Weights),
		compacted(t.Versions),
		compacted(t.State),
		plans,
		compacted(t.Forget),
		o.deleted(t.Quarantine, 1, o.Retention.Quarantine),
	}
	if job.Remakes() {
		origins := o.deleted(t.Origins, 1, 0)
		origins.Config["compression.type"] = "zstd"
		topics = append(topics, origins)
	}
	if job.Examples.Topic != "" {
		return topics[1:]
	}
	return topics
}

// growResiduals makes sure that the residuals topic has as many partitions as the examples topic, to which some may have
// been added. Residuals are in the same partitions as their examples.
func growResiduals(ctx context.Context, p *Pipeline, partitions int) error {
	have, err := p.Log.Partitions(ctx, p.Topics.Residuals)
	if err != nil || have >= partitions {
		return err
	}
	err = p.Admin.AddPartitions(ctx, p.Topics.Residuals, partitions)
	if errors.As(err, new(*kafkalog.AccessError)) {
		return fmt.Errorf("%s has %d partitions, the examples topic has %d: add partitions to %[1]s, or delete it: %[4]w", p.Topics.Residuals,
			have, partitions, err)
	}
	return err
}

// GrowFor is growResiduals for a plan, with partitions added since the job's topics were created.
func GrowFor(ctx context.Context, p *Pipeline, plan *schemas.Plan, job *Job) error {
	n := PartitionsFor(plan)
	if n <= job.Examples.Partitions {
		return nil
	}
	job.Examples.Partitions = n
	return growResiduals(ctx, p, n)
}

// PartitionsFor returns the minimum number of partitions of a topic for a plan.
func PartitionsFor(plan *schemas.Plan) int {
	all := plan.Partitions()
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1] + 1
}

// Create creates missing topics. If the examples topic exists, its number of partitions determines those of the job and of
// the residuals topic.
func Create(ctx context.Context, p *Pipeline, job *Job) error {
	if p.Foreign == "" {
		if err := p.Admin.Create(ctx, Topics(*job)[0]); err != nil {
			return err
		}
	}
	var err error
	job.Examples.Partitions, err = p.Log.Partitions(ctx, p.Topics.Examples)
	if p.Foreign != "" && errors.Is(err, kafkalog.ErrUnknownTopic) {
		return fmt.Errorf("examples.topic: topic %s does not exist, and is not created because it belongs to another pipeline: expected "+
			"a topic with examples; check the name and the brokers", p.Foreign)
	}
	if err != nil {
		return err
	}
	if err := p.Admin.Create(ctx, topicsOf(p, *job)...); err != nil {
		return err
	}
	return growResiduals(ctx, p, job.Examples.Partitions)
}

// CreateTopics creates the missing topics of a job. It returns an error if an existing one deletes messages that
// must stay.
func CreateTopics(ctx context.Context, p *Pipeline, job Job, rec event.Recorder) error {
	if err := Create(ctx, p, &job); err != nil {
		return err
	}
	return CheckPolicies(ctx, p, rec, kept(p.Topics)...)
}

// topicsOf returns the topics that a job needs, with the settings for creating them here.
func topicsOf(p *Pipeline, job Job) []kafkalog.Topic {
	topics := Topics(job)
	for i := range topics {
		if topics[i].Compact && p.Alone { // no other process needs the tombstones
			topics[i].Config["delete.retention.ms"] = "0"
			delete(topics[i].Config, "min.compaction.lag.ms")
		}
	}
	return topics
}

// Require creates the pipeline's topics if one of the needed topics is missing. A role without permission to create topics
// can work if the topics that it needs exist. It need not have access to the others.
func Require(ctx context.Context, p *Pipeline, job *Job, needed ...string) error {
	for _, topic := range needed {
		_, err := p.Log.Partitions(ctx, topic)
		if errors.Is(err, kafkalog.ErrUnknownTopic) {
			return Create(ctx, p, job)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// AwaitTurn waits until owner has partition 0, and so is the active process of the group with the given role. It reports once that
// another process is active, with does as the reason, and once that joining the group takes long. It calls planned, unless that is
// nil, when the wait begins and after each message of the plans topic.
func AwaitTurn(ctx context.Context, p *Pipeline, owner protocol.Owner, role string, does error,
	planned func(context.Context) error, rec event.Recorder) error {
	active, err := protocol.Owns(owner, 0)
	if err != nil || active {
		return err
	}
	_, end, err := p.Log.Bounds(ctx, p.Topics.Plans, 0)
	if err != nil {
		return err
	}
	subscription := p.Log.Subscribe(ctx, owner.Changed(), protocol.Position{Topic: p.Topics.Plans, Offset: end, Compacted: true})
	defer subscription.Close()
	told, look := "", planned != nil
	for wait := firstWait; ; {
		if active, err := protocol.Owns(owner, 0); err != nil || active {
			return err
		}
		if look && owner.Owned() != nil {
			if err := planned(ctx); err != nil {
				return err
			}
			look = false
		}
		d, late, err := subscription.Next(ctx, wait)
		if err != nil {
			return err
		}
		if !late {
			look = look || planned != nil && d != nil
			continue
		}
		wait = protocol.Patience(wait)
		why := fmt.Sprintf("%v: this one stands by", does)
		if owner.Owned() == nil {
			why = "joining the consumer group of stagewise " + role
		}
		if why != told {
			told = why
			rec.Record(event.StoodBy{Role: role, Why: why})
		}
	}
}

// firstWait is the time after which a process reports that it waits for its turn.
const firstWait = time.Second
