package solve

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

// Methods to find the minimum of J.
const (
	MethodAuto        = "auto"        // L-BFGS, until a pass gains little
	MethodPaper       = "paper"       // Algorithm 1 with its fixed step, safeguarded by J
	MethodAccelerated = "accelerated" // the same with Nesterov's momentum
	MethodLBFGS       = "lbfgs"       // L-BFGS that starts from the inverse Gram matrix
)

// Where the Gram matrix comes from.
const (
	GramAuto = "auto" // a sample where that is faster
	GramAll  = "all"  // all training rows
)

const maxPasses = 10_000

// Defaults are how a stage is fitted that says nothing.
func Defaults() schemas.Stage {
	return schemas.Stage{Link: link.Softmax, Passes: 12, Ridge: 1e-4, Method: MethodAuto, GramRows: GramAuto}
}

// Check says what is impossible about how a stage is fitted, by its keys.
func Check(s schemas.Stage) (problems []schemas.Problem) {
	bad := func(key string, value any, want string) {
		problems = append(problems, schemas.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	if names := link.Names(); !slices.Contains(names, string(s.Link)) {
		bad("link", s.Link, either(names))
	}
	if s.Passes < 1 || s.Passes > maxPasses {
		bad("passes", s.Passes, fmt.Sprintf("a whole number from 1 to %d", maxPasses))
	}
	if !(s.Ridge >= 0) || math.IsInf(s.Ridge, 1) {
		bad("ridge", s.Ridge, "a number ≥ 0")
	}
	switch s.Method {
	case MethodAuto, MethodPaper, MethodAccelerated, MethodLBFGS:
	default:
		bad("method", s.Method, "auto, paper, accelerated or lbfgs")
	}
	switch s.GramRows {
	case GramAuto, GramAll:
	default:
		if n, err := strconv.ParseInt(s.GramRows, 10, 64); err != nil || n < 1 {
			bad("gram_rows", s.GramRows, "auto, all or a whole number ≥ 1")
		}
	}
	if s.Stop != nil {
		switch s.Stop.Split {
		case schemas.Holdout.String(), schemas.Test.String():
		default:
			bad("stop.split", s.Stop.Split, "holdout or test")
		}
		if s.Stop.Patience < 1 {
			bad("stop.patience", s.Stop.Patience, "a whole number ≥ 1")
		}
	}
	return problems
}

// either lists at least two names: `a, b or c`.
func either(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
