package layout

import (
	"slices"

	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas/value"
)

// CheckOwnColumns finds columns of a key that are duplicated, invalid, or have another role.
func (o Options) CheckOwnColumns(key string, columns []string) (problems []option.Problem) {
	known := map[string]bool{}
	for _, c := range columns {
		n, isNumber := Column(c).Number()
		switch {
		case c == "" || known[c] || isNumber && n < 0:
			problems = append(problems, option.Problem{Key: key, Value: value.Quote(c),
				Want: "different columns, each by its number, from 0, or by its name"})
		case Column(c) == o.Weight || slices.Contains(slices.Concat(o.Columns.Use, o.Columns.Drop, o.Categorical, o.Times.Columns()), c):
			problems = append(problems, option.Problem{Key: key, Value: c, Want: "other columns than those of the weight and the features"})
		}
		known[c] = true
	}
	return problems
}
