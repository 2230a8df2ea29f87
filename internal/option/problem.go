package option

import "fmt"

// Problem is an impossible value of a configuration, as the package that the value belongs to describes it.
type Problem struct {
	Key   string // relative to the package's own keys, as in `stop.patience`
	Value string // as it was given
	Want  string // what is expected instead
}

// Error returns one line: key, value, and what is expected instead.
func (p Problem) Error() string {
	return fmt.Sprintf("%s: %s: expected %s", p.Key, p.Value, p.Want)
}

// ProblemsUnder returns problems with keys as those of keys below another key; "" is no key.
func ProblemsUnder(prefix string, problems []Problem) []Problem {
	below := make([]Problem, len(problems))
	for i, p := range problems {
		if prefix != "" {
			p.Key = prefix + "." + p.Key
		}
		below[i] = p
	}
	return below
}
