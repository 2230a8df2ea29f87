package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// An examples topic keeps its number of partitions if the configuration changes later, and the residuals topic has as many.
func TestTopicKeepsItsPartitions(t *testing.T) {
	log, job := openEmbedded(t), newMultiStageJob(t)
	job.Examples.Partitions = 6
	first, _ := train(t, log, job)
	job.Examples.Partitions = 2
	second, _ := train(t, log, job)
	if first.WeightsDigest != second.WeightsDigest || second.Rows != 400 {
		t.Errorf("digest %s with 6 partitions, %s and %d rows with 2 in the configuration; expected the same digest and 400 rows",
			first.WeightsDigest, second.WeightsDigest, second.Rows)
	}
}

// Every topic that is created has its clean-up, its retention and the size of its files from the options, also the zero options.
func TestTopicsHaveTheirSettings(t *testing.T) {
	job := newMultiStageJob(t)
	job.Topics = topics.DefaultTopics()
	job.Topics.Replication = 2
	job.Topics.Segment, job.Topics.SegmentTime = 8<<20, 2*time.Minute
	job.Topics.Retention = topics.Retention{
		Examples: 3 * time.Hour, Residuals: 4 * time.Hour, Statistics: 5 * time.Hour, Weights: 6 * time.Hour, Tombstones: 7 * time.Hour,
	}
	want := map[string]string{"examples": "10800000", "residuals": "14400000", "statistics": "18000000", "weights": "21600000",
		"quarantine": "-1"}
	for _, topic := range topics.Topics(job) {
		name := strings.TrimPrefix(topic.Name, job.Name+".")
		if topic.Replication != 2 || topic.Config["segment.bytes"] != "8388608" || topic.Config["segment.ms"] != "120000" {
			t.Errorf("%s: %+v", name, topic)
		}
		if topic.Compact {
			if lag := topic.Config["min.compaction.lag.ms"]; name == "plans" && lag != "25200000" || name != "plans" && lag != "" {
				t.Errorf("%s: messages are compacted after %q ms", name, lag)
			}
			if topic.Config["delete.retention.ms"] != "25200000" || topic.Config["max.compaction.lag.ms"] != "25200000" || want[name] != "" {
				t.Errorf("%s: %+v", name, topic)
			}
			continue
		}
		if topic.Config["cleanup.policy"] != "delete" || topic.Config["retention.ms"] != want[name] || want[name] == "" {
			t.Errorf("%s: %+v, expected retention %s", name, topic, want[name])
		}
	}
	log := openEmbedded(t)
	zero := newMultiStageJob(t)
	noError(t, log.Create(t.Context(), topics.Topics(zero)...))
	for _, topic := range topics.Topics(zero) {
		configs := must(log.Configs(t.Context(), topic.Name))(t)
		for key, value := range topic.Config {
			if got := configs[topic.Name][key]; got != value {
				t.Errorf("%s: %s is %q, expected %q", topic.Name, key, got, value)
			}
		}
	}
}

// A run does not begin if a topic may delete its records while the run needs them.
func TestShortRetention(t *testing.T) {
	for name, topic := range map[string]kafkalog.Topic{
		"statistics": {Partitions: 4, Config: map[string]string{"retention.ms": "60000"}},
		"weights":    {Partitions: 1, Config: map[string]string{"retention.ms": "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), newMultiStageJob(t)
			topic.Name = job.Name + "." + name
			noError(t, log.Create(t.Context(), topic))
			err := trainError(t, log, job)
			if !strings.Contains(fmt.Sprint(err), topic.Name+" retains messages for only") {
				t.Errorf("got error %v, expected that %s has a short retention", err, topic.Name)
			}
		})
	}
}
