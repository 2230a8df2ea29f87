package config

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/schemas"
)

// Error is everything that is wrong with a configuration, at least one problem.
type Error struct{ Problems []Problem }

// Error is a line a problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Problem is one thing that is wrong, and where it was said.
type Problem struct {
	schemas.Problem        // Key in full: stages.0.features.size
	Source          string // the path of the file, a variable of the environment, or --set
	Line            int    // of the file; 0: elsewhere, or not said at all
}

func (p Problem) Error() string {
	source := p.Source
	if p.Line > 0 {
		source = fmt.Sprintf("%s:%d", source, p.Line)
	}
	return source + ": " + p.Problem.Error()
}
