package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go"
)

// Topic describes a topic to create, or an existing one.
type Topic struct {
	// Name is the topic's name.
	Name string
	// Partitions is the number of partitions.
	Partitions int
	// Replication is the replication factor; 0: see [Log.Create].
	Replication int
	// Compact means that cleanup.policy contains compact.
	Compact bool
	// Config is the settings that differ from the brokers' defaults, by Kafka's names (retention.ms and so on).
	Config map[string]string
}

// Create creates topics that do not exist and waits until they can be used. It does not change existing topics, and needs
// no permission to create for them. Without [Topic.Replication], the replication factor is three if the cluster has three
// brokers or more, and otherwise one. If fewer brokers are up, Create creates nothing and returns a *[ReplicationError].
// With a replication factor of three or more, min.insync.replicas is two. On the embedded broker there is one replica, and
// retention is unlimited unless configured.
func (l *Log) Create(ctx context.Context, topics ...Topic) error {
	if len(topics) == 0 {
		return nil
	}
	missing, err := l.missing(ctx, topics)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	request := &kafka.CreateTopicsRequest{}
	for _, t := range missing {
		request.Topics = append(request.Topics, l.creation(t))
	}
	var denied error // brokers check authorization before existence
	err = l.retry(ctx, "create topics", func(ctx context.Context) error {
		if len(missing) == 0 {
			return nil
		}
		response, err := l.client.CreateTopics(ctx, request)
		if err != nil {
			return err
		}
		for _, t := range missing {
			switch err := response.Errors[t.Name]; {
			case err == nil, errors.Is(err, kafka.TopicAlreadyExists):
			case errors.Is(err, kafka.TopicAuthorizationFailed):
				denied = fmt.Errorf("%s: %w", t.Name, err)
			default:
				return fmt.Errorf("%s: %w", t.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	if denied == nil { // all exist, so it may take long until each broker knows them
		for _, t := range topics {
			l.found.Store(t.Name, true)
		}
	}
	if err := l.awaitLeaders(ctx, names(topics)); err != nil {
		if denied != nil && errors.Is(err, ErrUnknownTopic) {
			return fmt.Errorf("create topics: %w", l.identity.Explain(denied))
		}
		return fmt.Errorf("wait for topics: %w", err)
	}
	for _, t := range topics {
		l.found.Store(t.Name, true)
	}
	return nil
}

func (l *Log) creation(t Topic) kafka.TopicConfig {
	c := kafka.TopicConfig{Topic: t.Name, NumPartitions: t.Partitions, ReplicationFactor: t.Replication}
	for name, value := range l.Settings(t) {
		c.ConfigEntries = append(c.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	return c
}

// Settings returns the settings with which a topic is created, by Kafka's names.
func (l *Log) Settings(t Topic) map[string]string {
	settings := map[string]string{}
	if l.Embedded() {
		settings["retention.ms"] = "-1" // kfake's default, a week, differs from that of Clean
	}
	if t.Replication >= 3 {
		settings["min.insync.replicas"] = "2"
	}
	if t.Compact {
		settings["cleanup.policy"] = "compact"
	}
	maps.Copy(settings, t.Config)
	return settings
}

func names(topics []Topic) []string {
	list := make([]string, len(topics))
	for i, t := range topics {
		list[i] = t.Name
	}
	return list
}

// awaitLeaders waits until every partition of the topics has a leader.
func (l *Log) awaitLeaders(ctx context.Context, topics []string) error {
	return l.retryOn(ctx, topics[0], "find the leaders of "+strings.Join(topics, ", "), func(ctx context.Context) error {
		m, err := l.metadata(ctx, topics)
		if err != nil {
			return err
		}
		for _, t := range m.Topics {
			if t.Error != nil {
				return t.Error
			}
			for _, p := range t.Partitions {
				if p.Error != nil {
					return p.Error
				}
			}
		}
		return nil
	})
}

// Partitions returns the number of partitions of a topic, or an error that wraps ErrUnknownTopic.
func (l *Log) Partitions(ctx context.Context, topic string) (int, error) {
	var n int
	err := l.retryOn(ctx, topic, "count the partitions of "+topic, func(ctx context.Context) error {
		m, err := l.metadata(ctx, []string{topic})
		if err != nil {
			return err
		}
		n = len(m.Topics[0].Partitions)
		return m.Topics[0].Error // count leaderless partitions too
	})
	if err != nil {
		return 0, fmt.Errorf("count the partitions of %s: %w", topic, err)
	}
	return n, nil
}

// Exists reports whether a topic exists, without waiting for one that is being created. It only waits if the brokers have
// no topics at all, because brokers that have just started know none for a while.
func (l *Log) Exists(ctx context.Context, topic string) (exists bool, err error) {
	err = l.retryOn(ctx, topic, "find "+topic, func(ctx context.Context) error {
		m, err := l.metadata(ctx, []string{topic})
		if err != nil {
			return err
		}
		if err = m.Topics[0].Error; !unknown(err) {
			exists = err == nil
			return err
		}
		all, failure := l.metadata(ctx, nil)
		if failure != nil {
			return failure
		}
		if len(all.Topics) > 0 || l.Embedded() {
			return nil
		}
		return err
	})
	if errors.Is(err, ErrUnknownTopic) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find %s: %w", topic, err)
	}
	return exists, nil
}

// Topics returns the topics whose names begin with prefix, sorted by name, without Kafka's internal topics.
func (l *Log) Topics(ctx context.Context, prefix string) ([]Topic, error) {
	var topics []Topic
	err := l.retry(ctx, "list topics", func(ctx context.Context) error {
		topics = nil
		m, err := l.metadata(ctx, nil)
		if err != nil {
			return err
		}
		for _, t := range m.Topics {
			if !t.Internal && strings.HasPrefix(t.Name, prefix) {
				found := Topic{Name: t.Name, Partitions: len(t.Partitions)}
				for _, p := range t.Partitions { // they may differ during a change
					found.Replication = max(found.Replication, len(p.Replicas))
				}
				topics = append(topics, found)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	configs, err := l.configs(ctx, names(topics)...)
	if err != nil {
		return nil, err
	}
	for i := range topics {
		t := &topics[i]
		t.Config = map[string]string{}
		for _, entry := range configs[t.Name] {
			if entry.ConfigSource == topicConfig {
				t.Config[entry.ConfigName] = entry.ConfigValue
			}
			if entry.ConfigName == "cleanup.policy" {
				t.Compact = strings.Contains(entry.ConfigValue, "compact")
			}
		}
	}
	slices.SortFunc(topics, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	return topics, nil
}

// topicConfig is the source of a setting that was set on the topic itself (DYNAMIC_TOPIC_CONFIG in Kafka's ConfigEntry).
const topicConfig = 1

// Configs returns the effective settings of topics, including the brokers' defaults: for each topic, by Kafka's names. It
// sends one request.
func (l *Log) Configs(ctx context.Context, topics ...string) (map[string]map[string]string, error) {
	found, err := l.configs(ctx, topics...)
	if err != nil {
		return nil, err
	}
	configs := map[string]map[string]string{}
	for topic, entries := range found {
		configs[topic] = map[string]string{}
		for _, entry := range entries {
			configs[topic][entry.ConfigName] = entry.ConfigValue
		}
	}
	return configs, nil
}

func (l *Log) configs(ctx context.Context, topics ...string) (map[string][]kafka.DescribeConfigResponseConfigEntry, error) {
	configs := map[string][]kafka.DescribeConfigResponseConfigEntry{}
	if len(topics) == 0 {
		return configs, nil
	}
	request := &kafka.DescribeConfigsRequest{}
	for _, topic := range topics {
		request.Resources = append(request.Resources, kafka.DescribeConfigRequestResource{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
		})
	}
	err := l.retryOn(ctx, topics[0], "describe topics", func(ctx context.Context) error {
		response, err := l.client.DescribeConfigs(ctx, request)
		if err != nil {
			return err
		}
		for _, resource := range response.Resources {
			// Brokers learn of a new topic one by one: a topic that was found before may be unknown to this broker.
			if _, found := l.found.Load(resource.ResourceName); unknown(resource.Error) && !found {
				return fmt.Errorf("%s: %w", resource.ResourceName, ErrUnknownTopic)
			}
			if resource.Error != nil {
				return fmt.Errorf("%s: %w", resource.ResourceName, resource.Error)
			}
			configs[resource.ResourceName] = resource.ConfigEntries
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", err)
	}
	return configs, nil
}

// Delete deletes topics and waits until they are gone. It ignores topics that do not exist.
func (l *Log) Delete(ctx context.Context, topics ...string) error {
	if len(topics) == 0 {
		return nil
	}
	err := l.retry(ctx, "delete topics", func(ctx context.Context) error {
		response, err := l.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: topics})
		if err != nil {
			return err
		}
		for topic, err := range response.Errors {
			if err != nil && !unknown(err) {
				return fmt.Errorf("%s: %w", topic, err)
			}
		}
		m, err := l.metadata(ctx, topics)
		if err != nil {
			return err
		}
		for _, t := range m.Topics {
			if !unknown(t.Error) {
				return fmt.Errorf("delete %s: %w", t.Name, errPending)
			}
		}
		return nil
	})
	for _, topic := range topics {
		l.cluster.Forget(topic)
		l.found.Delete(topic)
		if l.tail != nil {
			l.tail.deleted(topic)
		}
	}
	if err != nil {
		return fmt.Errorf("delete topics: %w", err)
	}
	return nil
}
