package kafkalog

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// history is the topics that the killed processes write, step by step: to topic t, compacted, the numbers of a few keys
// and tombstones, and to topic r, with a size limit, all numbers.
var history = []Topic{
	{Name: "t", Partitions: 1, Compact: true, Config: map[string]string{"delete.retention.ms": "0", "segment.bytes": "20000"}},
	{Name: "r", Partitions: 1, Config: map[string]string{"retention.bytes": "30000", "segment.bytes": "5000"}},
}

const historySize = 1000

// historyStep is message i of topic t.
func historyStep(i int) Message {
	key := fmt.Sprint(i * i % 11)
	if i%7 == 6 {
		return keyed(key, -1, 0)
	}
	return keyed(key, i, historySize)
}

// historyState is the contents of topic t after n steps.
func historyState(n int) map[string]string {
	state := map[string]string{}
	for i := range n {
		if m := historyStep(i); m.Value == nil {
			delete(state, string(m.Key))
		} else {
			state[string(m.Key)] = fmt.Sprint(i)
		}
	}
	return state
}

func writeHistory(ctx context.Context, l *Log, i int) error {
	_, err := l.Append(ctx, "r", 0, numbered(i, historySize))
	if err == nil {
		_, err = l.Append(ctx, "t", 0, historyStep(i))
	}
	return err
}

// checkHistory checks a log with at least n acknowledged steps, and at most one more. It returns the number of steps.
func checkHistory(t *testing.T, l *Log, n int) int {
	t.Helper()
	b := bounds(t, l)
	steps := int(b.End)
	if steps != n && steps != n+1 {
		t.Fatalf("%d steps are acknowledged, the log has %d", n, steps)
	}
	if got := latest(t, l); !maps.Equal(got, historyState(steps)) {
		t.Fatalf("after %d steps the log holds %v, want %v", steps, got, historyState(steps))
	}
	first, end, err := l.Bounds(testContext(t), "r", 0)
	noError(t, err)
	if end < int64(steps) || end > int64(steps)+1 || end-first < min(end, 27) { // 30 KB
		t.Fatalf("after %d steps the second topic holds [%d, %d)", steps, first, end)
	}
	if got, err := read(t, l, "r", first, end); !slices.Equal(texts(got), numbers(int(first), int(end))) {
		t.Fatalf("the second topic holds %v, %v, want [%d, %d)", texts(got), err, first, end)
	}
	if end > int64(steps) { // the process was killed between the two
		must(l.Append(testContext(t), "t", 0, historyStep(steps)))(t)
		steps++
	}
	return steps
}

// runCleanForever continues the history, cleans continuously, and prints the number of steps after each acknowledgement.
func runCleanForever(dir string) {
	ctx := context.Background()
	l, err := Open(ctx, Options{DataDir: dir})
	if err == nil {
		err = l.Create(ctx, history...)
	}
	var end int64
	if err == nil {
		_, end, err = l.Bounds(ctx, "t", 0)
	}
	out := bufio.NewWriterSize(os.Stdout, 16)
	cleaned := make(chan error, 1)
	go func() {
		for {
			if err := l.Clean(ctx); err != nil {
				cleaned <- err
				return
			}
		}
	}()
	for i := int(end); err == nil; i++ {
		if err = writeHistory(ctx, l, i); err == nil {
			fmt.Fprintln(out, i+1)
			err = out.Flush()
		}
		select {
		case err = <-cleaned:
		default:
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A process killed at any time during writes and cleaning loses no message that must be kept, and restores none.
func TestKilledWhileCleaning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self := must(os.Executable())(t)
	steps, cleaned := 0, 0
	for range 25 {
		process := exec.Command(self)
		process.Env = append(os.Environ(), cleanForever+"="+dir)
		process.Stderr = os.Stderr
		output := must(process.StdoutPipe())(t)
		noError(t, process.Start())
		lines := bufio.NewScanner(output)
		for i := 0; lines.Scan(); i++ {
			acknowledged := must(strconv.Atoi(lines.Text()))(t)
			steps = acknowledged
			if i == 0 { // from now on at a random time
				timer := time.AfterFunc(rand.N(100*time.Millisecond), func() { _ = process.Process.Kill() })
				defer timer.Stop()
			}
		}
		if err := process.Wait(); err == nil || process.ProcessState.Exited() {
			t.Fatalf("the process was not killed: %v", err)
		}
		leftovers := must(filepath.Glob(filepath.Join(dir, "log", "partitions", "*", "*.tmp")))(t)
		if len(leftovers) > 0 {
			cleaned++
		}
		l := openDir(t, dir)
		steps = checkHistory(t, l, steps)
		noError(t, l.Close())
	}
	t.Logf("%d steps; killed %d times while a file was written again", steps, cleaned)
}
