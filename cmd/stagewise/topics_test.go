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
	if err != nil {
		t.Fatal(err)
	}
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
			if err := log.Create(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
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

// What differs between topics and the configuration is listed, and changed by topics apply. It says what it can't change.
func TestTopicsFollowTheConfiguration(t *testing.T) {
	on, log := onBrokers(t)
	run := func(want []string, command ...string) {
		t.Helper()
		code, stdout, stderr := stagewise(append(command, on...)...)
		if code != exitDone || stderr != "" {
			t.Fatalf("%v: exit code %d: %s%s", command, code, stdout, stderr)
		}
		var differences []string
		for line := range strings.Lines(stdout) {
			if strings.Contains(line, " changed by ") || strings.Contains(line, " now, it was ") {
				differences = append(differences, strings.Join(strings.Fields(line), " "))
			}
		}
		if strings.Join(differences, "\n") != strings.Join(want, "\n") {
			t.Errorf("%v:\n%s\nwant:\n%s", command, strings.Join(differences, "\n"), strings.Join(want, "\n"))
		}
	}
	run(nil, "topics", "create")
	run(nil, "topics", "list")
	run(nil, "check")

	on = append(on, "--set", "topics.retention.examples=48h", "--set", "topics.segment=32MiB", "--set", "topics.replication=1",
		"--set", "examples.partitions=7")
	listed := []string{
		"blobs.examples partitions 4 7 changed by Kafka's own tools",
		"blobs.examples retention.ms -1 172800000 changed by topics apply",
	}
	applied := []string{"blobs.examples: retention.ms is 172800000 now, it was -1"}
	for _, topic := range []string{"examples", "forget", "plans", "quarantine", "residuals", "state", "statistics", "versions", "weights"} {
		listed = append(listed, "blobs."+topic+" segment.bytes 67108864 33554432 changed by topics apply")
		applied = append(applied, "blobs."+topic+": segment.bytes is 33554432 now, it was 67108864")
	}
	run(listed, "topics", "list")
	run(listed, "check")
	run(listed, "topics", "apply", "--dry-run")
	run(applied, "topics", "apply")
	configs, err := log.Configs(t.Context(), "blobs.examples", "blobs.plans")
	if err != nil || configs["blobs.examples"]["retention.ms"] != "172800000" ||
		configs["blobs.plans"]["segment.bytes"] != "33554432" || configs["blobs.plans"]["cleanup.policy"] != "compact" {
		t.Errorf("the topics have %v, %v", configs, err)
	}
	run(listed[:1], "topics", "list")
	run(nil, "topics", "apply")
}

// delete names the topics that it has deleted, and no others.
func TestTopicsDeleteNamesWhatItDeletes(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good})
	for _, command := range []struct{ name, want string }{
		{"delete", "blobs has no topics\n"},
		{"create", ""},
		{"delete", "blobs.examples no longer exists\nblobs.residuals no longer exists\nblobs.statistics no longer exists\nblobs.weights no longer exists\n" +
			"blobs.versions no longer exists\nblobs.state no longer exists\nblobs.plans no longer exists\nblobs.forget no longer " +
			"exists\nblobs.quarantine no longer exists\n"},
		{"delete", "blobs has no topics\n"},
	} {
		args := []string{"topics", command.name, "-c", "good.yaml"}
		if command.name == "delete" {
			args = append(args, "--yes")
		}
		code, stdout, stderr := stagewise(args...)
		if code != exitDone || command.want != "" && stdout+stderr != command.want {
			t.Errorf("%s: exit code %d: %s%s, expected %s", command.name, code, stdout, stderr, command.want)
		}
	}
}

// check works without brokers, and says that it can't compare the topics.
func TestCheckWithoutBrokers(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	code, stdout, stderr := stagewise("check", "-c", "good.yaml", "--set", "brokers=127.0.0.1:1")
	if code != exitDone || stderr != "" || !strings.Contains(stdout,
		"existing topics are not compared with the configuration: reach Kafka at 127.0.0.1:1: ") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}
