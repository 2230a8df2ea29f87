package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A wrong byte in the log of the embedded broker ends every command with the file, the byte and what to do. Repair
// prints what is lost. Then train says which source lacks messages, and ingests it again.
func TestRepair(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(3000, 1), "test.csv": blobs(60, 2)})
	code, stdout, _ := stagewise("repair", "-c", "good.yaml", "--set", "data_dir=none")
	if code != exitFailed || stdout != "" {
		t.Errorf("without a log: exit code %d: %s", code, stdout)
	}
	if _, err := os.Stat("none"); err == nil {
		t.Error("repair has made a folder")
	}
	set := []string{"--set", "fsync=true", "--set", "examples.batch_rows=100", "--set", "examples.partitions=1"}
	train := append([]string{"train", "-c", "good.yaml", "--quiet"}, set...)
	if cmd, stdout, stderr := program(t, train...); cmd.Run() != nil {
		t.Fatalf("%s%s", stdout, stderr)
	}
	if code, stdout, stderr := stagewise("repair", "-c", "good.yaml"); code != exitDone || stdout != "the log in .stagewise is intact\n" {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	segment := filepath.Join(".stagewise", "log", "partitions", "blobs.examples-0", "0.dat")
	content, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 4
	if err := os.WriteFile(segment, content, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd, _, errors := program(t, train...)
	if cmd.Run() == nil || cmd.ProcessState.ExitCode() != exitFailed || !strings.Contains(errors.String(), segment+" is damaged at byte ") ||
		!strings.Contains(errors.String(), "`stagewise repair -c FILE`") {
		t.Errorf("exit code %d: %s", cmd.ProcessState.ExitCode(), errors)
	}
	code, stdout, stderr := stagewise("repair", "-c", "good.yaml")
	var at int64
	var from, to int
	n, _ := fmt.Sscanf(stdout, segment+" was damaged at byte %d; the messages of blobs.examples[0] from offset %d to %d are lost\n",
		&at, &from, &to)
	if code != exitDone || n != 3 || at <= 0 || at >= int64(len(content)) || from <= 0 || from > to {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := stagewise("repair", "-c", "good.yaml"); code != exitDone || stdout != "the log in .stagewise is intact\n" {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if code, _, stderr := stagewise(train...); code != exitFailed || !strings.Contains(stderr,
		"has 29 of 30 messages in partition 0") || !strings.Contains(stderr, "train again to ingest the source again") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if code, stdout, stderr := stagewise(train...); code != exitDone {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}
