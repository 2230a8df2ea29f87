package config

import (
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/internal/option"
)

// Error lists everything that is wrong with a configuration: at least one problem. The problems of the file come first, in
// the order of their lines.
type Error struct{ Problems []Problem }

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Problem is one thing that is wrong with a configuration, and where it was set. Its Key is the full key, as in
// stages.0.features.size, or YAML where the file as a whole cannot be read.
type Problem struct {
	option.Problem
	// Source is the path of the file, the name of an environment variable, "environment" for a variable that is no key,
	// or --set.
	Source string
	// Line is the line in the file, from 1; 0 for other sources, and for keys that are not set.
	Line int
}

// Error returns `source:line: key: value: expected what`, without the line if it is 0.
func (p Problem) Error() string {
	source := p.Source
	if p.Line > 0 {
		source = fmt.Sprintf("%s:%d", source, p.Line)
	}
	return source + ": " + p.Problem.Error()
}
