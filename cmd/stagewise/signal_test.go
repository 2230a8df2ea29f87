package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// A command that a signal has interrupted ends with 128 and the number of the signal, and says that it goes on when it is run again. A
// service ends with 0 after SIGTERM, by which services are ended, whatever it is doing.
func TestSignals(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(30, 2), "clicks.yaml": clicked})
	log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"}))(t)
	noError(t, errors.Join(log.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 1}), log.Close()))
	trained(t)
	for _, test := range []struct {
		command, begun string // what a line has once it is under way
		service        bool
	}{
		{"train -c good.yaml --set stages.0.repeat=5000", "run ", false}, // whose first stages have begun
		{"run -c good.yaml --set metrics.listen= --set data_dir=run", "blobs on", true},
		{"ingest -c clicks.yaml --set metrics.listen=", "following topic events until interrupted", true},
		{"ingest -c clicks.yaml --set metrics.listen= --log text", "msg=follows pipeline=clicks topic=events", true},
		{"score -c good.yaml --log text", "msg=answers pipeline=blobs", true},
	} {
		for signal, want := range map[os.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitTerminated} {
			if test.service && signal == syscall.SIGTERM {
				want = exitDone
			}
			cmd, _, _ := program(t, strings.Fields(test.command)...)
			lines, wait := started(t, cmd)
			last, begun := "", false
			for lines.Scan() {
				if last = lines.Text(); strings.Contains(last, test.begun) && !begun {
					begun = true
					noError(t, cmd.Process.Signal(signal))
				}
			}
			wait()
			resumes := strings.HasSuffix(last, "; to resume, run the same command again") // with run, the service does that
			if code := cmd.ProcessState.ExitCode(); code != want || resumes != (want != exitDone && !strings.HasPrefix(test.command, "run ")) {
				t.Errorf("%s, %v: exit code %d, expected %d: %s", test.command, signal, code, want, last)
			}
		}
	}
	// Whoever waits for the standard input can be interrupted too.
	cmd, stdout, stderr := program(t, "train", "-c", "good.yaml", "--set", "examples.train=-", "--set", "examples.format=csv")
	input := valueOf(cmd.StdinPipe())(t)
	noError(t, cmd.Start())
	valueOf(io.WriteString(input, strings.Repeat("red,1,2,3\n", 20_000)))(t) // more than a pipe holds: it is being read
	noError(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait() // the exit code is checked below
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || stdout.Len() > 0 {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}
