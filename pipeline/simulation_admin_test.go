package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// simAdmin is the cluster as one actor sees it.
type simAdmin struct {
	actorLog
	settings map[string]map[string]string // of topics
}

// simSettings returns the settings of topics.
func simSettings(job topics.Job) map[string]map[string]string {
	job.Name, job.Examples.Partitions = simName, simPartitions
	settings := map[string]map[string]string{}
	for _, topic := range topics.Topics(job) {
		settings[topic.Name] = simConfig(topic)
	}
	return settings
}

// simConfig returns the settings of a topic that is created.
func simConfig(topic kafkalog.Topic) map[string]string {
	config := maps.Clone(topic.Config)
	if topic.Compact {
		config["cleanup.policy"] = "compact"
	}
	return config
}

// errDenied is why the cluster does not tell the settings of topics.
var errDenied = errors.New("this process may not describe topics")

func (s simAdmin) Configs(ctx context.Context, topics ...string) (map[string]map[string]string, error) {
	if err := s.giveWay(ctx); err != nil {
		return nil, err
	}
	if s.chance(0.05) {
		s.count(denial)
		return nil, &kafkalog.AccessError{Err: errDenied, Check: "the ACLs"}
	}
	found := map[string]map[string]string{}
	for _, topic := range topics {
		if s.settings[topic] == nil {
			return nil, fmt.Errorf("describe %s: %w", topic, kafkalog.ErrUnknownTopic)
		}
		found[topic] = s.settings[topic]
	}
	return found, nil
}

func (s simAdmin) Create(ctx context.Context, topics ...kafkalog.Topic) error {
	if err := s.giveWay(ctx); err != nil {
		return err
	}
	for _, topic := range topics {
		for len(s.topics[topic.Name]) == 0 || len(s.topics[topic.Name]) < topic.Partitions && s.settings[topic.Name] == nil {
			s.addPartition(topic.Name, 0)
		}
		if isBeside(topic.Name) {
			s.settings[topic.Name] = simConfig(topic)
		}
	}
	return nil
}

func (s simAdmin) Delete(ctx context.Context, topics ...string) error {
	if err := s.giveWay(ctx); err != nil {
		return err
	}
	for _, topic := range topics {
		delete(s.topics, topic)
		if isBeside(topic) {
			delete(s.settings, topic)
		}
	}
	return nil
}

func (s simAdmin) Compact(ctx context.Context, topics ...string) error {
	if err := s.giveWay(ctx); err != nil {
		return err
	}
	for _, topic := range topics {
		for _, p := range s.topics[topic] {
			p.compact(p.end)
		}
	}
	return nil
}

func (s simAdmin) Topics(ctx context.Context, prefix string) (found []kafkalog.Topic, err error) {
	if err := s.giveWay(ctx); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(s.topics)) {
		if strings.HasPrefix(name, prefix) {
			found = append(found, kafkalog.Topic{Name: name, Partitions: len(s.topics[name]), Config: s.settings[name]})
		}
	}
	return found, nil
}

func (s simAdmin) OffsetsAt(ctx context.Context, topic string, at time.Time) (offsets []int64, err error) {
	if err := s.giveWay(ctx); err != nil {
		return nil, err
	}
	for _, p := range s.topics[topic] {
		offset := p.end
		for _, m := range slices.Backward(p.messages) {
			if !m.Time.Before(at) {
				offset = m.Offset
			}
		}
		offsets = append(offsets, offset)
	}
	return offsets, nil
}

func (s simAdmin) Embedded() bool { return false }

func (s simAdmin) DataDir() string { return "" }

func (s simAdmin) IsEmbedded(ctx context.Context) (bool, error) { return false, s.giveWay(ctx) }

func (s simAdmin) Members(ctx context.Context, group string) ([]string, error) {
	return []string{group}, s.giveWay(ctx)
}

func (s simAdmin) Settings(t kafkalog.Topic) map[string]string { return simConfig(t) }

func (s simAdmin) Configure(ctx context.Context, topic string, settings map[string]string) error {
	if err := s.giveWay(ctx); err != nil {
		return err
	}
	config := maps.Clone(s.settings[topic])
	maps.Copy(config, settings)
	s.settings[topic] = config
	return nil
}

// Join is not called: actors have their memberships from the simulation.
func (s simAdmin) Join(string, string) *kafkalog.Member {
	panic("an actor joins a group of the simulation")
}

// JoinGroups is not called either.
func (s simAdmin) JoinGroups(string, string, func(int) int) *kafkalog.Member {
	panic("an actor joins a group of the simulation")
}

// drawSetting changes how long the examples stay.
func (s *simulation) drawSetting(random *rand.Rand) {
	retention := s.retention * time.Duration(1+random.IntN(4)) / 2
	s.log.happen(setting, "retention.ms of %s is set to %v", s.topics.Examples, retention)
	config := maps.Clone(s.settings[s.topics.Examples])
	config["retention.ms"] = topics.Milliseconds(retention)
	if random.IntN(3) == 0 {
		config["retention.bytes"], config["segment.bytes"] = "1000", "100"
	}
	s.settings[s.topics.Examples] = config
}
