package pipeline

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// newSparseJob returns a job of sparse rows with the stages of list.
func newSparseJob(t *testing.T, list ...schemas.Stage) topics.Job {
	t.Helper()
	random, path, lines := rand.New(rand.NewPCG(1, 2)), filepath.Join(t.TempDir(), "train.libsvm"), strings.Builder{}
	for range 500 {
		class := random.IntN(3)
		fmt.Fprint(&lines, class)
		for j := 1; j <= 80; j++ {
			if random.IntN(12) == 0 || j%3 == class && random.IntN(4) == 0 {
				fmt.Fprintf(&lines, " %d:%.3f", j, 1+random.Float64())
			}
		}
		lines.WriteByte('\n')
	}
	noError(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	job := newJob(t, rings(1, 3, 3, 1), table{}, list...)
	job.Examples.Train, job.Examples.Partitions = []string{path}, 3
	return job
}
