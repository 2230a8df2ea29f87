package pipeline

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/replay"
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
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
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

// On a topic that does not grow, a chain on sparse rows makes the same versions however often its process ends, and however little memory
// it has: what it goes on from follows from the terms of its increments.
func TestSparseChainDependsOnTheLogAlone(t *testing.T) {
	long(t)
	for name, change := range map[string]func(*topics.Job){
		"window":   func(*topics.Job) {},
		"decay":    func(j *topics.Job) { j.Retrain.Decay = 0.9 },
		"holdout":  func(j *topics.Job) { j.Examples.Holdout = 0.2 },
		"logistic": func(j *topics.Job) { j.Stages[0].Link = link.Logistic },
		"alone":    func(j *topics.Job) { j.Stages = j.Stages[:1] },
		"merged": func(j *topics.Job) {
			j.Retrain.Window.Increments, j.Topics.State = 0, 1
			j.Retrain.Full.Every = 9
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := sparseChainJob(t, link.Softmax)
			job.Topics = topics.DefaultTopics()
			change(&job)
			undisturbed := openEmbedded(t)
			report, err := Retrain(t.Context(), undisturbed, openBLAS(t), job, true, event.Ignore{})
			if err != nil {
				t.Fatal(err)
			}
			want := digests(t, undisturbed, job.Name)
			if len(want) < 12 || report.PrequentialError == nil || *report.PrequentialError > 15 {
				t.Fatalf("%d versions, %+v", len(want), report)
			}
			small := job
			small.Memory = 1
			if got := chainAlone(t, small); !slices.Equal(got, want) {
				t.Errorf("with little memory\n%v\nexpected\n%v", got, want)
			}
			log := openEmbedded(t)
			retrainInterrupted(t, log, job, 20, 17)
			if got := digests(t, log, job.Name); !slices.Equal(got, want) {
				t.Errorf("interrupted\n%v\nexpected\n%v", got, want)
			}
			last := fmt.Sprint(len(want))
			if _, err := replay.Verify(t.Context(), topics.OpenFor(undisturbed, job, nil), dispatch.NewProcess(openBLAS(t)), job, last, event.Ignore{}); err != nil {
				t.Errorf("verify version %s: %v", last, err)
			}
		})
	}
}

// A chain on sparse rows has the same versions with any number of workers, in processes of their own.
func TestSparseChainOfAnyNumberOfWorkers(t *testing.T) {
	job := sparseChainJob(t, link.Softmax)
	job.Examples.Partitions, job.Examples.BatchRows, job.Retrain.Rows = 4, 25, 200
	want := chainAlone(t, job)
	for _, workers := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) { checkChainOfWorkers(t, openEmbedded(t), job, workers, want) })
	}
}
