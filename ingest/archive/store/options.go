package store

import (
	"fmt"
	"strings"
)

// Options are the keys under `examples.archive` that say how files in a bucket are read.
type Options struct{}

// Open returns the store of the files that match a pattern. In it, * and ? match within a name, [ab] one of some characters, and ** any
// number of directories, or all files at the end. A path of a directory stands for all files in it. A hidden name needs a pattern that
// begins like it.
func Open(pattern string, _ Options) (Store, error) {
	if scheme, _, remote := strings.Cut(pattern, "://"); remote {
		return Store{}, fmt.Errorf("%s: files at %s:// can't be read yet", pattern, scheme)
	}
	return Store{local{}}, nil
}
