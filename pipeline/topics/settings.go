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

// PolicyError says that a topic deletes messages by time or size although nothing else has what is on it.
type PolicyError struct {
	Topic  string
	Policy string // cleanup.policy
	Limits string // the settings after which it deletes
}

func (e *PolicyError) Error() string {
	return fmt.Sprintf("%s deletes messages that must stay (cleanup.policy %s, %s): "+
		"`stagewise topics apply` sets the policy to compact", e.Topic, e.Policy, e.Limits)
}

// checkPolicy returns a *PolicyError if a topic with these settings deletes messages by time or size.
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
	return &PolicyError{Topic: topic, Policy: config["cleanup.policy"], Limits: strings.Join(limits, ", ")}
}

// kept returns the topics that lose a message only to a later one with its key.
func kept(t protocol.Topics) []string { return []string{t.Versions, t.State, t.Plans, t.Forget} }

// CheckPolicies returns a *PolicyError if a topic deletes what must stay. If the settings can't be read for lack of permission, it
// records a notice.
func CheckPolicies(ctx context.Context, p *Pipeline, rec event.Recorder, topics ...string) error {
	configs, err := p.Admin.Configs(ctx, topics...)
	if errors.As(err, new(*kafkalog.AccessError)) {
		event.Notice(rec, "topic retention is not checked: %v", err)
		return nil
	}
	for _, topic := range topics {
		if err == nil {
			err = checkPolicy(topic, configs[topic])
		}
	}
	return err
}

// The names of differences that are no settings of Kafka.
const (
	partitionsOf = "partitions"
	replicasOf   = "replicas"
)

// Difference is something about a topic that is not as the configuration says.
type Difference struct {
	Topic string
	// Name is Kafka's name of a setting, or partitions or replicas, which [Apply] can't change.
	Name string
	// Has is what the topic has, and Configured what it would be created with.
	Has, Configured string
}

// Applies reports whether [Apply] can change it.
func (d Difference) Applies() bool { return d.Name != partitionsOf && d.Name != replicasOf }

// Settings are the topics of a pipeline that exist.
type Settings struct {
	Topics      []kafkalog.Topic // by name
	Differences []Difference     // from the configuration, by topic and name
	// Wrong are *[PolicyError]s: topics that delete what must stay.
	Wrong []error
}

// ReadSettings compares the topics of a job that exist with its configuration. A topic of another pipeline that the job reads is not
// among them.
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
		job.Examples.Partitions = examples.Partitions // the other topics follow them
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
		if has, ok := byName[want.Name]; ok { // the topics of a pipeline named a.b begin with a. too
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

// compare adds how a topic that exists, with these settings, differs from the one that would be created.
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
	want.Replication = has.Replication // its settings follow from that which it has
	settings := cluster.Settings(want)
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		differs(name, config[name], settings[name])
	}
}

// Apply makes the settings of topics those of the configuration, as far as these differences go. It returns those that it has applied.
func Apply(ctx context.Context, log *kafkalog.Log, differences []Difference) (applied []Difference, err error) {
	return Configure(ctx, log, differences)
}

// Configure makes settings of topics what the differences say that they should be, and returns those that it has changed.
func Configure(ctx context.Context, cluster admin, differences []Difference) (applied []Difference, err error) {
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
