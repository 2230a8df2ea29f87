package topics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/config/option"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/solver"
	"github.com/stagewise/stagewise/schemas"
)

// Pipeline reads and writes the topics of one pipeline, and creates them.
type Pipeline struct {
	*protocol.Client
	Admin   admin
	Extend  extend
	Memory  memory.Allocator // for the Arrow records of ingest
	Sums    *solver.Store    // what this process's solver has of a chain
	Archive *archive         // whose examples the runs read; nil: the pipeline has its own
}

// admin creates, deletes and configures topics, and joins consumer groups and says who is in them. A [kafkalog.Log] does.
type admin interface {
	Create(ctx context.Context, topics ...kafkalog.Topic) error
	Delete(ctx context.Context, topics ...string) error
	Compact(ctx context.Context, topics ...string) error
	Topics(ctx context.Context, prefix string) ([]kafkalog.Topic, error)
	Settings(t kafkalog.Topic) map[string]string
	Configure(ctx context.Context, topic string, settings map[string]string) error
	Configs(ctx context.Context, topics ...string) (map[string]map[string]string, error)
	OffsetsAt(ctx context.Context, topic string, at time.Time) ([]int64, error)
	Embedded() bool
	IsEmbedded(ctx context.Context) (bool, error)
	Members(ctx context.Context, group string) ([]string, error)
	Join(group, topic string) *kafkalog.Member
	JoinGroups(group, topic string, size int) *kafkalog.Member
}

// extend makes sure that a topic has at least that many partitions.
type extend func(ctx context.Context, topic string, partitions int) error

// Open returns the pipeline of that name. mem is where Arrow's memory comes from; nil is Go's.
func Open(log *kafkalog.Log, name string, mem memory.Allocator) *Pipeline {
	if mem == nil {
		mem = memory.DefaultAllocator
	}
	return &Pipeline{Client: protocol.NewClient(log, name, mem), Admin: log, Extend: log.AddPartitions, Memory: mem, Sums: &solver.Store{}}
}

// OpenFor returns the pipeline of a job, whose runs read the examples topic that the job names.
func OpenFor(log *kafkalog.Log, job Job, mem memory.Allocator) *Pipeline {
	p := Open(log, job.Name, mem)
	if p.Archive = newArchive(log, job.Examples.Topic); p.Archive != nil {
		p.Topics.Examples = p.Archive.topic
	}
	return p
}

// OpenForRuns returns the pipeline of a job for a process that works on its runs, and gives up those that nobody takes up.
func OpenForRuns(log *kafkalog.Log, job Job, mem memory.Allocator) *Pipeline {
	p := OpenFor(log, job, mem)
	p.GiveUp = cmp.Or(job.GiveUp, DefaultGiveUp)
	return p
}

// Beside returns another pipeline on the same log, which reads the examples of this one.
func (p *Pipeline) Beside(name string) *Pipeline {
	beside := *p
	beside.Client, beside.Sums = p.Client.Beside(name), &solver.Store{}
	return &beside
}

// maxStatisticsPartitions is enough to spread the Gram matrices over the brokers, and few enough for one solver to follow.
const maxStatisticsPartitions = 8

// TopicOptions are the keys under `topics` of the configuration: the settings of topics that are created. Start from
// [DefaultTopics].
type TopicOptions struct {
	Replication int           // of every topic; 0: 3 in a cluster of three brokers or more, else 1
	Retention   Retention     // how long messages stay
	Segment     Bytes         // after which a partition begins another file, the unit in which messages are deleted
	SegmentTime time.Duration `mapstructure:"segment_time"` // after which it does
	State       Bytes         // that a chain may keep on the state topic: see StateSize
}

// Retention says how long messages stay on the topics that lose them by time.
type Retention struct {
	Examples   time.Duration // 0: for ever
	Residuals  time.Duration
	Statistics time.Duration
	Weights    time.Duration
	Quarantine time.Duration // 0: for ever
	// Predictions is how long predictions stay; 0: for ever.
	Predictions time.Duration
	Tombstones  time.Duration // on the compacted topics
}

// DefaultTopics returns the options in which no key is set.
func DefaultTopics() TopicOptions {
	const day = 24 * time.Hour
	return TopicOptions{
		Retention: Retention{Residuals: day, Statistics: day, Weights: day, Quarantine: 7 * day, Tombstones: day},
		Segment:   64 << 20, SegmentTime: time.Hour, State: 4 << 30,
	}
}

// minSegment is the size of a segment that holds any message that brokers take by default.
const minSegment = 2 << 20

