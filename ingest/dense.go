package ingest

import (
	"context"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Values of the key `rows` for the density of rows. Any other value is a path.
const (
	rowsAuto   = "auto"   // sparse rows are converted to dense ones if a stage needs that, and they have at most maxDense columns
	rowsDense  = "dense"  // they are converted to dense ones
	rowsSparse = "sparse" // they stay sparse
)

// maxDense is the maximum number of columns for the conversion of sparse rows without an explicit setting.
const maxDense = 10_000

// density returns one of these values: "auto" for a path.
func (o Options) density() string {
	if o.Rows == rowsDense || o.Rows == rowsSparse {
		return o.Rows
	}
	return rowsAuto
}

// rowsPath returns the path of the rows in a message; "": none. A member that has the name of a density is written as
// ./dense.
func (o Options) rowsPath() string {
	switch o.Rows {
	case rowsAuto, rowsDense, rowsSparse:
		return ""
	}
	return strings.TrimPrefix(o.Rows, "./")
}

// findExtent returns the options with the columns of sparse rows that are converted to dense ones, from the files. With
// digests, it also has the digests of these files.
func (o Options) findExtent(ctx context.Context, digests bool) (Options, error) {
	if how := o.density(); how == rowsSparse || how == rowsAuto && !o.NeedsDense() {
		return o, nil
	}
	found := layout.NewFoundExtent()
	if o.digests == nil {
		o.digests, o.sizes = map[string]wire.Digest{}, map[string]size{}
	}
	for _, file := range slices.Concat(o.Train, o.Test) {
		if err := o.addExtent(ctx, file, found, digests); err != nil && !o.isEmptyPart(file, err) {
			return o, err
		}
		if err := found.Follows(o.Learnt()); err != nil {
			return o, input.WholeFile(shown(file), err)
		}
	}
	extent, ok := found.Extent()
	if !ok || o.density() == rowsAuto && extent.Width > maxDense {
		return o, nil
	}
	o.Options = o.WithExtent(extent.After(o.Learnt()))
	return o, nil
}

// addExtent adds the index range of a file, and its digest.
func (o Options) addExtent(ctx context.Context, file string, found *layout.FoundExtent, digest bool) error {
	return o.readAhead(ctx, file, digest, func(f format.Format, c *input.Content) (bool, error) {
		if f.Extent == nil {
			return false, nil
		}
		return true, f.Extent(c, o.Options, found)
	})
}
