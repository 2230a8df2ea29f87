package format

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
)

// Collected are errors of columns, if files are read to report all of them: the first of each column, which is then no longer
// read. Missing values are one error for all columns. A nil *Collected ends the reading with the first error.
type Collected struct {
	Errors  []error
	bad     map[string]bool // columns with an error, by name
	lenient bool            // missing values have been reported
}

// maxCollected is the maximum number of errors.
const maxCollected = 100

// begin makes the errors of columns those of the collection. It is called before roles are assigned.
func (c *Collected) begin(l *layout.Layout) {
	if c == nil {
		return
	}
	if c.lenient {
		l.Options.Missing.Mode = layout.MissingMean
	}
	l.Collect = func(column int, err error) error { return c.add(l, column, err) }
}

// ignore excludes the columns with an error.
func (c *Collected) ignore(l *layout.Layout) {
	for at := range l.Cells {
		if c != nil && c.bad[l.NameOf(at)] {
			l.Ignore(at)
		}
	}
}

// add adds the error of a column. It returns an error that ends the reading.
func (c *Collected) add(l *layout.Layout, column int, err error) error {
	placed, ok := errors.AsType[*input.Error](err)
	if !ok || column < 0 || len(c.Errors) == maxCollected {
		return err
	}
	missing := errors.As(err, new(layout.MissingValueError))
	if !missing || !c.lenient {
		if advised := *placed; !strings.Contains(advised.Err.Error(), "examples.") {
			advised.Err = fmt.Errorf("%w: %s", advised.Err, l.KeyOf(column))
			placed = &advised
		}
		c.Errors = append(c.Errors, placed)
	}
	if missing {
		c.lenient, l.Options.Missing.Mode = true, layout.MissingMean
		return nil
	}
	if c.bad == nil {
		c.bad = map[string]bool{}
	}
	c.bad[l.NameOf(column)] = true
	l.Ignore(column)
	return nil
}
