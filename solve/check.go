package solve

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// MaxPasses is the largest number of passes.
const MaxPasses = 10_000

// Defaults returns the fit configuration of a stage that does not set it.
func Defaults() schemas.Stage {
	return schemas.Stage{Link: link.Softmax, Passes: 12, Ridge: schemas.RidgeAuto, Method: MethodAuto, GramRows: GramAuto}
}

// LastPasses returns the default of passes in the last stage of a run, whose configuration was checked. [Defaults] has
// the default of the other stages.
func LastPasses(s schemas.Stage) int {
	l, most := link.Named(s.Link), methodNamed(s.Method).lastPasses
	if l.Quadratic || l.Learnt || most == 0 { // only other links use the method
		return Defaults().Passes
	}
	return most
}

// DefaultRounds returns the number of turns of each input of a stage that is fitted in blocks, if its configuration
// sets neither that nor the passes. With a quadratic loss, a block is fitted in one turn, and a second round corrects
// for later blocks, as in the paper.
func DefaultRounds(l schemas.Link) int {
	if link.Named(l).Quadratic {
		return 2
	}
	return Defaults().Passes
}

// powersOf returns the list of powers in the format of a configuration.
func powersOf(basis []int) string { return strings.ReplaceAll(fmt.Sprint(basis), " ", ", ") }

