package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
)

// CheckOccurring returns the problems of stages for a chain of updates on sparse rows, by the keys of the configuration. The chain
// needs one stage of all columns with a log loss, and before it at most one stage whose weights are counted: see [Chained].
func CheckOccurring(list []schemas.Stage) (problems option.Problems) {
	wrong := func(stage int, key string, value any, want string) {
		problems.Add(fmt.Sprintf("stages.%d.%s", stage, key), value, want+", for `run` on sparse rows")
	}
	updated, counted := 0, 0
	for t, s := range list {
		f := s.Features
		switch kind := stages.KindOf(f); {
		case kind.Counted:
			if counted++; counted > 1 {
				wrong(t, "features.kind", f.Kind, "at most one stage of this kind")
			}
			continue
		case !inUpdates(kind):
			wrong(t, "features.kind", f.Kind, strings.Join(stages.Names(inUpdates), " or "))
			continue
		}
		if updated++; updated > 1 {
			wrong(t, "features.kind", f.Kind, "at most one stage of this kind")
		}
		// the curvature of the loss is p(1 − p)
		if names := linksThat(func(l link.Link) bool { return !l.Quadratic && !l.Learnt }); !slices.Contains(names, string(s.Link)) {
			wrong(t, "link", s.Link, strings.Join(names, " or "))
		}
		if s.Rate != 0 && s.Rate != 1 {
			wrong(t, "rate", s.Rate, "1")
		}
		if s.Scores {
			wrong(t, "scores", s.Scores, "false")
		}
	}
	if updated == 0 {
		problems.Add("stages", fmt.Sprintf("%d stages", len(list)), "a stage whose weights are fitted to all inputs, for `run` on sparse rows")
	}
	return problems
}

// inUpdates reports whether updates on sparse rows can fit the weights of all inputs, or count them.
func inUpdates(k stages.Kind) bool { return k.Sparse && !k.InBlocks }

// Chained returns the stages of a chain in the order in which updates fit them. A stage whose weights are counted comes before the others,
// which are fitted to the residuals of its scores; its scores are in their unit. The sum of scores is the same in any order.
func Chained(list []schemas.Stage) []schemas.Stage {
	counted := func(s schemas.Stage) bool { return stages.KindOf(s.Features).Counted }
	if !slices.ContainsFunc(list, counted) {
		return list
	}
	list = append(slices.DeleteFunc(slices.Clone(list), func(s schemas.Stage) bool { return !counted(s) }),
		slices.DeleteFunc(slices.Clone(list), counted)...)
	for t := range list {
		if last := list[len(list)-1]; counted(list[t]) && !counted(last) {
			list[t].Link = last.Link
		}
	}
	return list
}
