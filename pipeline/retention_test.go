package pipeline

import (
	"errors"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// A run does not begin if a topic may delete its records while the run needs them.
func TestShortRetention(t *testing.T) {
	for name, topic := range map[string]kafkalog.Topic{
		"statistics": {Partitions: 4, Config: map[string]string{"retention.ms": "60000"}},
		"weights":    {Partitions: 1, Config: map[string]string{"retention.ms": "0"}},
		"plans":      {Partitions: 1, Config: map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "60000"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), newMultiStageJob(t)
			topic.Name = job.Name + "." + name
			if err := log.Create(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
			err := trainError(t, log, job)
			if !errors.As(err, new(*RetentionError)) || !strings.Contains(err.Error(), topic.Name) {
				t.Errorf("got error %v, expected a *RetentionError that names %s", err, topic.Name)
			}
		})
	}
}
