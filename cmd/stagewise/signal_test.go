package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// A command that a signal has interrupted ends with 128 and the number of the signal, says so, and goes on when it is run again.
func TestSignals(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(30, 2)})
	for signal, want := range map[os.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitTerminated} {
		// A run of so many stages is still under way when its first line appears.
		cmd, _, _ := program(t, "train", "-c", "good.yaml", "--set", "stages.0.repeat=5000")
		lines, wait := started(t, cmd)
		var all bytes.Buffer
		for lines.Scan() {
			all.WriteString(lines.Text() + "\n")
			if strings.HasPrefix(lines.Text(), "run ") {
				noError(t, cmd.Process.Signal(signal))
			}
		}
		wait()
		if code := cmd.ProcessState.ExitCode(); code != want || !strings.HasSuffix(all.String(),
			"stagewise: interrupted; to resume, run the same command again\n") {
			t.Errorf("%v: exit code %d, expected %d: %s", signal, code, want, all.String())
		}
	}
	// Whoever waits for the standard input can be interrupted too.
	cmd, stdout, stderr := program(t, "train", "-c", "good.yaml", "--set", "examples.train=-", "--set", "examples.format=csv")
	input := valueOf(cmd.StdinPipe())(t)
	noError(t, cmd.Start())
	if _, err := io.WriteString(input, strings.Repeat("red,1,2,3\n", 20_000)); err != nil { // more than a pipe holds: it is being read
		t.Fatal(err)
	}
	noError(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait() // the exit code is checked below
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || stdout.Len() > 0 {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// A service ends with 0 after SIGTERM, by which services are ended, and with 130 after Ctrl-C, whatever it is doing.
func TestServicesEndBySIGTERM(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(30, 2), "clicks.yaml": clicked})
	log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"}))(t)
	noError(t, errors.Join(log.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 1}), log.Close()))
	for command, begun := range map[string]string{"run -c good.yaml --set metrics.listen= --set data_dir=run": "blobs on",
		"ingest -c clicks.yaml": "following topic events"} {
		for signal, want := range map[os.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitDone} {
			cmd, _, _ := program(t, strings.Fields(command)...)
			lines, wait := started(t, cmd)
			var all bytes.Buffer
			for lines.Scan() {
				all.WriteString(lines.Text() + "\n")
				if strings.HasPrefix(lines.Text(), begun) {
					noError(t, cmd.Process.Signal(signal))
				}
			}
			wait()
			if code := cmd.ProcessState.ExitCode(); code != want {
				t.Errorf("%s, %v: exit code %d, expected %d: %s", command, signal, code, want, all.String())
			}
		}
	}
}
