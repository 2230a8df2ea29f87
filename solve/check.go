package solve

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

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

// LastPasses returns the default number of passes of the last stage of a run. The stage must pass [Check]. [Defaults]
// has the default of the other stages.
func LastPasses(s schemas.Stage) int {
	l, most := link.Named(s.Link), methodNamed(s.Method).lastPasses
	if l.Quadratic || l.Learnt || most == 0 { // only other links use the method
		return Defaults().Passes
	}
	return most
}

// DefaultRounds returns the default number of turns of each input in a stage that is fitted in blocks, for a
// configuration that sets neither rounds nor passes. With a quadratic loss, a block is fitted in one turn, and a second
// round corrects for later blocks, as in the paper.
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
func Check(s schemas.Stage) option.Problems {
	keys := Keys()
	if s.Stop == nil {
		keys = slices.DeleteFunc(keys, func(k option.Key) bool { return strings.HasPrefix(k.Name, "stop.") })
	}
	problems := option.Check(keys, s, schemas.Stage{})
	var l link.Link // zero if it is unknown
	if slices.Contains(link.Names(), string(s.Link)) {
		l = link.Named(s.Link)
	}
	switch {
	case s.Basis == nil:
	case !link.Basis(s.Basis).Valid():
		problems.Add("basis", powersOf(s.Basis), fmt.Sprintf("whole numbers from 1 to %d, ascending", link.MaxPower))
	case l.Name != "" && !l.Learnt:
		problems.Add("basis", powersOf(s.Basis), "no basis with the link "+l.Name+": it belongs to a link that is learnt")
	}
	names := methodNames(false)
	quadratic := slices.Contains(methodNames(true), s.Method) && !slices.Contains(names, s.Method)
	if quadratic && l.Name != "" && !l.Quadratic {
		problems.Add("method", s.Method, english.WordSeries(names, "or")+", as the link is "+l.Name)
	}
	if l.Learnt && s.Rate > 0 && s.Rate < 1 {
		problems.Add("rate", s.Rate, "1, because the link "+l.Name+" is learnt from the predictions of the unscaled weights")
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
		{Name: "link", Rule: option.OneOf(link.Names()...),
			Meaning: "how a score becomes a prediction, and its loss: " + english.WordSeries(links, "or")},
		{Name: "basis", Meaning: fmt.Sprintf("powers of the predictions that the link %s is fitted to, from 1 to %d, ascending",
			english.WordSeries(learnt, "or"), link.MaxPower)},
		{Name: "passes", Rule: option.Whole(1, MaxPasses),
			Meaning: fmt.Sprintf("maximum number of passes. The default is %d in the last stage, with the method `%s` and "+
				"the link %s; with `kind: gradient`, %d, and `rounds` end the stage (%d by default with the link %s, otherwise %d)",
				mostLastPasses, MethodAuto, english.WordSeries(others, "or"), MaxPasses,
				DefaultRounds(link.Identity), english.WordSeries(quadratic, "or"), DefaultRounds(link.Softmax))},
		{Name: "ridge", Rule: option.Rule{Want: "auto or a number ≥ 0", Holds: func(v any) bool { return v.(schemas.Ridge).Valid() }},
			Meaning: "λ = ridge · trace(S)/p; 0: no ridge. `auto`: chosen by generalized cross-validation, once for stages " +
				"with the same features and link; for `columns` of sparse rows, except in `run`, by the loss on held-out " +
				"rows. A warm start keeps it"},
		{Name: "method", Rule: option.OneOf(methodNames(true)...),
			Meaning: "optimizer: " + english.WordSeries(ways, "or") + ". With the link " + english.WordSeries(quadratic, "or") +
				", the fit is a direct solve, or conjugate gradients if the Gram matrix is that of a sample"},
		{Name: "gram_rows", Rule: option.Rule{Want: "auto, all or a whole number ≥ 1", Holds: isGramRows},
			Meaning: fmt.Sprintf("training rows of the Gram matrix: `%s`, a number, or `%s`: 10,000 or %d for each "+
				"column, whichever is more, if that is faster. Passes find the same minimum, except with the link %s",
				GramAll, GramAuto, rowsPerColumn, english.WordSeries(learnt, "or"))},
		{Name: "scores", Meaning: "use the previous predictions as k additional features; not with `kind: trees`"},
		{Name: "stop.split", Rule: option.OneOf(examples.Holdout.String(), examples.Test.String()),
			Meaning: "end the stage when the loss of this split stops falling: `holdout` or `test`. Without any key " +
				"under `stop`, `passes` and `method` end the stage"},
		{Name: "stop.patience", Rule: option.Whole(1, 0), Meaning: "number of passes without a lower loss that ends the stage"},
		{Name: "stop.stages", Meaning: "stop stages instead of passes: `train` chooses the number of stages, and of trees the " +
			"`temperature`, by the loss on held-out rows, then trains them on all rows. See [tables](tables.md)"},
		{Name: "rate", Rule: option.Range(0, 1, "a number above 0, up to 1"),
			Meaning: fmt.Sprintf("factor of the fitted weights, so that later stages fit a part of the residuals; with "+
				"`kind: trees` %g by default, otherwise 1", grownRate)},
		{Name: "ridge_rows", Rule: option.Range(0, math.MaxFloat32, "a number ≥ 0"),
			Meaning: fmt.Sprintf("with `kind: trees`: minimum regularisation, as if every leaf had this many extra "+
				"rows, split evenly between two classes. %g by default; 0: none. `run` takes no other values. See [tables](tables.md#keys)",
				grownRidgeRows)},
		{Name: "temperature",
			Meaning: "in the last stage, with the link " + english.WordSeries(others, "or") + ": number that scores are divided by before " +
				"they become probabilities. 0: 1, or what `train` [chooses](tables.md)"},
	}
}

// methodNames returns the names of the methods. It includes methods for a quadratic loss only if quadratic is true.
func methodNames(quadratic bool) (names []string) {
	for _, m := range methods() {
		if quadratic || !m.quadratic {
			names = append(names, m.name)
		}
	}
	return names
}

// isGramRows reports whether a value of the key `gram_rows` is allowed.
func isGramRows(value any) bool {
	n, err := strconv.ParseInt(value.(string), 10, 64)
	return value == GramAuto || value == GramAll || err == nil && n >= 1
}
