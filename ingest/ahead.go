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

// readAhead reads a file before its rows are read. read returns whether it has read the whole file, which then need not be read again for
// its digest. An empty part is passed over.
func (o Options) readAhead(ctx context.Context, file string, read func(format.Format, *input.Content) (whole bool, err error)) error {
	c, f, err := o.openAs(ctx, file)
	if err == nil {
		defer c.Close()
		var whole bool
		if whole, err = read(f, c); err == nil && whole && o.stored != nil {
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
func (o Options) findWords(ctx context.Context, collected *format.Collected) (Options, error) {
	if !o.FindsWords() {
		return o, nil
	}
	found := layout.NewFoundWords(o.Options)
	for _, file := range o.Train {
		err := o.readAhead(ctx, file, func(f format.Format, c *input.Content) (bool, error) {
			if f.Words == nil { // a format without such columns
				return false, nil
			}
			return true, f.Words(c, o.Options, found, collected)
		})
		if err != nil {
			return o, err
		}
	}
	if len(o.Train) == 0 {
		return o, nil
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
	if how := o.density(); how == rowsSparse || how == rowsAuto && !o.NeedsDense() {
		return o, nil
	}
	found := layout.NewFoundExtent()
	for _, file := range slices.Concat(o.Train, o.Test) {
		err := o.readAhead(ctx, file, func(f format.Format, c *input.Content) (bool, error) {
			if f.Extent == nil {
				return false, nil
			}
			if err := f.Extent(c, o.Options, found); err != nil {
				return true, err
			}
			if err := found.Follows(o.Learnt()); err != nil {
				return true, input.WholeFile(c.Name, err)
			}
			return true, nil
		})
		if err != nil {
			return o, err
		}
	}
	extent, ok := found.Extent()
	if !ok || o.density() == rowsAuto && extent.Width > maxDense {
		return o, nil
	}
	o.Options = o.WithExtent(extent.After(o.Learnt()))
	return o, nil
}

// findOffsets returns the options with the offsets of columns, from the first rows of the first training file that has any.
func (o Options) findOffsets(ctx context.Context, collected *format.Collected) (Options, error) {
	found := layout.Spreads{}
	for _, file := range o.Train {
		err := o.readAhead(ctx, file, func(f format.Format, c *input.Content) (bool, error) {
			if f.Spread == nil {
				return false, nil
			}
			return false, f.Spread(c, o.Options, found, collected)
		})
		if err != nil {
			return o, err
		}
		if len(found) > 0 || !o.isPart(file) {
			break
		}
	}
	o.Options = o.WithOffsets(found)
	return o, nil
}
