package ingest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// Check finds invalid values of the keys under `examples` for the content of outcomes. classes are the possible labels;
// nil: any.
func (p predicted) Check(classes []string) (problems []option.Problem) {
	wrong := func(key, shown, want string) {
		problems = append(problems, option.Problem{Key: key, Value: shown, Want: want})
	}
	columns := map[examples.Task]string{examples.Numbers: "targets", examples.SeveralLabels: "label_columns"}[p.Task]
	switch {
	case p.Label != "" && len(p.Columns) > 0:
		wrong("outcome.label", value.Quote(p.Label), "no label with examples."+columns+", which are the paths in an outcome")
	case p.Label == "" && len(p.Columns) == 0:
		wrong("outcome.label", "not set", "the path of the label in an outcome, such as kind; or examples.targets, the paths of numbers")
	}
	for i, c := range p.Columns {
		if n, isNumber := layout.Column(c).Number(); c == "" || slices.Contains(p.Columns[:i], c) || isNumber && n < 0 {
			wrong(columns, value.Quote(c), "different paths in an outcome; in csv, the numbers of its columns, from 0")
		}
	}
	if p.Skips() {
		return problems
	}
	want, ok := p.checkAbsent(), true
	shown := "not set"
	if len(p.Absent) > 0 {
		shown = value.Quote(strings.Join(p.Absent, ", "))
	}
	for _, text := range p.Absent {
		isLabel := func(class string) bool { return value.Label(class) == value.Label(text) }
		switch {
		case want != "":
		case p.Task == examples.Numbers:
			v, err := value.Number(text)
			ok = ok && err == nil && layout.CheckTarget(v) == nil
		case text == "" || text != strings.TrimSpace(text):
			wrong("outcome.absent", value.Quote(text), "a label without space around it")
		case len(classes) > 0 && !slices.ContainsFunc(classes, isLabel):
			wrong("outcome.absent", value.Quote(text), "a label among examples.classes, or skip")
		}
	}
	if !ok {
		want = p.wantNumbers()
	}
	if want != "" {
		wrong("outcome.absent", shown, want)
	}
	return problems
}

// checkAbsent returns the expected number of values of Absent; "" if the number is right.
func (p predicted) checkAbsent() string {
	switch n := len(p.Absent); {
	case p.Task == examples.OneLabel && (n != 1 || p.Absent[0] == ""):
		return "the label of a row without an outcome, or skip to leave the row out"
	case p.Task == examples.SeveralLabels && p.Absent == nil:
		return "the labels of a row without an outcome, such as [], or skip to leave the row out"
	case p.Task == examples.Numbers && n != 1 && n != len(p.Columns):
		return p.wantNumbers()
	}
	return ""
}

func (p predicted) wantNumbers() string {
	if len(p.Columns) == 1 {
		return "the number of a row without an outcome, such as 0, or skip to leave the row out"
	}
	return fmt.Sprintf("one number for all targets of a row without an outcome, such as 0, a list of %d, or skip to leave the row out",
		len(p.Columns))
}
