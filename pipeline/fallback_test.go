package pipeline

import (
	"math"
	"testing"

	"github.com/viterin/vek/vek32"
	"golang.org/x/sys/cpu"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

// Where there is no BLAS and no vector unit, errors are the same and
// predictions differ by 1e-4 (RMS) at most. Without principal components the
// survey is the same too.
func TestFallbackPredictsTheSame(t *testing.T) {
	training, test := rings(2000, 3, 3, 1), rings(500, 3, 3, 2)
	fast := openBLAS(t)
	if fast.Hint() != "" {
		t.Log("no fast BLAS here: this compares vector units only")
	}
	for name, list := range map[string][]schemas.Stage{
		"identity":   {stage(link.Identity, 65, 1), stage(link.Identity, 65, 8)},
		"softmax":    {stage(link.Softmax, 65, 8), stage(link.Softmax, 17, 8)},
		"calibrated": {stage(link.Calibrated, 63, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			job := jobOn(t, training, test, list...)
			predict := func(blas *kernel.BLAS) (*schemas.Report, kernel.Dense) {
				report, model, err := Train(t.Context(), openEmbedded(t), blas, job, TrainOptions{Allocator: checked(t)}, &events{})
				if err != nil {
					t.Fatal(err)
				}
				x := kernel.NewDense(len(test.rows), model.Width())
				for i, row := range test.rows {
					copy(x.Row(i), row)
				}
				return report, model.Predictor(blas).Probabilities(x)
			}
			report, p := predict(fast)
			wide, accelerated := cpu.X86.HasAVX512F, vek32.Info().Acceleration
			cpu.X86.HasAVX512F = false
			vek32.SetAcceleration(false)
			defer func() {
				cpu.X86.HasAVX512F = wide
				vek32.SetAcceleration(accelerated)
			}()
			slow, q := predict(kernel.Gonum())
			if *slow.TestError != *report.TestError || slow.TrainError != report.TrainError {
				t.Errorf("errors %v and %v, with a BLAS %v and %v", *slow.TestError, slow.TrainError, *report.TestError, report.TrainError)
			}
			sum := 0.0
			for i, v := range p.Data {
				sum += math.Pow(float64(v-q.Data[i]), 2)
			}
			if rms := math.Sqrt(sum / float64(len(p.Data))); !(rms <= 1e-4) {
				t.Errorf("predictions differ by %.1e", rms)
			} else {
				t.Logf("predictions differ by %.1e", rms)
			}
		})
	}
}