// Check returns the impossible values, by the keys under `topics`.
func (o TopicOptions) Check() (problems []option.Problem) {
	wrong := func(key string, value any, want string) {
		problems = append(problems, option.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	if o.Replication < 0 || o.Replication > 100 {
		wrong("replication", o.Replication, "a replication factor of at most 100; 0: 3 in a cluster of three or more brokers, "+
			"otherwise 1")
	}
	r := o.Retention
	for _, k := range []struct {
		key   string
		value time.Duration
		least time.Duration
	}{
		{"examples", r.Examples, 0}, {"residuals", r.Residuals, minRetention}, {"statistics", r.Statistics, minRetention},
		{"weights", r.Weights, minRetention}, {"quarantine", r.Quarantine, 0}, {"predictions", r.Predictions, 0},
		{"tombstones", r.Tombstones, minRetention},
	} {
		switch {
		case k.value < 0, k.value > maxRetention:
			wrong("retention."+k.key, k.value, "a time of at most ten years, 87600h")
		case k.value < k.least:
			wrong("retention."+k.key, k.value, "at least 1h, because runs need the messages that long")
		}
	}
	if o.Segment < minSegment || o.Segment > 1<<30 {
		wrong("segment", o.Segment, "a size from 2MiB to 1GiB")
	}
	if o.SegmentTime < time.Minute || o.SegmentTime > maxRetention {
		wrong("segment_time", o.SegmentTime, "a time from 1m to ten years, 87600h")
	}
	if o.State < minSegment {
		wrong("state", o.State, "a size of at least 2MiB")
	}
	return problems
}

// maxRetention is ten years.
const maxRetention = 10 * 365 * 24 * time.Hour

// TopicKeys documents the keys under `topics` of the configuration, in the order of the documentation.
func TopicKeys() []option.Key {
	return []option.Key{
		{Name: "replication", Meaning: "replication factor of created topics; 0: 3 in a cluster of three or more brokers, otherwise " +
			"1. With fewer brokers up, no topic is created. From 3 on, a write needs two replicas"},
		{Name: "retention.examples", Meaning: "retention of examples; 0: forever"},
		{Name: "retention.residuals", Meaning: fmt.Sprintf("retention of residuals: at least the duration of a run, and %v", minRetention)},
		{Name: "retention.statistics", Meaning: "retention of statistics, as for residuals"},
		{Name: "retention.weights", Meaning: "retention of the weights and the report of a run, as for residuals. Versions have their " +
			"own topic: see `keep`"},
		{Name: "retention.quarantine", Meaning: "retention of messages that could not be used; 0: forever"},
		{Name: "retention.predictions", Meaning: "retention of the predictions of `score`; 0: forever. If all predictions of a " +
			"partition have expired, its examples are predicted again"},
		{Name: "retention.tombstones", Meaning: "tombstone retention"},
		{Name: "segment", Meaning: "segment size of partitions: brokers delete messages by segment"},
		{Name: "segment_time", Meaning: "time after which a partition starts a new segment"},
		{Name: "state", Meaning: "maximum size of the data of a `run` chain on `state`: `check` computes the size, and rejects keys " +
			"under `retrain` that need more"},
	}
}

// deleted returns the settings of a topic that loses messages by time; after 0 it keeps them for ever.
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

// Milliseconds returns a duration as topics have it in their settings.
func Milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// PredictionsTopic returns the topic of the predictions for a topic with that many partitions, as score creates it.
func PredictionsTopic(job Job, name string, partitions int) kafkalog.Topic {
	o := cmp.Or(job.Topics, DefaultTopics())
	return o.deleted(name, partitions, o.Retention.Predictions)
}

// Topics returns the topics that a job needs, with the settings that missing ones are created with. The topic that the job names under
// examples.topic is not among them, as nobody but its owner creates or changes it.
func Topics(job Job) []kafkalog.Topic {
	t, p, o := protocol.TopicsOf(job.Name), job.Examples.Partitions, cmp.Or(job.Topics, DefaultTopics())
	// What has a tombstone leaves the disk at last after the lag and the time of tombstones, however little is written.
	compacted := func(name string) kafkalog.Topic {
		topic := o.topic(name, 1, "delete.retention.ms", Milliseconds(o.Retention.Tombstones), "max.compaction.lag.ms",
			Milliseconds(max(o.Retention.Tombstones, o.SegmentTime)),
			"min.cleanable.dirty.ratio", "0.1")
		topic.Compact = true
		return topic
	}
	plans := compacted(t.Plans)
	// A client that gets no answer writes a plan again. Of the two, compaction keeps the later one, which may come behind plans that
	// others have written meanwhile, so that the order of the runs would change while they wait.
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
	if job.Examples.Topic != "" {
		return topics[1:]
	}
	return topics
}

// PartitionsError says that the residuals topic has fewer partitions than the examples topic, and that this process can't add them.
// Residuals are in the same partition as their examples.
type PartitionsError struct {
	Residuals  string // the topic's name
	Have, Want int    // numbers of partitions
	Err        error  // why none are added
}

// Error returns what to do.
func (e *PartitionsError) Error() string {
	return fmt.Sprintf("%s has %d partitions, the examples topic has %d: add partitions to %[1]s, or delete it: %v", e.Residuals,
		e.Have, e.Want, e.Err)
}

// Unwrap returns Err.
func (e *PartitionsError) Unwrap() error { return e.Err }

// growResiduals makes sure that the residuals topic has as many partitions as the examples topic: somebody may have added some there.
func growResiduals(ctx context.Context, p *Pipeline, partitions int) error {
	have, err := p.Log.Partitions(ctx, p.Topics.Residuals)
	if err != nil || have >= partitions {
		return err
	}
	err = p.Extend(ctx, p.Topics.Residuals, partitions)
	if errors.As(err, new(*kafkalog.AccessError)) {
		return &PartitionsError{p.Topics.Residuals, have, partitions, err}
	}
	return err
}

// GrowFor does that for a plan, which may have partitions that were added since the job's topics were created.
func GrowFor(ctx context.Context, p *Pipeline, plan *schemas.Plan, job *Job) error {
	n := PartitionsFor(plan)
	if n <= job.Examples.Partitions {
		return nil
	}
	job.Examples.Partitions = n
	return growResiduals(ctx, p, n)
}

// PartitionsFor returns how many partitions a topic has that has all of a plan's.
func PartitionsFor(plan *schemas.Plan) int {
	all := plan.Partitions()
	if len(all) == 0 {
		return 0
	}
	return all[len(all)-1] + 1
}

// Create creates the topics that are missing. If the examples topic exists, the job takes over its number of partitions, and so does the
// residuals topic.
func Create(ctx context.Context, p *Pipeline, job *Job) error {
	if p.Archive == nil {
		if err := p.Admin.Create(ctx, Topics(*job)[0]); err != nil {
			return err
		}
	}
	var err error
	job.Examples.Partitions, err = p.Log.Partitions(ctx, p.Topics.Examples)
	if p.Archive != nil && errors.Is(err, kafkalog.ErrUnknownTopic) {
		return &NoArchiveError{p.Archive.topic}
	}
	if err != nil {
		return err
	}
	if err := p.Admin.Create(ctx, topicsOf(p, *job)...); err != nil {
		return err
	}
	return growResiduals(ctx, p, job.Examples.Partitions)
}

// CreateTopics creates the topics of a job that are missing. It returns a *[PolicyError] if one that exists deletes what must stay.
func CreateTopics(ctx context.Context, p *Pipeline, job Job, rec event.Recorder) error {
	if topic := job.Examples.Topic; topic != "" { // each of its partitions has residuals
		var err error
		if job.Examples.Partitions, err = p.Log.Partitions(ctx, topic); err != nil {
			return fmt.Errorf("examples.topic: %w", err)
		}
	}
	if err := p.Admin.Create(ctx, topicsOf(p, job)...); err != nil {
		return err
	}
	return CheckPolicies(ctx, p, rec, kept(p.Topics)...)
}

// topicsOf returns the topics that a job needs, with the settings that they are created with here.
func topicsOf(p *Pipeline, job Job) []kafkalog.Topic {
	topics := Topics(job)
	for i := range topics {
		if topics[i].Compact && p.Alone { // nobody else has to hear what was removed
			topics[i].Config["delete.retention.ms"] = "0"
			delete(topics[i].Config, "min.compaction.lag.ms")
		}
	}
	return topics
}

// Require creates the pipeline's topics if one of the needed topics is missing. A role without permission to create topics can
// work if the topics that it needs exist. It need not have access to the others.
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

// Clear empties statistics, residuals and weights, which only an unfinished run reads, and those who follow one. The embedded broker
// cleans its log by whole files, from time to time, and each run leaves a Gram matrix for each stage and partition.
func Clear(ctx context.Context, p *Pipeline, job Job) error {
	if err := p.Admin.Delete(ctx, p.Topics.Statistics, p.Topics.Residuals, p.Topics.Weights); err != nil {
		return err
	}
	return Create(ctx, p, &job)
}
