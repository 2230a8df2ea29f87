package pipeline

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/topics"
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
	noError(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	stage := solve.Defaults()
	stage.Features, stage.Link, stage.Method, stage.Passes = stages.DefaultsOf(stages.Columns), link.Identity, solve.MethodCG, 4
	job := newJob(t, rings(1, 3, 3, 1), table{}, stage)
	job.Examples.Train, job.Examples.Partitions = []string{path}, 2
	return job
}

// A run whose matrices of sparse rows exceed the memory of the job fails, and says how many bytes they take.
func TestMemoryOfWideRows(t *testing.T) {
	job := newWideJob(t, 200_000)
	job.Memory = 16 << 20
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()})
	noError(t, err)
	defer log.Close()
	_, _, err = Train(t.Context(), log, openBLAS(t), job, dispatch.TrainOptions{}, &eventRecorder{})
	if want := "set memory to at least 89600448"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, expected an error with %q", err, want)
	}
}
