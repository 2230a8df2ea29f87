package solver

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/solve"
)

// noticeFeatures returns warnings about the features of a run's sampled rows (n × d): that none varies, or that float32 can't
// distinguish the values of some. columns are nil if unknown.
func noticeFeatures(task examples.Task, p *solve.Preparation, columns examples.Columns, sample kernel.Dense) (notices []string) {
	constant := !slices.ContainsFunc(p.Scale, func(v float32) bool { return v != 0 })
	if constant {
		what := "in the shares of the classes"
		if task == examples.Numbers {
			what = "as the mean"
		}
		notices = append(notices, "no feature varies between the training rows: every row gets the same prediction, "+what)
	}
	coarse := solve.FindCoarse(sample)
	const some = 5
	names := nameFeatures(columns, len(p.Scale))
	var told []string
	for _, c := range coarse[:min(len(coarse), some)] {
		told = append(told, fmt.Sprintf("%s near %s in steps of %s", names(c.Feature), plain(c.Mean), plain(c.Step)))
	}
	if more := len(coarse) - len(told); more > 0 {
		told = append(told, fmt.Sprintf("%d more", more))
	}
	if len(told) > 0 {
		notices = append(notices, fmt.Sprintf("float32 can't distinguish the values of some features: %s: subtract a number near "+
			"their mean before writing them, such as the start of the data from times", strings.Join(told, ", ")))
	}
	return notices
}

// plain formats a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// nameFeatures returns a function that names the features of columns, which may be unknown.
func nameFeatures(columns examples.Columns, width int) func(feature int) string {
	names := make([]string, 0, width)
	for _, c := range columns {
		for range c.Features() {
			names = append(names, fmt.Sprintf("column %q", c.Name))
		}
	}
	return func(feature int) string {
		if feature < len(names) {
			return names[feature]
		}
		return fmt.Sprintf("feature %d", feature)
	}
}
