package archive

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	arrowformat "github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/stream"
)

// hasTypes is implemented by rows of a file whose schema has the types of columns.
type hasTypes interface {
	// typeAt returns the type of the values at a path.
	typeAt(path []string) stream.Type
}

// typeAt implements hasTypes.
func (d *records) typeAt(path []string) stream.Type {
	return stream.TypeOf(arrowformat.TypeAt(arrow.StructOf(d.Schema().Fields()...), path)) // Other if the file lacks it
}

// typeAt implements hasTypes.
func (d *container) typeAt(path []string) stream.Type { return d.TypeAt(path) }

func isNumber(t stream.Type) bool { return t == stream.Number || t == stream.Whole }

// changed describes the first column to read that has texts in a file but numbers in the first file of the archive; "" if there is none.
func (a *Archive) changed(ctx context.Context, c *contents) string {
	of, is := c.rows.(hasTypes)
	if !is {
		return ""
	}
	a.once.Do(func() {
		a.first, a.numbers = a.numbersOfFirst(ctx)
	})
	for _, path := range a.numbers {
		if of.typeAt(tabular.Path(path)) == stream.Text {
			return fmt.Sprintf("%s has text in the column %q, in which %s has numbers", c.name, path, a.first)
		}
	}
	return ""
}

// numbersOfFirst returns the name of the first file, and the paths to read at which it has numbers. It returns none if the file can't be
// read: the reader of its rows reports the error.
func (a *Archive) numbersOfFirst(ctx context.Context) (name string, numbers []string) {
	at := slices.IndexFunc(a.partitions, func(files []*file) bool { return len(files) > 0 })
	if at < 0 {
		return "", nil
	}
	c, err := a.open(ctx, a.partitions[at][0].dataFile, a.wanted)
	if err != nil {
		return "", nil
	}
	defer c.Close() // only read
	if of, is := c.rows.(hasTypes); is {
		for _, path := range a.paths {
			if isNumber(of.typeAt(tabular.Path(path))) {
				numbers = append(numbers, path)
			}
		}
	}
	return c.name, numbers
}
