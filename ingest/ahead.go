package ingest

import (
	"context"
	"io"
	"slices"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/wire"
)

// stored is a file that was read completely.
type stored struct {
	digest     wire.Digest
	bytes      int64
	compressed bool
}

// storedOf returns the file of a content that was read completely.
func storedOf(c *input.Content) stored { return stored{c.Digest(), c.Bytes(), c.Kind != ""} }

// survey adds the rows of a file to a survey, if it is of the kind that has them. An empty part is passed over. If whole is set, the file
// is read to its end, and need not be read again for its digest.
func (o Options) survey(ctx context.Context, file string, is func(format.Format) bool, whole bool, s layout.Survey,
	all *format.Collected) error {
	c, f, err := o.openAs(ctx, file)
	if err == nil {
		defer c.Close()
		if !is(f) {
			return nil
		}
		if err = f.Survey(c, o.Options, s, all); err == nil && whole && o.stored != nil {
			if _, err := io.Copy(io.Discard, c); err != nil {
				return input.WholeFile(c.Name, err)
			}
			o.stored[file] = storedOf(c)
		}
	}
	if o.isEmptyPart(file, err) {
		return nil
	}
	return err
}

// findWords returns the options with the words of each categorical column of the training files, sorted, and with the vocabulary of their
// texts.
func (o Options) findWords(ctx context.Context, all *format.Collected) (Options, error) {
	if !o.FindsWords() || len(o.Train) == 0 {
		return o, nil
	}
	found := layout.NewFoundWords(o.Options)
	for _, file := range o.Train {
		if err := o.survey(ctx, file, format.Format.IsTable, true, found, all); err != nil {
			return o, err
		}
	}
	with, err := o.WithWords(found)
	if err != nil {
		return o, input.WholeFile(shown(o.Train[0]), err)
	}
	o.Options = with
	return o, nil
}

// findExtent returns the options with the columns of sparse rows that are converted to dense ones, from the files.
func (o Options) findExtent(ctx context.Context) (Options, error) {
	if how := o.density(); how == rowsSparse || how == rowsAuto && !o.Dense {
		return o, nil
	}
	o.Found.Extent = layout.Extent{} // the rows are read as they are
	found, extent := layout.NewFoundExtent(), layout.Extent{}
	for _, file := range slices.Concat(o.Train, o.Test) {
		err := o.survey(ctx, file, func(f format.Format) bool { return f.IsSparse }, true, found, nil)
		if err != nil {
			return o, err
		}
		if extent, err = found.After(o.Found.Learnt); err != nil {
			return o, input.WholeFile(shown(file), err)
		}
	}
	if found, ok := found.Extent(); ok && (o.density() == rowsDense || found.Width <= maxDense) {
		o.Found.Extent = extent
	}
	return o, nil
}

// findOffsets returns the options with the offsets of columns, from the first rows of the first training file that has any. Errors are
// reported when the rows are read.
func (o Options) findOffsets(ctx context.Context) (Options, error) {
	found := layout.Spreads{}
	for _, file := range o.Train {
		if err := o.survey(ctx, file, format.Format.IsTable, false, found, nil); ctx.Err() != nil {
			return o, err
		}
		if len(found) > 0 || !o.isPart(file) {
			break
		}
	}
	o.Found.Offsets = found.Offsets(1)
	return o, nil
}
