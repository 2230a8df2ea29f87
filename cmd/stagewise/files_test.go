package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

const (
	// asProgram is the variable that makes the test binary the program.
	asProgram = "RUN_AS_STAGEWISE"
	// fileSize is the variable with the number of bytes after which the program can write no further into a file.
	fileSize = "RUN_WITH_FILE_SIZE"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		if bytes, err := strconv.ParseUint(os.Getenv(fileSize), 10, 64); err == nil {
			signal.Ignore(syscall.SIGXFSZ) // then the write returns an error
			must(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: bytes, Max: bytes}))
		}
		main()
	}
	os.Exit(m.Run())
}

// program returns a command line that runs as a process of its own, and what it will have written.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd = exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// started starts a program, and returns the lines that it writes to its standard error. wait waits until it has ended,
// and all of them are read.
func started(t *testing.T, cmd *exec.Cmd) (lines *bufio.Scanner, wait func()) {
	t.Helper()
	read, write := io.Pipe()
	cmd.Stderr = write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // who has started it looks at how it ended
		write.Close()
	}()
	return bufio.NewScanner(read), func() { <-ended }
}

// startBroker starts an embedded broker in the folder broker, which other processes reach.
func startBroker(t *testing.T) *kafkalog.Log {
	t.Helper()
	broker, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: "broker", Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	return broker
}

// A disk on which a file can't grow ends a run with a sentence that says so. With room, the same command finishes the run.
func TestFullDisk(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(3000, 1), "test.csv": blobs(30, 2)})
	const where = "the embedded broker could not write to "
	for _, size := range []string{"2000", "40000"} {
		t.Setenv(fileSize, size)
		cmd, stdout, stderr := program(t, "train", "-c", "good.yaml", "--set", "stages.0.features.size=200", "--quiet")
		err := cmd.Run()
		text := stderr.String()
		if err == nil || cmd.ProcessState.ExitCode() != exitFailed || stdout.Len() > 0 || !strings.Contains(text, where) ||
			!strings.Contains(text, ": file too large; make room") || strings.Contains(text, "[-1]") {
			t.Errorf("files of %s bytes: %v: %s%s", size, err, stdout, text)
		}
	}
	t.Setenv(fileSize, "")
	if cmd, stdout, stderr := program(t, "train", "-c", "good.yaml", "--set", "stages.0.features.size=200"); cmd.Run() != nil {
		t.Errorf("%s%s", stdout, stderr)
	}
}

// The files of a configuration are beside it, wherever a command is run. One file needs no brackets, and a pattern stands for several.
func TestFilesAreBesideTheConfiguration(t *testing.T) {
	inFolder(t, nil)
	for name, content := range map[string]string{
		"job/job.yaml": strings.Replace(good, "{train: [train.csv], test: [test.csv]}",
			`{train: "data/train-*.csv", test: data/test.csv}`, 1),
		"job/data/train-2.csv": blobs(60, 2), "job/data/train-1.csv": blobs(30, 1), "job/data/test.csv": blobs(30, 3),
		"here.csv": blobs(90, 4),
	} {
		if err := os.MkdirAll("job/data", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	code, _, stderr := stagewise("ingest", "-c", "job/job.yaml")
	want := "job/data/train-1.csv: 30 train rows\njob/data/train-2.csv: 60 train rows\njob/data/test.csv: 30 test rows\n"
	if code != exitDone || stderr != want {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	code, _, stderr = stagewise("ingest", "-c", "job/job.yaml", "--set", "examples.train=here.csv")
	if code != exitDone || !strings.HasPrefix(stderr, "here.csv: 90 train rows\n") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if _, err := os.Stat(".stagewise"); err != nil {
		t.Errorf("data_dir is not in the working directory: %v", err)
	}
	// The configuration of a report names the same files, wherever it is.
	code, report, stderr := stagewise("train", "-c", "job/job.yaml", "--quiet", "--report", "-")
	var made struct{ Configuration json.RawMessage }
	if err := json.Unmarshal([]byte(report), &made); err != nil || code != exitDone {
		t.Fatalf("exit code %d: %v: %s", code, err, stderr)
	}
	if err := os.WriteFile("job/again.json", made.Configuration, 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, stderr = stagewise("ingest", "-c", "job/again.json")
	if code != exitDone || strings.Count(stderr, ", already on the topic\n") != 3 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	code, _, stderr = stagewise("train", "-c", "job/job.yaml", "--set", "examples.train=*.txt", "--quiet")
	if code != exitFailed || stderr != "stagewise: *.txt: no file matches this pattern\n" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// The standard input is read once, and its bytes are its name: a second run knows them. No temporary file is left.
func TestStandardInput(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "test.csv": blobs(30, 2)})
	t.Setenv("TMPDIR", t.TempDir())
	for _, known := range []string{"", ", already on the topic"} {
		train, stdout, stderr := program(t, "train", "-c", "good.yaml", "--set", "examples.train=-", "--set", "examples.format=csv",
			"--report", "-", "--model", "model")
		train.Stdin = strings.NewReader(blobs(60, 1))
		err := train.Run()
		var report schemas.Report
		if err != nil || json.Unmarshal(stdout.Bytes(), &report) != nil || report.Rows != 60 || !strings.Contains(stderr.String(),
			"standard input: 60 train rows"+known+"\n") {
			t.Fatalf("train: %v: %s%s", err, stdout, stderr)
		}
	}
	predict, stdout, stderr := program(t, "predict", "--model", "model", "-i", "-")
	predict.Stdin = strings.NewReader(blobs(30, 2))
	err := predict.Run()
	if _, want, _ := stagewise("predict", "--model", "model", "-i", "test.csv"); err != nil || stdout.String() != want ||
		strings.Count(want, "\n") != 31 {
		t.Errorf("predict: %v: %s%s", err, stdout, stderr)
	}
	predict, _, stderr = program(t, "predict", "--model", "model", "-i", "-")
	predict.Stdin = strings.NewReader("1,2,3\nx,y,z\n")
	if err := predict.Run(); err == nil || !strings.HasPrefix(stderr.String(), "stagewise: standard input: ") {
		t.Errorf("predict: %v: %s", err, stderr)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left in the folder of temporary files: %v, %v", left, err)
	}
}
