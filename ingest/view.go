package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
)

// View shows all columns and cells of a file, or of the tables in a directory. It only uses the options for reading files.
// A file that is not a table is a *input.Error.
func View(ctx context.Context, name string, o Options, v format.Viewer) error {
	o.Train, o.Test = []string{name}, nil
	o, err := o.withFiles()
	if err != nil {
		return err
	}
	seen := false
	for _, file := range o.Train {
		err := o.view(ctx, file, v)
		if err != nil && !o.isEmptyPart(file, err) {
			return err
		}
		seen = seen || err == nil
	}
	if !seen {
		return input.WholeFile(name, errors.New("no rows in this part or any other"))
	}
	return nil
}

// view shows a file.
func (o Options) view(ctx context.Context, file string, v format.Viewer) error {
	c, f, err := o.openAs(ctx, file)
	if err != nil {
		return err
	}
	defer c.Close()
	if !f.IsTable() {
		return input.WholeFile(c.Name, fmt.Errorf("format %s: expected a table: %s", f.Name, formatNames("", "or", format.Format.IsTable)))
	}
	err = f.View(c, o.Options, v)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
