//go:build mnist

package pipeline

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// TestMNISTErrors compares test errors on MNIST with the paper's: 50 principal components, random Fourier features at twice the
// median distance, the median of seeds 1, 2 and 3. (Agarwal et al. 2014 report 1.83, 1.48 and 1.54 % for 4000 features.) The runs of a seed
// are a search, so that a block's Gram matrix is computed once for all of them. The third seed is trained where the first two don't decide
// whether the median is within its bound.
func TestMNISTErrors(t *testing.T) {
	log, blas := openEmbedded(t), openBLAS(t)
	blas.UseForSolves()
	type setting struct {
		name                 string
		link                 schemas.Link
		method               string
		size, repeat, passes int
		ridge                schemas.Ridge
		maxError             float64
	}
	undecided := []setting{
		{"identity 4000", link.Identity, solve.MethodAuto, 4000, 1, 1, 1e-5, 2.05},
		{"softmax 4000", link.Softmax, solve.MethodPaper, 4000, 1, 20, 3e-5, 1.60},
		{"calibrated 4000", link.Calibrated, solve.MethodAuto, 4000, 1, 6, 1e-4, 1.70},
		{"softmax 10 × 1024", link.Softmax, solve.MethodAuto, 1024, 10, 12, 1e-4, 1.60},
		{"softmax 10 × 1024, 4 passes", link.Softmax, solve.MethodAuto, 1024, 10, 4, 1e-4, 1.55},
		{"calibrated 6 × 1024", link.Calibrated, solve.MethodAuto, 1024, 6, 4, 1e-4, 2.0},
	}
	within, above := map[string]int{}, map[string]int{}
	for seed := uint64(1); len(undecided) > 0; seed++ {
		var jobs []topics.Job
		for _, c := range undecided {
			s := solve.Defaults()
			s.Features = stages.Defaults()
			s.Features.Size, s.Features.BandwidthScale = c.size, 2
			s.Link, s.Method, s.Passes, s.Ridge = c.link, c.method, c.passes, c.ridge
			job := mnistJob(t, slices.Repeat([]schemas.Stage{s}, c.repeat)...)
			job.Seed = seed
			jobs = append(jobs, job)
		}
		assert.NoError(t, Search(t.Context(), log, blas, jobs, 0, ignore, func(i int, trained *replay.Candidate) error {
			if trained.Err != nil {
				return trained.Err
			}
			c, report := undecided[i], trained.Report
			if *report.TestError <= c.maxError {
				within[c.name]++
			} else {
				above[c.name]++
			}
			t.Logf("%s, seed %d: test error %.2f %%, train error %.2f %%, %.1f s", c.name, seed, *report.TestError, report.TrainError,
				report.Seconds)
			return nil
		}))
		undecided = slices.DeleteFunc(undecided, func(c setting) bool {
			assert.True(t, above[c.name] != 2, "%s: the median test error is above %.2f %%", c.name, c.maxError)
			return within[c.name] == 2 || above[c.name] == 2
		})
	}
}

// A stage of the pixels themselves is logistic regression, whose test error the paper has as 7.8 %. auto is at most 0.2 points
// above 50 passes of L-BFGS.
func TestMNISTPixels(t *testing.T) {
	log, blas := openEmbedded(t), openBLAS(t)
	blas.UseForSolves()
	testError := func(method string, passes int) float64 {
		s := solve.Defaults()
		s.Features = stages.DefaultsOf(stages.Columns)
		s.Method, s.Passes = method, passes
		job := mnistJob(t, s)
		job.Prepare.PCA = 0
		report, _, err := Train(t.Context(), log, blas, job, dispatch.TrainOptions{}, ignore)
		assert.NoError(t, err)
		t.Logf("%s: test error %.2f %%, %d passes, %.1f s", method, *report.TestError, report.Stages[0].Passes, report.Seconds)
		return *report.TestError
	}
	auto, fifty := testError(solve.MethodAuto, solve.LastPasses(solve.Defaults())), testError(solve.MethodLBFGS, 50)
	assert.True(t, auto <= fifty+0.2 && auto <= 7.8,
		"test error %.2f %%, expected at most the %.2f %% of 50 passes of L-BFGS and 0.2, and at most 7.8", auto, fifty)
}

// mnistJob returns a job over the unpacked files of MNIST, in the folder that STAGEWISE_MNIST names.
func mnistJob(t testing.TB, list ...schemas.Stage) topics.Job {
	dir := os.Getenv("STAGEWISE_MNIST")
	assert.Need(t, dir != "", "STAGEWISE_MNIST is not set: fetch the files with scripts/data.sh mnist DIR, and set it to DIR")
	options := ingest.Defaults()
	for _, name := range []string{"train-images-idx3-ubyte", "train-labels-idx1-ubyte"} {
		options.Train = append(options.Train, filepath.Join(dir, name))
	}
	for _, name := range []string{"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"} {
		options.Test = append(options.Test, filepath.Join(dir, name))
	}
	return topics.Job{
		Name: "mnist", Examples: options, Prepare: schemas.Prepare{Scale: stages.ScaleNone, PCA: 50}, Stages: list,
		Seed: 1, Intercept: true, OnBadMessage: schemas.QuarantineBadMessages, Segment: 16,
	}
}
