package pipeline

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

const wideClasses = 4

// newWideJob returns a job of that many columns, each of which occurs, and of conjugate gradients.
func newWideJob(t *testing.T, columns int) topics.Job {
	t.Helper()
	const each = 2000 // values of a row
	random, path, lines := rand.New(rand.NewPCG(1, 2)), filepath.Join(t.TempDir(), "train.libsvm"), strings.Builder{}
	for from := 1 + wideClasses; from <= columns; from += each {
		class := random.IntN(wideClasses)
		fmt.Fprintf(&lines, "%d %d:%d", class, 1+class, each)
		for column := from; column < min(from+each, columns+1); column++ {
			fmt.Fprintf(&lines, " %d:%d", column, 1+random.IntN(3))
		}
		lines.WriteByte('\n')
	}
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	stage := solve.Defaults()
	stage.Features, stage.Link, stage.Method, stage.Passes = stages.DefaultsOf(stages.Columns), link.Identity, solve.MethodCG, 4
	job := newJob(t, rings(1, 3, 3, 1), table{}, stage)
	job.Examples.Train, job.Examples.Partitions = []string{path}, 2
	return job
}

// peak trains on a log that no other process reads, and returns the report and the peak of memory in use, in bytes.
func peak(t *testing.T, job topics.Job) (*schemas.Report, uint64) {
	t.Helper()
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most, done := inUse(), uint64(0), make(chan error)
	var report *schemas.Report
	go func() {
		var err error
		report, _, err = Train(t.Context(), log, openBLAS(t), job, dispatch.TrainOptions{}, &eventRecorder{})
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return report, most
		default:
			now := inUse()
			most = max(most, now-min(before, now))
		}
	}
}

// A run whose matrices exceed the memory of the job spills those that it does not need yet, and has the same weights.
func TestMemoryOfWideRows(t *testing.T) {
	long(t)
	const columns = 1_100_000
	job := newWideJob(t, columns)
	want, all := peak(t, job)
	job.Memory = 64 << 20
	got, most := peak(t, job)
	if got.WeightsDigest != want.WeightsDigest {
		t.Errorf("the weights are %s, in memory %s", got.WeightsDigest.Short(), want.WeightsDigest.Short())
	}
	each, inMemory := float64(most)/columns/wideClasses/8, float64(all)/columns/wideClasses/8
	if limit := 14.0; each > limit { // the sums of the worker, and those that the solver in the same process decodes
		t.Errorf("%.1f × 8 bytes for each column and class, expected at most %v; in memory %.1f", each, limit, inMemory)
	}
	t.Logf("%.1f × 8 bytes for each column and class, in memory %.1f", each, inMemory)
}
