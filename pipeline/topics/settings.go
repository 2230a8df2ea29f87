package topics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// checkPolicy returns an error if a topic with these settings deletes messages by time or size.
func checkPolicy(topic string, config map[string]string) error {
	var limits []string
	for _, name := range []string{"retention.ms", "retention.bytes"} {
		if _, limited := Limit(config[name]); limited && strings.Contains(config["cleanup.policy"], "delete") {
			limits = append(limits, name+" "+config[name])
		}
	}
	if len(limits) == 0 {
		return nil
	}
	return fmt.Errorf("%s deletes messages that must stay (cleanup.policy %s, %s): `stagewise topics apply` sets the policy to compact",
		topic, config["cleanup.policy"], strings.Join(limits, ", "))
}

// kept returns the topics that lose messages only to compaction.
func kept(t protocol.Topics) []string { return []string{t.Versions, t.State, t.Plans, t.Forget} }

// CheckPolicies returns an error if a topic deletes messages that must stay. Without permission to read the settings, it records a notice.
func CheckPolicies(ctx context.Context, p *Pipeline, rec event.Recorder, topics ...string) error {
	_, err := checkedConfigs(ctx, p, rec, topics)
	return err
}

// checkedConfigs returns the settings of topics that must keep their messages, and of others; nil without permission to read them.
func checkedConfigs(ctx context.Context, p *Pipeline, rec event.Recorder, keep []string,
	others ...string) (map[string]map[string]string, error) {
	configs, err := p.Admin.Configs(ctx, append(keep, others...)...)
	if errors.As(err, new(*kafkalog.AccessError)) {
		event.Notice(rec, "topic retention is not checked: %v", err)
		return nil, nil
	}
	for _, topic := range keep {
		if err == nil {
			err = checkPolicy(topic, configs[topic])
		}
	}
	return configs, err
}

// The names of differences that are not Kafka settings.
const (
	partitionsOf = "partitions"
	replicasOf   = "replicas"
)

// Difference is a difference between a topic and the configuration.
type Difference struct {
	Topic           string
	Name            string // the Kafka name of a setting, or partitions or replicas, which [Apply] can't change
	Has, Configured string // Has is the value of the topic, and Configured the value with which it would be created
}

// Applies reports whether [Apply] can change it.
func (d Difference) Applies() bool { return d.Name != partitionsOf && d.Name != replicasOf }

// Settings are the existing topics of a pipeline.
type Settings struct {
	Topics      []kafkalog.Topic // by name
	Differences []Difference     // from the configuration, by topic and name
	Wrong       []error          // for topics that delete messages that must stay
}

// UniqueLength is the length of the unique word in the names of topics beside those of a pipeline.
const UniqueLength = 8

// IsBeside reports whether a topic is of a search or a reproduction beside the named pipeline. A killed process leaves such topics.
func IsBeside(name, topic string) bool {
	beside, ok := strings.CutPrefix(topic, name+".search-")
	if !ok {
		beside, ok = strings.CutPrefix(topic, name+".verify-")
	}
	return ok && strings.IndexByte(beside, '.') == UniqueLength
}

// ReadSettings compares the existing topics of a job with its configuration, and lists those beside them. It excludes a topic of
// another pipeline that the job reads.
func ReadSettings(ctx context.Context, p *Pipeline, job Job) (*Settings, error) {
	found, err := p.Admin.Topics(ctx, job.Name+".")
	if err != nil {
		return nil, err
	}
	s, byName := &Settings{}, map[string]kafkalog.Topic{}
	for _, t := range found {
		if byName[t.Name] = t; IsBeside(job.Name, t.Name) {
			s.Topics = append(s.Topics, t)
		}
	}
	configured := job.Examples.Partitions
	if examples, ok := byName[p.Topics.Examples]; ok {
		job.Examples.Partitions = examples.Partitions // the other topics depend on them
	}
	if topic := job.Examples.Topic; topic != "" {
		if job.Examples.Partitions, err = p.Log.Partitions(ctx, topic); err != nil {
			return nil, fmt.Errorf("examples.topic: %w", err)
		}
	}
	wanted := append(topicsOf(p, job), PredictionsTopic(job, p.Topics.Predictions, byName[p.Topics.Predictions].Partitions))
	if wanted[0].Name == p.Topics.Examples {
		wanted[0].Partitions = configured
	}
	var names []string
	for _, want := range wanted {
		if has, ok := byName[want.Name]; ok { // a pipeline named a.b has the same prefix
			s.Topics = append(s.Topics, has)
			names = append(names, want.Name)
		}
	}
	configs, err := p.Admin.Configs(ctx, names...)
	if err != nil {
		return nil, err
	}
	for _, want := range wanted {
		if has, ok := byName[want.Name]; ok {
			s.compare(p.Admin, want, has, configs[want.Name])
		}
	}
	for _, topic := range kept(p.Topics) {
		if err := checkPolicy(topic, configs[topic]); err != nil {
			s.Wrong = append(s.Wrong, err)
		}
	}
	slices.SortFunc(s.Topics, func(a, b kafkalog.Topic) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Differences, func(a, b Difference) int { return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Name, b.Name)) })
	return s, nil
}

// compare adds the differences between an existing topic, with these settings, and the one that would be created.
func (s *Settings) compare(cluster admin, want, has kafkalog.Topic, config map[string]string) {
	differs := func(name, has, configured string) {
		if has != configured {
			s.Differences = append(s.Differences, Difference{want.Name, name, has, configured})
		}
	}
	differs(partitionsOf, strconv.Itoa(has.Partitions), strconv.Itoa(want.Partitions))
	if want.Replication > 0 && !cluster.Embedded() {
		differs(replicasOf, strconv.Itoa(has.Replication), strconv.Itoa(want.Replication))
	}
	want.Replication = has.Replication // its settings depend on the replication factor
	settings := cluster.Settings(want)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		differs(name, config[name], settings[name])
	}
}

