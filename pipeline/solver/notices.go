package solver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/value"
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
	coarse := accumulate.FindCoarse(sample)
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

// maxUntrainedNamed is the maximum number of labels in a warning.
const maxUntrainedNamed = 5

// noticeUntrained returns a warning about labels that occur only in holdout and test rows, and are never predicted, with
// suggestions of similar labels; "" if there are none.
func noticeUntrained(labelRows, untrained statistics.LabelSet) string {
	var labels, trained, named []string
	rows := 0
	for label := range labelRows {
		if labelRows[label] > 0 {
			trained = append(trained, label)
		}
	}
	slices.Sort(trained)
	for _, label := range slices.Sorted(maps.Keys(untrained)) {
		if labelRows[label] == 0 {
			labels, rows = append(labels, label), rows+int(untrained[label])
		}
	}
	if len(labels) == 0 || len(trained) == 0 {
		return ""
	}
	for _, label := range labels[:min(len(labels), maxUntrainedNamed)] {
		name := value.Quote(label)
		if meant, ok := meantBy(label, trained); ok {
			name += " (is " + value.Quote(meant) + " meant?)"
		}
		named = append(named, name)
	}
	if more := len(labels) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("%s without training rows, so %s can't be predicted: %s",
		english.PluralWord(len(labels), "a class", "classes"), english.Plural(rows, "holdout or test row", ""), english.WordSeries(named, "and"))
}

// meantBy returns the label that another one may be a variant of, if it is unique: the same number, the same text except
// for case, space and punctuation, or a similar text, in which at most a quarter of the letters differ.
func meantBy(label string, labels []string) (meant string, ok bool) {
	number, err := value.Number(label)
	for _, alike := range []func(other string) bool{
		func(other string) bool {
			v, wrong := value.Number(other)
			return err == nil && wrong == nil && v == number
		},
		func(other string) bool { return trimmed(other) == trimmed(label) },
		func(other string) bool { return lettersOf(other) == lettersOf(label) && lettersOf(label) != "" },
		func(other string) bool {
			return err != nil && 4*option.Edits(other, label) <= min(len(other), len(label))
		},
	} {
		same := slices.DeleteFunc(slices.Clone(labels), func(other string) bool { return !alike(other) })
		if len(same) == 1 {
			return same[0], true
		}
		if len(same) > 1 {
			break // ambiguous
		}
	}
	return "", false
}

// trimmed returns a label in lower case, without surrounding space, punctuation and quotes.
func trimmed(label string) string { return strings.ToLower(strings.Trim(label, " \t.,;:'\"")) }

// lettersOf returns the letters and digits of a label in lower case.
func lettersOf(label string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, label)
}
