package main

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// onBrokers returns the flags of a configuration with brokers of its own, and a log on them.
func onBrokers(t *testing.T) (on []string, log *kafkalog.Log) {
	t.Helper()
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	noError(t, err)
	t.Cleanup(cluster.Close)
	if log, err = kafkalog.Open(t.Context(), kafkalog.Options{Brokers: cluster.ListenAddrs()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	return []string{"-c", "good.yaml", "--set", "brokers=" + cluster.ListenAddrs()[0]}, log
}

// A topic that deletes what must stay is an error wherever it would be used, until topics apply gives it the right policy.
func TestTopicThatDeletesWhatMustStayIsAnError(t *testing.T) {
	for _, name := range []string{"plans", "state", "versions", "forget"} {
		t.Run(name, func(t *testing.T) {
			on, log := onBrokers(t)
			topic := kafkalog.Topic{Name: "blobs." + name, Partitions: 1, Config: map[string]string{"cleanup.policy": "delete",
				"retention.ms": "604800000"}}
			noError(t, log.Create(t.Context(), topic))
			refused := topic.Name + " deletes messages that must stay (cleanup.policy delete, retention.ms 604800000): `stagewise " +
				"topics apply` sets the policy to compact"
			for _, command := range [][]string{{"check"}, {"topics", "create"}, {"topics", "list"}, {"ingest"}, {"train", "--quiet"},
				{"train", "--detach"}, {"run", "--until", "end", "--quiet"}} {
				if code, _, stderr := stagewise(append(command, on...)...); code != exitFailed || !strings.Contains(stderr, refused) {
					t.Errorf("%v: exit code %d: %s", command, code, stderr)
				}
			}
			if code, stdout, stderr := stagewise(append([]string{"topics", "apply"}, on...)...); code != exitDone ||
				!strings.Contains(stdout, topic.Name+": cleanup.policy is compact now, it was delete\n") {
				t.Fatalf("topics apply: exit code %d: %s%s", code, stdout, stderr)
			}
			for _, command := range [][]string{{"check"}, {"topics", "create"}, {"topics", "list"}, {"train", "--quiet"}} {
				if code, _, stderr := stagewise(append(command, on...)...); code != exitDone {
					t.Errorf("%v, after topics apply: exit code %d: %s", command, code, stderr)
				}
			}
		})
	}
}
