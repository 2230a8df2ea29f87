package kafkalog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// fullDisk is an environment variable with the data directory of a process whose files are limited to fullSize.
const fullDisk = "KAFKALOG_TEST_FULL_DISK"

const fullSize = 40_000

// runOnFullDisk appends messages, and prints the number of each after its acknowledgement, or "full" while the disk is
// full.
func runOnFullDisk(dir string) {
	signal.Ignore(syscall.SIGXFSZ) // so that the write returns an error
	err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: fullSize, Max: fullSize})
	ctx := context.Background()
	var l *Log
	if err == nil {
		l, err = Open(ctx, Options{DataDir: dir})
	}
	if err == nil {
		err = l.Create(ctx, Topic{Name: "t", Partitions: 1})
	}
	var end int64
	if err == nil {
		_, end, err = l.Bounds(ctx, "t", 0)
	}
	out := bufio.NewWriterSize(os.Stdout, 16)
	for i := int(end); err == nil; {
		switch _, refused := l.Append(ctx, "t", 0, numbered(i, 3000)); {
		case refused == nil:
			fmt.Fprintln(out, i)
			i++
		case errors.As(refused, new(*WriteError)):
			fmt.Fprintln(out, "full")
		default:
			err = refused
		}
		err = errors.Join(err, out.Flush())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A broker killed while its disk is full has all acknowledged messages when there is room again, and the next offset is
// free. It also starts while the disk is still full. A wrong byte afterwards is an error, and a repair loses one message.
func TestKilledOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	self := must(os.Executable())(t)
	acknowledged := 0
	for start := range 3 {
		process := exec.Command(self)
		process.Env = append(os.Environ(), fullDisk+"="+dir)
		process.Stderr = os.Stderr
		output := must(process.StdoutPipe())(t)
		noError(t, process.Start())
		refused := 0
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if lines.Text() != "full" {
				n, err := strconv.Atoi(lines.Text())
				if err != nil || n != acknowledged {
					t.Errorf("acknowledged %q, want %d", lines.Text(), acknowledged)
				}
				acknowledged++
			} else if refused++; refused == 3 {
				noError(t, process.Process.Kill())
			}
		}
		if err := process.Wait(); err == nil || refused < 3 || process.ProcessState.Exited() {
			t.Fatalf("start %d: the process was not killed: %v", start, err)
		}
	}
	if acknowledged < 5 {
		t.Fatalf("%d messages are acknowledged", acknowledged)
	}
	l := openDir(t, dir)
	ctx := testContext(t)
	if base, err := l.Append(ctx, "t", 0, numbered(acknowledged, 3000)); base != int64(acknowledged) || err != nil {
		t.Errorf("the next message got offset %d, %v; %d are acknowledged", base, err, acknowledged)
	}
	if got := texts(all(t, l)); !slices.Equal(got, numbers(0, acknowledged+1)) {
		t.Errorf("left are %v", got)
	}
	noError(t, l.Close())
	segment := filepath.Join(dir, "log", "partitions", "t-0", "0.dat")
	flip(t, segment, 5000)
	if _, err := Open(ctx, Options{DataDir: dir}); !errors.As(err, new(*DamagedError)) || !strings.Contains(err.Error(), segment) {
		t.Errorf("with a wrong byte: %v", err)
	}
	must(Repair(t.Context(), dir))(t)
	if got := texts(all(t, openDir(t, dir))); len(got) != acknowledged || slices.Contains(got, "1") {
		t.Errorf("left are %v of %d", got, acknowledged+1)
	}
}
