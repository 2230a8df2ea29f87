package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// onBrokers returns the flags of a configuration with brokers of its own, and a log on them.
func onBrokers(t *testing.T) (on []string, log *kafkalog.Log) {
	t.Helper()
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	cluster := assert.Must(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	log = assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: cluster.ListenAddrs()}))(t)
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
			assert.NoError(t, log.Create(t.Context(), topic))
			refused := topic.Name + " deletes messages that must stay (cleanup.policy delete, retention.ms 604800000): `stagewise " +
				"topics apply` sets the policy to compact"
			commands := [][]string{{"check"}, {"topics", "create"}, {"topics", "list"}, {"ingest"}, {"train", "--quiet"}, {"train", "--detach"},
				{"run", "--until", "end", "--quiet"}}
			switch name {
			case "plans", "versions":
				commands = append(commands, []string{"work"}, []string{"solve"})
			case "state":
				commands = append(commands, []string{"solve"})
			}
			for _, command := range commands {
				refuses(t, exitFailed, refused, append(command, on...)...)
			}
			stdout, _ := typed(t, exitDone, append([]string{"topics", "apply"}, on...)...)
			assert.True(t, strings.Contains(stdout, topic.Name+": cleanup.policy is compact now, it was delete\n"), "topics apply says %s", stdout)
			for _, command := range [][]string{{"check"}, {"topics", "create"}, {"topics", "list"}, {"train", "--quiet"}} {
				typed(t, exitDone, append(command, on...)...)
			}
		})
	}
}

// joined joins a group, and waits until it owns partitions.
func joined(log *kafkalog.Log, group, topic string) *kafkalog.Member {
	member := log.Join(group, topic)
	for len(member.Owned()) == 0 {
		<-member.Changed()
	}
	return member
}

// deleted runs topics delete with an answer, and returns the exit code and what it said.
func deleted(t *testing.T, answer string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd, out, err := program(t, append([]string{"topics", "delete"}, args...)...)
	cmd.Stdin = strings.NewReader(answer)
	_ = cmd.Run() // the exit code says the same
	return cmd.ProcessState.ExitCode(), out.String(), err.String()
}

// topics delete shows what goes and asks. It refuses while somebody works, unless it is forced.
func TestTopicsAreDeletedAfterAsking(t *testing.T) {
	on, log := onBrokers(t)
	// brokers that have no topic at all are asked for long
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: "other", Partitions: 1}))
	typed(t, exitDone, append([]string{"train", "--quiet"}, on...)...)
	exists := func() bool {
		t.Helper()
		return assert.Must(log.Exists(t.Context(), "blobs.versions"))(t)
	}
	for _, answer := range []string{"", "\n", "n\n", "perhaps\n"} {
		code, _, stderr := deleted(t, answer, on...)
		assert.Need(t, code == exitFailed && exists() && strings.Contains(stderr, "nothing is deleted; --yes deletes without confirmation"),
			"%q: exit code %d: %s", answer, code, stderr)
		assert.Need(t, regexp.MustCompile(`blobs\.examples +2 messages\n`).MatchString(stderr) && strings.Contains(stderr, "? (y/N)"),
			"it shows %s", stderr)
	}
	for role, group := range map[string]string{protocol.RoleRun: "blobs.run", protocol.RoleIngest: "blobs.ingest", protocol.RoleScore: "blobs.predictions"} {
		member := joined(log, group, "blobs.plans")
		code, _, stderr := deleted(t, "y\n", append(on, "--yes")...)
		assert.True(t, code == exitFailed && exists() && strings.Contains(stderr, "nothing is deleted: stagewise "+role+" on "),
			"while %s works: exit code %d: %s", role, code, stderr)
		assert.NoError(t, member.Leave())
	}
	code, stdout, stderr := deleted(t, "Yes\n", on...)
	assert.True(t, code == exitDone && !exists() && strings.Contains(stdout, "blobs.versions no longer exists\n") &&
		strings.Contains(stdout, "blobs.forget no longer exists") == strings.Contains(stderr, "blobs.forget"),
		"exit code %d: %s%s", code, stdout, stderr)
	typed(t, exitDone, append([]string{"topics", "create"}, on...)...)
	member := joined(log, "blobs.run", "blobs.plans")
	code, stdout, stderr = deleted(t, "", append(on, "--yes", "--force")...)
	assert.True(t, code == exitDone && strings.Contains(stdout, "blobs.plans no longer exists"),
		"by force: exit code %d: %s%s", code, stdout, stderr)
	err := member.Leave()
	assert.True(t, err == nil || strings.Contains(err.Error(), kafkalog.ErrUnknownTopic.Error()), "%v", err)
	code, stdout, stderr = deleted(t, "", on...)
	assert.True(t, code == exitDone && stdout == "" && strings.Contains(stderr, "blobs has no topics"),
		"a second time: exit code %d: %s%s", code, stdout, stderr)
}
