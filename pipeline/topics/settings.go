package topics

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// checkPolicy returns an error if a topic with these settings deletes messages by time or size.
func checkPolicy(topic string, config map[string]string) error {
	if !strings.Contains(config["cleanup.policy"], "delete") {
		return nil
	}
	var limits []string
	for _, name := range []string{"retention.ms", "retention.bytes"} {
		if _, limited := Limit(config[name]); limited {
			limits = append(limits, name+" "+config[name])
		}
	}
	if len(limits) == 0 {
		return nil
	}
	return fmt.Errorf("%s deletes messages that must stay (cleanup.policy %s, %s): `stagewise topics apply` sets the policy to compact",
		topic, config["cleanup.policy"], strings.Join(limits, ", "))
}

// kept returns the topics that only lose messages to compaction.
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
	Topic string
	// Name is the Kafka name of a setting, or partitions or replicas, which [Apply] can't change.
	Name string
	// Has is the value of the topic, and Configured the value with which it would be created.
	Has, Configured string
}

// Applies reports whether [Apply] can change it.
func (d Difference) Applies() bool { return d.Name != partitionsOf && d.Name != replicasOf }

// Settings are the existing topics of a pipeline.
type Settings struct {
	Topics      []kafkalog.Topic // by name
	Differences []Difference     // from the configuration, by topic and name
	Wrong       []error          // for topics that delete messages that must stay
}

// ReadSettings compares the existing topics of a job with its configuration. It excludes a topic of another pipeline that
// the job reads.
func ReadSettings(ctx context.Context, p *Pipeline, job Job) (*Settings, error) {
	found, err := p.Admin.Topics(ctx, job.Name+".")
	if err != nil {
		return nil, err
	}
	byName := map[string]kafkalog.Topic{}
	for _, t := range found {
		byName[t.Name] = t
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
	s := &Settings{}
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
	byTopic := map[string]map[string]string{}
	for _, d := range differences {
		if d.Applies() {
			if byTopic[d.Topic] == nil {
				byTopic[d.Topic] = map[string]string{}
			}
			byTopic[d.Topic][d.Name] = d.Configured
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		if err := cluster.Configure(ctx, topic, byTopic[topic]); err != nil {
			return applied, err
		}
		for _, d := range differences {
			if d.Topic == topic && d.Applies() {
				applied = append(applied, d)
			}
		}
	}
	return applied, nil
}
