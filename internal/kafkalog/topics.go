package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic describes a topic to create, or an existing one.
type Topic struct {
	Name        string // the topic's name
	Partitions  int    // the number of partitions
	Replication int    // the replication factor; 0: see [Log.Create]
	Compact     bool   // Compact means that cleanup.policy contains compact
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
	var denied error // brokers check authorization before existence
	err = l.retry(ctx, "", "create topics", func(ctx context.Context) error {
		if len(missing) == 0 {
			return nil
		}
		request := kmsg.NewPtrCreateTopicsRequest()
		request.TimeoutMillis = int32(requestTimeout.Milliseconds())
		for _, t := range missing {
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = t.Name, int32(t.Partitions), int16(t.Replication)
			for name, value := range l.Settings(t) {
				topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value})
			}
			request.Topics = append(request.Topics, topic)
		}
		response, err := send[*kmsg.CreateTopicsResponse](ctx, l, controller, request)
		if err != nil {
			return err
		}
		for _, t := range response.Topics {
			switch err := failure(t.ErrorCode); {
			case err == nil, errors.Is(err, kafka.TopicAlreadyExists):
			case errors.Is(err, kafka.TopicAuthorizationFailed):
				denied = fmt.Errorf("%s: %w", t.Topic, err)
			default:
				return fmt.Errorf("%s: %w", t.Topic, withMessage(err, t.ErrorMessage))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if denied == nil { // all exist, so it may take long until each broker knows them
		for _, t := range topics {
			l.found.Store(t.Name, true)
		}
	}
	// Until every partition has a leader.
	err = l.retry(ctx, topics[0].Name, "find the leaders of "+strings.Join(names(topics), ", "), func(ctx context.Context) error {
		m, err := l.metadata(ctx, names(topics))
		if err != nil {
			return err
		}
		for _, t := range m.Topics {
			if err := failure(t.ErrorCode); err != nil {
				return err
			}
			for _, p := range t.Partitions {
				if err := failure(p.ErrorCode); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if denied != nil && errors.Is(err, ErrUnknownTopic) {
		return fmt.Errorf("create topics: %w", l.identity.Explain(denied))
	}
	return err
}

// withMessage adds a broker's explanation to its error.
func withMessage(err error, message *string) error {
	if text(message) == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, *message)
}

// Settings returns the settings with which a topic is created, by Kafka's names.
func (l *Log) Settings(t Topic) map[string]string {
	settings := map[string]string{}
	if l.Embedded() {
		settings["retention.ms"] = "-1" // kfake's default, a week, differs from that of clean
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

// Partitions returns the number of partitions of a topic, or an error that wraps ErrUnknownTopic.
func (l *Log) Partitions(ctx context.Context, topic string) (int, error) {
	var n int
	err := l.retry(ctx, topic, "count the partitions of "+topic, func(ctx context.Context) error {
		t, err := l.topic(ctx, topic)
		n = len(t.Partitions) // also those without a leader
		return err
	})
	return n, err
}

// Exists reports whether a topic exists, without waiting for one that is being created. It only waits if the brokers have
// no topics at all, because brokers that have just started know none for a while.
func (l *Log) Exists(ctx context.Context, topic string) (exists bool, err error) {
	err = l.retry(ctx, topic, "find "+topic, func(ctx context.Context) error {
		_, err := l.topic(ctx, topic)
		if exists = err == nil; !unknown(err) {
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
	if !exists {
		l.found.Delete(topic)
	}
	if errors.Is(err, ErrUnknownTopic) {
		return false, nil
	}
	return exists, err
}

// Topics returns the topics whose names begin with prefix, sorted by name, without Kafka's internal topics.
func (l *Log) Topics(ctx context.Context, prefix string) ([]Topic, error) {
	var topics []Topic
	err := l.retry(ctx, "", "list topics", func(ctx context.Context) error {
		topics = nil
		m, err := l.metadata(ctx, nil)
		if err != nil {
			return err
		}
		for _, t := range m.Topics {
			if !t.IsInternal && t.Topic != nil && strings.HasPrefix(*t.Topic, prefix) {
				found := Topic{Name: *t.Topic, Partitions: len(t.Partitions)}
				for _, p := range t.Partitions { // they may differ during a change
					found.Replication = max(found.Replication, len(p.Replicas))
				}
				topics = append(topics, found)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	configs, err := l.configs(ctx, names(topics)...)
	if err != nil {
		return nil, err
	}
	for i := range topics {
		t := &topics[i]
		t.Config = map[string]string{}
		for _, entry := range configs[t.Name] {
			if entry.Source == kmsg.ConfigSourceDynamicTopicConfig {
				t.Config[entry.Name] = text(entry.Value)
			}
			if entry.Name == "cleanup.policy" {
				t.Compact = strings.Contains(text(entry.Value), "compact")
			}
		}
	}
	slices.SortFunc(topics, func(a, b Topic) int { return strings.Compare(a.Name, b.Name) })
	return topics, nil
}

// text returns a string of a response, or "" if it is null.
func text(of *string) string {
	if of == nil {
		return ""
	}
	return *of
}

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
			configs[topic][entry.Name] = text(entry.Value)
		}
	}
	return configs, nil
}

func (l *Log) configs(ctx context.Context, topics ...string) (map[string][]kmsg.DescribeConfigsResponseResourceConfig, error) {
	configs := map[string][]kmsg.DescribeConfigsResponseResourceConfig{}
	if len(topics) == 0 {
		return configs, nil
	}
	request := kmsg.NewPtrDescribeConfigsRequest()
	for _, topic := range topics {
		request.Resources = append(request.Resources, kmsg.DescribeConfigsRequestResource{
			ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic,
		})
	}
	err := l.retry(ctx, topics[0], "describe topics", func(ctx context.Context) error {
		response, err := send[*kmsg.DescribeConfigsResponse](ctx, l, anyBroker, request)
		if err != nil {
			return err
		}
		for _, resource := range response.Resources {
			err := failure(resource.ErrorCode)
			// Brokers learn of a new topic one by one: a topic that was found before may be unknown to this broker.
			if _, found := l.found.Load(resource.ResourceName); unknown(err) && !found {
				err = ErrUnknownTopic
			}
			if err != nil {
				return fmt.Errorf("%s: %w", resource.ResourceName, withMessage(err, resource.ErrorMessage))
			}
			configs[resource.ResourceName] = resource.Configs
		}
		return nil
	})
	return configs, err
}

// Delete deletes topics and waits until they are gone. It ignores topics that do not exist.
func (l *Log) Delete(ctx context.Context, topics ...string) error {
	if len(topics) == 0 {
		return nil
	}
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TimeoutMillis, request.TopicNames = int32(requestTimeout.Milliseconds()), topics
	err := l.retry(ctx, "", "delete topics", func(ctx context.Context) error {
		response, err := send[*kmsg.DeleteTopicsResponse](ctx, l, controller, request)
		if err != nil {
			return err
		}
		for _, t := range response.Topics {
			if err := failure(t.ErrorCode); err != nil && !unknown(err) {
				return fmt.Errorf("%s: %w", text(t.Topic), err)
			}
		}
		m, err := l.metadata(ctx, topics)
		if err != nil {
			return err
		}
		for _, t := range m.Topics {
			if !unknown(failure(t.ErrorCode)) {
				return fmt.Errorf("delete %s: %w", *t.Topic, errPending)
			}
		}
		return nil
	})
	for _, topic := range topics {
		l.leaders.Delete(topic)
		l.found.Delete(topic)
	}
	return err
}

// AddPartitions makes sure that a topic has at least the given number of partitions, and waits until added ones can be
// used. It may be called concurrently. It needs no permission to alter a topic that has enough partitions.
func (l *Log) AddPartitions(ctx context.Context, topic string, partitions int) error {
	what := fmt.Sprintf("add partitions to %s, up to %d", topic, partitions)
	request := kmsg.NewPtrCreatePartitionsRequest()
	request.TimeoutMillis = int32(requestTimeout.Milliseconds())
	request.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: topic, Count: int32(partitions)}}
	asked := false
	err := l.retry(ctx, topic, what, func(ctx context.Context) error {
		t, err := l.topic(ctx, topic)
		if err != nil {
			return err
		}
		if len(t.Partitions) >= partitions {
			for _, p := range t.Partitions {
				if err := failure(p.ErrorCode); asked && err != nil {
					return err
				}
			}
			return nil
		}
		asked = true
		response, err := send[*kmsg.CreatePartitionsResponse](ctx, l, controller, request)
		if err != nil {
			return err
		}
		for _, t := range response.Topics {
			// Brokers return InvalidPartitionNumber for a topic that already has enough partitions. The next check decides.
			if err := failure(t.ErrorCode); err != nil && !errors.Is(err, kafka.InvalidPartitionNumber) {
				return withMessage(err, t.ErrorMessage)
			}
		}
		return errPending
	})
	if asked {
		l.leaders.Delete(topic) // the cached leaders lack the added partitions
	}
	return err
}

// Configure changes settings of an existing topic, by Kafka's names. Other settings are not changed.
func (l *Log) Configure(ctx context.Context, topic string, settings map[string]string) error {
	resource := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic}
	for name, value := range settings {
		resource.Configs = append(resource.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{
			Name: name, Value: &value, Op: kmsg.IncrementalAlterConfigOpSet,
		})
	}
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = append(request.Resources, resource)
	return l.retry(ctx, topic, "change the settings of "+topic, func(ctx context.Context) error {
		response, err := send[*kmsg.IncrementalAlterConfigsResponse](ctx, l, controller, request)
		if err != nil {
			return err
		}
		for _, r := range response.Resources {
			if err := failure(r.ErrorCode); err != nil {
				return withMessage(err, r.ErrorMessage)
			}
		}
		return nil
	})
}

// usualReplicas is the default replication factor: with it, one broker can fail while another is restarted.
const usualReplicas = 3

// ReplicationError means that too few brokers are up for the replication factor of topics.
type ReplicationError struct {
	// Topic is the first of the topics, and Others the number of further ones.
	Topic    string
	Others   int
	Replicas int // the replication factor
	// Chosen means that the replication factor was not configured, but derived from the size of the cluster.
	Chosen      bool
	Up, Brokers int // Up is the number of live brokers, and Brokers that of the cluster
}

// Error includes the resulting replication and the remedy.
func (e *ReplicationError) Error() string {
	topics, why := e.Topic, "as topics.replication says"
	if e.Others > 0 {
		topics = fmt.Sprintf("%s and %d more", e.Topic, e.Others)
	}
	if e.Chosen {
		why = fmt.Sprintf("because the cluster has %d brokers and topics.replication is 0", e.Brokers)
	}
	allow := "1"
	if e.Up > 1 {
		allow = fmt.Sprintf("%d or fewer", e.Up)
	}
	return fmt.Sprintf("%s would get %d replicas, %s, but only %d of %d brokers can be reached: start the others, or set "+
		"topics.replication to %s",
		topics, e.Replicas, why, e.Up, max(e.Up, e.Brokers), allow)
}

// missing returns the topics that do not exist, with their replication factors, or a *ReplicationError. Brokers that have
// just started may know neither the topics nor each other, so it waits briefly before it returns that error.
func (l *Log) missing(ctx context.Context, topics []Topic) (missing []Topic, err error) {
	var short *ReplicationError
	began := time.Now()
	err = l.attempt(ctx, "", "find out which topics exist", func(ctx context.Context) error {
		short = nil
		m, err := l.metadata(ctx, names(topics))
		if err != nil {
			return err
		}
		absent := map[string]bool{}
		for _, t := range m.Topics {
			// Without permission to describe a topic, one can't tell whether it exists.
			err := failure(t.ErrorCode)
			absent[*t.Topic] = unknown(err) || errors.Is(err, kafka.TopicAuthorizationFailed)
		}
		missing = slices.DeleteFunc(slices.Clone(topics), func(t Topic) bool { return !absent[t.Name] })
		if short, err = l.replicate(ctx, missing); short != nil && time.Since(began) < l.unknownTimeout {
			return fmt.Errorf("%w: %w", short, errPending)
		}
		return err
	})
	if err == nil && short != nil {
		err = short
	}
	return missing, err
}

// replicate sets the replication factor of topics to create. It returns a *ReplicationError if there are too few brokers
// for one.
func (l *Log) replicate(ctx context.Context, topics []Topic) (short *ReplicationError, err error) {
	if len(topics) == 0 {
		return nil, nil
	}
	up, all := 1, 1
	if !l.Embedded() {
		if up, all, err = l.brokers(ctx); err != nil {
			return nil, err
		}
	}
	for i := range topics {
		t := &topics[i]
		chosen := t.Replication == 0
		switch {
		case l.Embedded(), chosen && all < usualReplicas:
			t.Replication = 1
		case chosen:
			t.Replication = usualReplicas
		}
		switch {
		case t.Replication <= up:
		case short == nil:
			short = &ReplicationError{Topic: t.Name, Replicas: t.Replication, Chosen: chosen, Up: up, Brokers: all}
		default:
			short.Others++
		}
	}
	return short, nil
}

// brokers returns the number of live brokers, and of all known brokers of the cluster: live ones, registered ones that are
// down, which brokers since Kafka 4.0 report, and those with replicas of a topic.
func (l *Log) brokers(ctx context.Context) (up, all int, err error) {
	found, err := l.metadata(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	known := map[int32]bool{}
	for _, broker := range found.Brokers {
		known[broker.NodeID] = true
	}
	up = len(known)
	for _, topic := range found.Topics {
		for _, partition := range topic.Partitions {
			for _, broker := range partition.Replicas {
				known[broker] = true
			}
		}
	}
	const withBrokersDown = 2 // the first version of DescribeCluster with brokers that are down
	supported, err := send[*kmsg.ApiVersionsResponse](ctx, l, controller, kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		return 0, 0, err
	}
	request := kmsg.NewPtrDescribeClusterRequest()
	request.IncludeFencedBrokers, request.Version = true, withBrokersDown
	for _, api := range supported.ApiKeys {
		if api.ApiKey != request.Key() || api.MaxVersion < withBrokersDown {
			continue
		}
		response, err := send[*kmsg.DescribeClusterResponse](ctx, l, controller, request)
		if err != nil {
			return 0, 0, err
		}
		if err := failure(response.ErrorCode); err != nil {
			return 0, 0, err
		}
		for _, broker := range response.Brokers {
			known[broker.NodeID] = true
		}
	}
	return up, len(known), nil
}
