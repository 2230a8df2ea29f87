package ingest

import (
	"context"
	"io"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/wire"
)

// findWords returns the options with the words of each categorical column of the files, sorted, and with the vocabulary of
// their texts. Unless all errors are collected it also has the digests of these files, so that they are not read again.
func (o Options) findWords(ctx context.Context, files []string, all *format.Collected) (Options, error) {
	found := layout.NewFoundWords(o.Options)
	o.digests, o.sizes = map[string]wire.Digest{}, map[string]size{}
	for _, file := range files {
		err := o.addWords(ctx, file, found, all)
		if err != nil && !o.isEmptyPart(file, err) {
			return o, err
		}
	}
	if len(files) == 0 {
		return o, nil
	}
	with, err := o.WithWords(found)
	if err != nil {
		return o, input.WholeFile(shown(files[0]), err)
	}
	o.Options = with
	return o, nil
}

// addWords adds the words of a file, and its digest.
func (o Options) addWords(ctx context.Context, file string, found *layout.FoundWords, all *format.Collected) error {
	return o.readAhead(ctx, file, all == nil, func(f format.Format, c *input.Content) (bool, error) {
		if f.Words == nil { // a format without such columns
			return false, nil
		}
		return true, f.Words(c, o.Options, found, all)
	})
}

// readAhead reads a file before its rows are read, according to its format, and adds its digest if digest is set and read
// has read it completely.
func (o Options) readAhead(ctx context.Context, file string, digest bool,
	read func(format.Format, *input.Content) (was bool, err error)) error {
	c, f, err := o.openAs(ctx, file)
	if err != nil {
		return err
	}
	defer c.Close()
	if was, err := read(f, c); err != nil || !was || !digest {
		return err
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		return input.WholeFile(c.Name, err)
	}
	o.digests[file], o.sizes[file] = c.Digest(), sizeOf(c)
	return nil
}

// findOffsets returns the options with the offsets of columns, from the first rows of the first file that has any.
func (o Options) findOffsets(ctx context.Context, files []string, all *format.Collected) (Options, error) {
	found := layout.Spreads{}
	for _, file := range files {
		err := o.addSpreads(ctx, file, found, all)
		if err != nil && !o.isEmptyPart(file, err) {
			return o, err
		}
		if len(found) > 0 || !o.isPart(file) {
			break
		}
	}
	o.Options = o.WithOffsets(found)
	return o, nil
}

// addSpreads adds the numbers of the first rows of a file.
func (o Options) addSpreads(ctx context.Context, file string, found layout.Spreads, all *format.Collected) error {
	c, f, err := o.openAs(ctx, file)
	if err != nil {
		return err
	}
	defer c.Close()
	if f.Spread == nil {
		return nil
	}
	return f.Spread(c, o.Options, found, all)
}
