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
		return valueOf(log.Exists(t.Context(), "blobs.versions"))(t)
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
	for role, group := range map[string]string{protocol.RoleRun: "blobs.run", protocol.RoleIngest: "blobs.ingest", protocol.RoleScore: "blobs.predictions"} {
		member := log.Join(group, "blobs.plans")
		for len(member.Owned()) == 0 {
			<-member.Changed()
		}
		if code, _, stderr := deleted(t, "y\n", append(on, "--yes")...); code != exitFailed || !exists() || !strings.Contains(stderr,
			"nothing is deleted: stagewise "+role+" on ") {
			t.Errorf("while %s works: exit code %d: %s", role, code, stderr)
		}
		noError(t, member.Leave())
	}
	code, stdout, stderr := deleted(t, "Yes\n", on...)
	if code != exitDone || exists() || !strings.Contains(stdout, "blobs.versions no longer exists\n") || strings.Contains(stdout,
		"blobs.forget no longer exists") != strings.Contains(stderr, "blobs.forget") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	typed(t, exitDone, append([]string{"topics", "create"}, on...)...)
	member := log.Join("blobs.run", "blobs.plans")
	for len(member.Owned()) == 0 {
		<-member.Changed()
	}
	if code, stdout, stderr := deleted(t, "", append(on, "--yes", "--force")...); code != exitDone || !strings.Contains(stdout,
		"blobs.plans no longer exists") {
		t.Errorf("by force: exit code %d: %s%s", code, stdout, stderr)
	}
	if err := member.Leave(); err != nil && !strings.Contains(err.Error(), kafkalog.ErrUnknownTopic.Error()) {
		t.Error(err)
	}
	if code, stdout, stderr := deleted(t, "", on...); code != exitDone || stdout != "" || !strings.Contains(stderr, "blobs has no topics") {
		t.Errorf("a second time: exit code %d: %s%s", code, stdout, stderr)
	}
}
