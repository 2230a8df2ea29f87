package pipeline

import (
	"errors"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// A run does not begin if a topic may delete or compact messages while the run needs them.
func TestShortRetention(t *testing.T) {
	for name, topic := range map[string]kafkalog.Topic{
		"examples": {Partitions: 4, Config: map[string]string{"retention.ms": "60000"}},
		"weights":  {Partitions: 1, Compact: true, Config: map[string]string{"min.compaction.lag.ms": "60000"}},
		"plans":    {Partitions: 1, Config: map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "60000"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), newMultiStageJob(t)
			topic.Name = job.Name + "." + name
			if err := log.Create(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
			err := trainError(t, log, job)
			if !errors.As(err, new(*RetentionError)) && !errors.As(err, new(*CompactionError)) || !strings.Contains(err.Error(), topic.Name) {
				t.Errorf("got error %v, expected a retention or compaction error that names %s", err, topic.Name)
			}
		})
	}
}
