package pipeline

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
)

// wordCounts writes rows of word counts as a LIBSVM file. Each class has words of its own; later rows have words that earlier ones lack.
func wordCounts(t *testing.T, rows int) string {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 8))
	var text strings.Builder
	for i := range rows {
		class := r.IntN(3)
		counts := map[int]int{}
		for range 6 {
			counts[1+r.IntN(40)]++
			counts[100+50*class+r.IntN(10+i/20)]++
		}
		var words []int
		for word := range counts {
			words = append(words, word)
		}
		slices.Sort(words)
		fmt.Fprint(&text, class)
		for _, word := range words {
			fmt.Fprintf(&text, " %d:%d", word, counts[word])
		}
		fmt.Fprintln(&text)
	}
	path := filepath.Join(t.TempDir(), "words.svm")
	noError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// sparseChainJob returns a job whose chain adds and drops increments of sparse rows, counted before they are fitted.
func sparseChainJob(t *testing.T, l schemas.Link) topics.Job {
	columns, counts := kindStage(stages.Columns, l), kindStage(stages.ClassCounts, l)
	columns.Passes, columns.Ridge, counts.Features.Weight = 6, schemas.RidgeAuto, 1
	job := newJob(t, rings(1, 4, 3, 1), table{}, columns, counts)
	job.Examples.Train, job.Examples.Format = []string{wordCounts(t, 1500)}, "libsvm"
	job.Prepare = schemas.Prepare{Scale: "unit", Values: "log1p", IDF: 1}
	job.Examples.BatchRows, job.Examples.Partitions, job.Keep = 63, 3, 1000
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Window.Increments, job.Retrain.Full = 100, 4, topics.FullOptions{Every: 4}
	return job
}
