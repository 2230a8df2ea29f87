package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
)

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
			if !errors.As(err, new(*topics.RetentionError)) || !strings.Contains(err.Error(), topic.Name) {
				t.Errorf("got error %v, expected a *RetentionError that names %s", err, topic.Name)
			}
		})
	}
}

// No role begins if a topic deletes what must stay, whatever the limit is.
func TestDeletionOfWhatMustStay(t *testing.T) {
	for name, config := range map[string]map[string]string{
		"plans":    {"cleanup.policy": "compact,delete", "retention.ms": "31536000000"},
		"versions": {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "1000000000"},
		"state":    {"cleanup.policy": "delete", "retention.ms": "86400000"},
		"forget":   {"cleanup.policy": "delete", "retention.ms": "86400000"},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), newMultiStageJob(t)
			topic := kafkalog.Topic{Name: job.Name + "." + name, Partitions: 1, Config: config}
			noError(t, log.Create(t.Context(), topic))
			refuses := func(role string, err error) {
				t.Helper()
				if wrong, ok := errors.AsType[*topics.PolicyError](err); !ok || wrong.Topic != topic.Name {
					t.Errorf("%s: got error %v, expected a *PolicyError that names %s", role, err, topic.Name)
				}
			}
			refuses("train", trainError(t, log, job))
			_, err := Retrain(t.Context(), log, openBLAS(t), chainJob(t, "softmax"), true, event.Ignore{})
			refuses("run", err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if name != "forget" {
				refuses("solve", dispatch.Solve(ctx, log, openBLAS(t), job, event.Ignore{}))
			}
			if name == "plans" || name == "versions" {
				refuses("work", dispatch.Work(ctx, log, openBLAS(t), job, event.Ignore{}))
			}
		})
	}
	t.Run("without limits", func(t *testing.T) {
		log, job := openEmbedded(t), newMultiStageJob(t)
		unlimited := map[string]string{"cleanup.policy": "delete", "retention.ms": "-1"}
		noError(t, log.Create(t.Context(), kafkalog.Topic{Name: job.Name + ".versions", Partitions: 1, Config: unlimited}))
		train(t, log, job)
	})
}
