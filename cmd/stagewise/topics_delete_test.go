package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

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
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: "other", Partitions: 1}))
	typed(t, exitDone, append([]string{"train", "--quiet"}, on...)...)
	exists := func() bool {
		t.Helper()
		exists := valueOf(log.Exists(t.Context(), "blobs.versions"))(t)
		return exists
	}
	for _, answer := range []string{"", "\n", "n\n", "perhaps\n"} {
		code, _, stderr := deleted(t, answer, on...)
		if code != exitFailed || !exists() || !strings.Contains(stderr, "nothing is deleted; --yes deletes without confirmation") {
			t.Fatalf("%q: exit code %d: %s", answer, code, stderr)
		}
		if !regexp.MustCompile(`blobs\.examples +2 messages\n`).MatchString(stderr) || !strings.Contains(stderr, "? (y/N)") {
			t.Fatalf("it shows %s", stderr)
		}
	}
	scores := startCommand(t, append([]string{"score", "--log", "text", "--set", "metrics.listen=127.0.0.1:0"}, on...)...)
	scores.says("scored pipeline=blobs")
	if code, _, stderr := deleted(t, "y\n", append(on, "--yes")...); code != exitFailed || !exists() || !strings.Contains(stderr,
		"nothing is deleted: stagewise score on ") {
		t.Fatalf("while score works: exit code %d: %s", code, stderr)
	}
	scores.stop()
	code, stdout, stderr := deleted(t, "Yes\n", on...)
	if code != exitDone || exists() || !strings.Contains(stdout, "blobs.versions no longer exists\n") || strings.Contains(stdout,
		"blobs.forget no longer exists") != strings.Contains(stderr, "blobs.forget") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := deleted(t, "", on...); code != exitDone || stdout != "" || !strings.Contains(stderr, "blobs has no topics") {
		t.Errorf("a second time: exit code %d: %s%s", code, stdout, stderr)
	}
}

// Somebody who works does not keep who insists from deleting.
func TestTopicsAreDeletedByForce(t *testing.T) {
	for _, role := range []string{protocol.RoleRun, protocol.RoleIngest} {
		t.Run(role, func(t *testing.T) { deletedByForce(t, role) })
	}
}

func deletedByForce(t *testing.T, role string) {
	on, log := onBrokers(t)
	typed(t, exitDone, append([]string{"train", "--quiet"}, on...)...)
	group := log.Join("blobs."+role, "blobs.plans")
	defer func() {
		if err := group.Leave(); err != nil && !strings.Contains(err.Error(), kafkalog.ErrUnknownTopic.Error()) {
			t.Error(err)
		}
	}()
	for len(group.Owned()) == 0 {
		<-group.Changed()
	}
	if code, _, stderr := deleted(t, "", append(on, "--yes")...); code != exitFailed || !strings.Contains(stderr,
		"nothing is deleted: stagewise "+role+" on ") {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if code, stdout, stderr := deleted(t, "", append(on, "--yes", "--force")...); code != exitDone || !strings.Contains(stdout,
		"blobs.plans no longer exists") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}
