package choice

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// Of the candidates with many stages, only the one that leads after the first of them is trained in full.
func TestShortlist(t *testing.T) {
	candidateOf := func(name string, stages int) candidate {
		return candidate{name: name, stages: make([]schemas.Stage, stages)}
	}
	columns, trees, ranks := candidateOf("columns", 1), candidateOf("trees", 30), candidateOf("ranks and trees", 31)
	failed := errors.New("the log is closed")
	for name, test := range map[string]struct {
		candidates []candidate
		leader     string
		err        error
		begun      string
		want       string
		wantErr    error
	}{
		"trees lead":          {[]candidate{columns, trees, ranks}, "trees", nil, "[trees 6 ranks and trees 6]", "[columns 1 trees 30]", nil},
		"others lead":         {[]candidate{trees, columns, ranks}, "ranks and trees", nil, "[trees 6 ranks and trees 6]", "[columns 1 ranks and trees 31]", nil},
		"only one is long":    {[]candidate{columns, trees}, "", nil, "[]", "[columns 1 trees 30]", nil},
		"all are short":       {[]candidate{columns, columns}, "", nil, "[]", "[columns 1 columns 1]", nil},
		"no long one trains":  {[]candidate{columns, trees, ranks}, "", errNoCandidate, "[trees 6 ranks and trees 6]", "[columns 1]", nil},
		"none trains":         {[]candidate{trees, ranks}, "", errNoCandidate, "[trees 6 ranks and trees 6]", "[]", errNoCandidate},
		"the search is ended": {[]candidate{columns, trees, ranks}, "", failed, "[trees 6 ranks and trees 6]", "[]", failed},
	} {
		var begun []candidate
		got, err := shortlist(test.candidates, func(of []candidate) (found, error) {
			begun = of
			at := slices.IndexFunc(of, func(c candidate) bool { return c.name == test.leader })
			if at < 0 {
				return found{}, fmt.Errorf("choose stages: %w", test.err)
			}
			return found{candidate: of[at]}, nil
		})
		if !errors.Is(err, test.wantErr) || named(begun) != test.begun || named(got) != test.want {
			t.Errorf("%s: %s after %s, %v", name, named(got), named(begun), err)
		}
	}
}

func named(list []candidate) string {
	var all []string
	for _, c := range list {
		all = append(all, fmt.Sprint(c.name, " ", len(c.stages)))
	}
	return fmt.Sprint(all)
}
