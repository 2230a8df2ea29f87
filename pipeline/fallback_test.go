package pipeline

import (
	"math"
	"testing"

	"github.com/viterin/vek/vek32"
	"golang.org/x/sys/cpu"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/schemas"
)

// Without a BLAS and without vector instructions, the errors are the same, and predictions differ by at most 1e-4 (RMS). The stages
// have no principal components, so the survey's result is the same too.
func TestFallbackPredictsTheSame(t *testing.T) {
	long(t)
	training, test := rings(2000, 3, 3, 1), rings(500, 3, 3, 2)
	fast := openBLAS(t)
	if fast.Hint() != "" {
		t.Log("there is no fast BLAS: the test compares only vector instructions")
	}
	for name, list := range map[string][]schemas.Stage{
		"identity":   {rffStage(link.Identity, 65, 1), rffStage(link.Identity, 65, 8)},
		"softmax":    {rffStage(link.Softmax, 65, 8), rffStage(link.Softmax, 17, 8)},
		"calibrated": {rffStage(link.Calibrated, 63, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range list {
				list[i].Ridge = 1e-4 // a smaller one, which auto may choose, magnifies rounding
			}
			job := newJob(t, training, test, list...)
			trainAndPredict := func(blas *kernel.BLAS) (*schemas.Report, kernel.Dense) {
				report, model, err := Train(t.Context(), openEmbedded(t), blas, job, dispatch.TrainOptions{Allocator: arrowtest.Allocator(t)},
					&eventRecorder{})
				noError(t, err)
				return report, predict(blas, model, test)
			}
			report, p := trainAndPredict(fast)
			features, accelerated := cpu.X86, vek32.Info().Acceleration
			defer func() {
				cpu.X86 = features
				vek32.SetAcceleration(accelerated)
			}()
			noError(t, kernel.UseVector("none"))
			slow, q := trainAndPredict(kernel.Gonum())
			if *slow.TestError != *report.TestError || slow.TrainError != report.TrainError {
				t.Errorf("test and train errors %v and %v, with a BLAS %v and %v", *slow.TestError, slow.TrainError, *report.TestError,
					report.TrainError)
			}
			sum := 0.0
			for i, v := range p.Data {
				sum += math.Pow(float64(v-q.Data[i]), 2)
			}
			if rms := math.Sqrt(sum / float64(len(p.Data))); !(rms <= 1e-4) {
				t.Errorf("predictions differ by %.1e (RMS), expected at most 1e-4", rms)
			} else {
				t.Logf("predictions differ by %.1e (RMS)", rms)
			}
		})
	}
}
