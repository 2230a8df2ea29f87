package ingest

import (
	"context"
	"errors"
	"io"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/layout"
)

// checkCells is the number of values to read from all files together, beyond the first batch of each.
const checkCells = 64 << 20

// Troubles reads the files of the options as Sources and Batches do, and returns the sources and whether all of their rows
// were read, or all errors in the files: the first error of each column. Of large files it reads as much as takes a few
// seconds. An option that does not pass Check is a schemas.Problem.
func Troubles(ctx context.Context, o Options) (sources []Source, whole bool, troubles []error) {
	var all format.Collected
	sources, err := find(ctx, o, &all)
	cells := 0
	whole = true
	for i := 0; i < len(sources) && err == nil; i++ {
		var read bool
		read, err = sources[i].readSome(ctx, &cells)
		whole = whole && read
	}
	if err != nil && !(errors.Is(err, layout.ErrNoFeature) && len(all.Errors) > 0) { // all columns have errors
		all.Errors = append(all.Errors, err)
	}
	if len(all.Errors) > 0 {
		return nil, false, all.Errors
	}
	return sources, whole, nil
}

// readSome reads the first batch of a source, and further ones while cells, to which it adds, is below the limit. It
// reports whether it has read all.
func (s *Source) readSome(ctx context.Context, cells *int) (whole bool, err error) {
	r, opened, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	defer closeAll(opened)
	for {
		rows, err := r.Next()
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err == io.EOF:
			return true, nil
		case err != nil:
			return false, err
		}
		if *cells += rows.Rows * max(rows.Cols, 1); *cells > checkCells {
			return false, nil
		}
	}
}