// Check returns the invalid keys of a stage that concern this package, with the expected values. It does not check
// features.
func Check(s schemas.Stage) (problems []option.Problem) {
	bad := func(key string, value any, want string) {
		problems = append(problems, option.Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
	if names := link.Names(); !slices.Contains(names, string(s.Link)) {
		bad("link", s.Link, either(names))
	}
	switch {
	case s.Basis == nil:
	case !link.Basis(s.Basis).Valid():
		bad("basis", powersOf(s.Basis), fmt.Sprintf("whole numbers from 1 to %d, ascending", link.MaxPower))
	case slices.Contains(link.Names(), string(s.Link)) && !link.Named(s.Link).Learnt:
		bad("basis", powersOf(s.Basis), "no basis with the link "+string(s.Link)+": it belongs to a link that is learnt")
	}
	if s.Passes < 1 || s.Passes > MaxPasses {
		bad("passes", s.Passes, fmt.Sprintf("a whole number from 1 to %d", MaxPasses))
	}
	if !s.Ridge.Valid() {
		bad("ridge", s.Ridge, "auto or a number ≥ 0")
	}
	if names := methodNames(); !slices.Contains(names, s.Method) {
		bad("method", s.Method, either(names))
	} else if methodNamed(s.Method).quadratic && slices.Contains(link.Names(), string(s.Link)) && !link.Named(s.Link).Quadratic {
		bad("method", s.Method, either(slices.DeleteFunc(names, func(name string) bool { return methodNamed(name).quadratic }))+
			", as the link is "+string(s.Link))
	}
	switch s.GramRows {
	case GramAuto, GramAll:
	default:
		if n, err := strconv.ParseInt(s.GramRows, 10, 64); err != nil || n < 1 {
			bad("gram_rows", s.GramRows, "auto, all or a whole number ≥ 1")
		}
	}
	switch {
	case !(s.Rate >= 0 && s.Rate <= 1):
		bad("rate", s.Rate, "a number above 0, up to 1")
	case WholeSteps(s.Link) && s.Rate != 0 && s.Rate != 1:
		bad("rate", s.Rate, "1, because the link "+string(s.Link)+" is learnt from the predictions of the unscaled weights")
	}
	if !(s.RidgeRows >= 0 && s.RidgeRows <= math.MaxFloat32) {
		bad("ridge_rows", s.RidgeRows, "a number ≥ 0")
	}
	if s.Stop != nil {
		switch s.Stop.Split {
		case examples.Holdout.String(), examples.Test.String():
		default:
			bad("stop.split", s.Stop.Split, "holdout or test")
		}
		if s.Stop.Patience < 1 {
			bad("stop.patience", s.Stop.Patience, "a whole number ≥ 1")
		}
	}
	return problems
}

// Keys documents the keys of a stage that configure its fit, in the order of docs/configuration.md.
func Keys() []option.Key {
	var links, quadratic, learnt, others, ways []string
	for _, l := range link.All() {
		name := "`" + l.Name + "`"
		links = append(links, fmt.Sprintf("%s (%s)", name, l.Doc))
		switch {
		case l.Quadratic:
			quadratic = append(quadratic, name)
		case l.Learnt:
			learnt = append(learnt, name)
		default:
			others = append(others, name)
		}
	}
	for _, m := range methods() {
		ways = append(ways, fmt.Sprintf("`%s` (%s)", m.name, m.doc))
	}
	return []option.Key{
		{Name: "link", Meaning: "how a score becomes a prediction, and its loss: " + either(links)},
		{Name: "basis", Meaning: fmt.Sprintf("powers of the predictions that the link %s is fitted to, from 1 to %d, ascending",
			either(learnt), link.MaxPower)},
		{Name: "passes", Meaning: fmt.Sprintf("maximum number of passes. The default is %d in the last stage, with the method `%s` and "+
			"the link %s; with `kind: gradient`, %d, and `rounds` end the stage (%d by default with the link %s, otherwise %d)",
			mostLastPasses, MethodAuto, either(others), MaxPasses,
			DefaultRounds(link.Identity), either(quadratic), DefaultRounds(link.Softmax))},
		{Name: "ridge", Meaning: "λ = ridge · trace(S)/p; 0: no ridge. `auto`: chosen by generalized cross-validation, once for stages " +
			"with the same features and link; for `columns` of sparse rows, except in `run`, by the loss on held-out " +
			"rows. A warm start keeps it"},
		{Name: "method", Meaning: "optimizer: " + either(ways) + ". With the link " + either(quadratic) +
			", the fit is a direct solve, or conjugate gradients if the Gram matrix is that of a sample"},
		{Name: "gram_rows", Meaning: fmt.Sprintf("training rows of the Gram matrix: `%s`, a number, or `%s`: 10,000 or %d for each "+
			"column, whichever is more, if that is faster. Passes find the same minimum, except with the link %s",
			GramAll, GramAuto, rowsPerColumn, either(learnt))},
		{Name: "scores", Meaning: "use the previous predictions as k additional features; not with `kind: trees`"},
		{Name: "stop.split", Meaning: "end the stage when the loss of this split stops falling: `holdout` or `test`. Without any key " +
			"under `stop`, `passes` and `method` end the stage"},
		{Name: "stop.patience", Meaning: "number of passes without a lower loss that ends the stage"},
		{Name: "stop.stages", Meaning: "stop stages instead of passes: `train` chooses the number of stages, and of trees the " +
			"`temperature`, by the loss on held-out rows, then trains them on all rows. See [tables](tables.md)"},
		{Name: "rate", Meaning: fmt.Sprintf("factor of the fitted weights, so that later stages fit a part of the residuals; with "+
			"`kind: trees` %g by default, otherwise 1", grownRate)},
		{Name: "ridge_rows", Meaning: fmt.Sprintf("with `kind: trees`: minimum regularisation, as if every leaf had this many extra "+
			"rows, split evenly between two classes. %g by default; 0: none. `run` takes no other values. See [tables](tables.md#keys)",
			grownRidgeRows)},
		{Name: "temperature", Meaning: "in the last stage, with the link " + either(others) + ": number that scores are divided by before " +
			"they become probabilities. 0: 1, or what `train` [chooses](tables.md)"},
	}
}

func methodNames() (names []string) {
	for _, m := range methods() {
		names = append(names, m.name)
	}
	return names
}

// either lists alternatives: `a, b or c`.
func either(alternatives []string) string {
	last := len(alternatives) - 1
	if last == 0 {
		return alternatives[0]
	}
	return strings.Join(alternatives[:last], ", ") + " or " + alternatives[last]
}