// Apply changes the settings of topics to those of the configuration for the given differences. It returns the applied
// ones.
func Apply(ctx context.Context, cluster admin, differences []Difference) (applied []Difference, err error) {
	byTopic := map[string][]Difference{}
	for _, d := range differences {
		if d.Applies() {
			byTopic[d.Topic] = append(byTopic[d.Topic], d)
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		settings := map[string]string{}
		for _, d := range byTopic[topic] {
			settings[d.Name] = d.Configured
		}
		if err := cluster.Configure(ctx, topic, settings); err != nil {
			return applied, err
		}
		applied = append(applied, byTopic[topic]...)
	}
	return applied, nil
}

// minRetention is the minimum retention of a run's own records. With a shorter one, a topic may delete records that the
// run still has to read.
const minRetention = time.Hour

// ExamplesRetention is the retention settings of the examples topic. The zero value is unlimited.
type ExamplesRetention struct {
	Time    time.Duration // 0: unlimited
	Bytes   int64         // of a partition; 0: unlimited
	segment int64         // segment size, the unit of deletion
}

// CheckRetention returns the retention of the examples, and an error if a topic may lose records of a run during the run, or deletes
// records that must stay. Without permission to read the settings, it records a notice and returns the zero retention.
func CheckRetention(ctx context.Context, p *Pipeline, rec event.Recorder) (examples ExamplesRetention, err error) {
	t := p.Topics
	configs, err := checkedConfigs(ctx, p, rec, kept(t), t.Examples, t.Residuals, t.Statistics, t.Weights)
	if err != nil || configs == nil {
		return examples, err
	}
	for _, topic := range []string{t.Residuals, t.Statistics, t.Weights} {
		if r := RetentionOf(configs[topic]); r.Time > 0 && r.Time < minRetention {
			return examples, fmt.Errorf("%s retains messages for only %v, but a run needs them for at least %v: increase retention.ms", topic,
				r.Time, minRetention)
		}
	}
	examples = RetentionOf(configs[t.Examples])
	if p.Remade == nil {
		return examples, nil
	}
	source, archived := p.Remade.Source()
	if archived {
		return ExamplesRetention{}, nil
	}
	if configs, err = p.Admin.Configs(ctx, source); errors.As(err, new(*kafkalog.AccessError)) {
		event.Notice(rec, "retention of %s is not checked: %v", source, err)
		return ExamplesRetention{}, nil
	}
	if strings.Contains(configs[source]["cleanup.policy"], "compact") {
		event.Notice(rec, "%s is compacted: examples that expire can't be made again without the messages that it has lost. Set "+
			"topics.retention.examples: 0", source)
	}
	// A row is lost only when the topic with the longer retention has deleted its messages.
	if r := RetentionOf(configs[source]); r.Time == 0 || r.Time > examples.Time {
		examples = r
	}
	return examples, err
}

// WeightsRetention returns the retention of the weights topic; 0: unlimited. Without permission to read the settings, it
// returns the minimum with which runs can be submitted.
func WeightsRetention(ctx context.Context, p *Pipeline) (time.Duration, error) {
	configs, err := p.Admin.Configs(ctx, p.Topics.Weights)
	if errors.As(err, new(*kafkalog.AccessError)) {
		return minRetention, nil
	}
	return RetentionOf(configs[p.Topics.Weights]).Time, err
}

// RetentionOf returns the retention in a topic's settings.
func RetentionOf(config map[string]string) (r ExamplesRetention) {
	if !strings.Contains(config["cleanup.policy"], "delete") {
		return r
	}
	if ms, known := Limit(config["retention.ms"]); known && ms < math.MaxInt64/int64(time.Millisecond) {
		r.Time = max(time.Duration(ms)*time.Millisecond, 1)
	}
	r.Bytes, _ = Limit(config["retention.bytes"])
	r.segment, _ = Limit(config["segment.bytes"])
	return r
}

// Limit parses a limit in a topic's settings. known is false if there is no limit, or the setting is not a number.
func Limit(text string) (n int64, known bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, false
	}
	return n, true
}

// Staying removes from the bounds of the examples topic, at the start of each partition, the offsets that retention may
// delete before a run that starts now has ended.
//
// A partition with a size limit loses whole segments as messages are written. Its size is unknown, so Staying removes
// nothing before the first loss. From then on the partition has about r.bytes: it may lose as many messages as arrived in
// the last hour, and the rest of their segment.
func Staying(ctx context.Context, p *Pipeline, r ExamplesRetention, bounds []coverage.Span) ([]coverage.Span, error) {
	cut := append([]coverage.Span(nil), bounds...)
	if r.Time > 0 {
		// A run over a topic with a retention of minutes has to be short.
		old, err := p.Log.Before(ctx, p.Topics.Examples, r.Time-min(minRetention, r.Time/4))
		if err != nil {
			return nil, err
		}
		for n := range cut {
			cut[n].From = min(max(cut[n].From, old[n]), cut[n].To)
		}
	}
	if r.Bytes == 0 {
		return cut, nil
	}
	recent, err := p.Log.Before(ctx, p.Topics.Examples, minRetention)
	if err != nil {
		return nil, err
	}
	for n, all := range bounds {
		if all.From == 0 || all.Empty() {
			continue
		}
		held := float64(all.To - all.From)
		lost := float64(all.To-min(max(recent[n], all.From), all.To)) + held*min(float64(r.segment)/float64(max(r.Bytes, 1)), 1)
		cut[n].From = min(max(cut[n].From, all.From+int64(math.Ceil(lost))), cut[n].To)
	}
	return cut, nil
}
