package solve

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/link"
)

// Every method descends along its accepted passes to the same minimum of J, from zero weights and from others, also with a
// Gram matrix that does not bound the curvature of J.
func TestMethodsFindTheSameMinimum(t *testing.T) {
	for _, size := range []struct {
		n, p, k int
		warm    bool
	}{{300, 8, 2, false}, {300, 8, 2, true}, {150, 6, 10, false}, {40, 64, 3, false}} {
		for _, gramFactor := range []float64{0.01, 1} {
			lowest := math.Inf(1)
			for _, name := range []string{MethodPaper, MethodAccelerated, MethodLBFGS} {
				t.Run(fmt.Sprint(size, " ", gramFactor, " ", name), func(t *testing.T) {
					pr := problemOf(3, size.n, size.p, size.k)
					pr.gramFactor = gramFactor
					var start []float32
					if size.warm {
						start = random(3, size.p*size.k, 1)
					}
					slow := gramFactor < 1 && (name == MethodPaper || name == MethodAccelerated)
					stage := stageOf(link.Softmax, 2000, 1e-2)
					if stage.Method = name; slow {
						stage.Passes = 50
					}
					visits, final, fit := pr.run(t, stage, start)
					best := math.Inf(1)
					for _, v := range visits {
						if v.pass.Accepted && v.pass.Objective > best {
							t.Errorf("pass %d raises J from %v to %v", v.pass.Number, best, v.pass.Objective)
						}
						if v.pass.Accepted {
							best = v.pass.Objective
						}
					}
					j, gradient := pr.objective(link.Softmax, lambdaOf(fit), wideMatrix(size.p, size.k, final.W))
					if slow {
						return // the step is halved to about 1 %, which is too short where the features are 0
					}
					if norm := mat.Norm(gradient, 2); norm > 1e-5 || len(visits) == 2000 {
						t.Errorf("|∇J| is %v after %d passes", norm, len(visits))
					}
					if lowest = min(lowest, j); j > lowest+1e-9 {
						t.Errorf("J ends at %v, another method's at %v", j, lowest)
					}
				})
			}
		}
	}
}

// The methods do not depend on the units of features: without a ridge they visit the same points for any scale of each
// feature.
func TestMethodsDoNotDependOnUnits(t *testing.T) {
	for _, name := range []string{MethodPaper, MethodAccelerated, MethodLBFGS} {
		objectives := func(scale float64) (list []float64) {
			pr := problemOf(9, 2000, 40, 3)
			for j := range pr.shape.Penalised {
				by := math.Exp2(math.Round(scale * float64(j%9-4))) // which changes no digits
				for i := range pr.class {
					pr.x.Set(i, j, by*pr.x.At(i, j))
				}
			}
			stage := stageOf(link.Softmax, 60, 0)
			stage.Method = name
			visits, _, _ := pr.run(t, stage, nil)
			for _, v := range visits {
				list = append(list, v.pass.Objective)
			}
			return list
		}
		plain, scaled := objectives(0), objectives(2)
		for i := range plain {
			if len(scaled) != len(plain) || math.Abs(scaled[i]-plain[i]) > 1e-9 {
				t.Fatalf("%s: %d and %d passes; J of pass %d is %v, and %v of features in other units", name, len(plain), len(scaled), i+1,
					plain[i], scaled[min(i, len(scaled)-1)])
			}
		}
	}
}
