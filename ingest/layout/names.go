package layout

import (
	"errors"
	"slices"
)

// Names finds columns by name. It is safe for concurrent use. [NewRequest] returns it.
type Names struct {
	names  []string
	byName map[string]int
}

// newNames returns the Names of columns; "" for a column without a name.
func newNames(names []string) *Names {
	n := &Names{names: names, byName: map[string]int{}}
	for i, name := range names {
		if name != "" {
			n.byName[name] = i
		}
	}
	return n
}

// Columns returns the number of columns.
func (n *Names) Columns() int { return len(n.names) }

// HasNames reports whether the columns have names.
func (n *Names) HasNames() bool { return len(n.byName) > 0 }

// List returns the names of the columns; nil if they have none.
func (n *Names) List() []string {
	if !n.HasNames() {
		return nil
	}
	return n.names
}

// Find returns the number of the column with a name.
func (n *Names) Find(name string) (column int, ok bool) {
	column, ok = n.byName[name]
	return column, ok
}

// Lacks returns an error with the missing columns of a row. has reports which columns the row has.
func (n *Names) Lacks(has []bool) error {
	var missing []string
	for name, column := range n.byName {
		if !has[column] {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return errors.New("missing columns that the model needs: " + SomeNames(missing))
}
