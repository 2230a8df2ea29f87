package ingest

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/jsonl"
	"github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/format/plain"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/internal/signature"
)

// formats are the input formats, in the order of the documentation. If several recognise a content, the first one reads
// it.
func formats() []format.Format {
	return []format.Format{
		plain.IDX(),
		plain.CSV(),
		plain.LIBSVM(),
		arrow.Format(),
		parquet.Format(),
		jsonl.Format(),
		plain.Images(),
	}
}

// formatByName returns the format set by examples.format or else by the file name. ok is false if neither determines it.
func (o Options) formatByName(file string) (f format.Format, ok bool) {
	if o.Format != "" {
		f = formatNamed(o.Format)
		return f, f.Name != ""
	}
	file = strings.ToLower(filepath.Base(file))
	for _, compressed := range []string{".gz", ".bz2", ".zst"} {
		file = strings.TrimSuffix(file, compressed)
	}
	return formatWith(func(f format.Format) bool { return f.Claims(file) })
}

// formatNamed returns the format with a name; the zero value: none.
func formatNamed(name string) format.Format {
	f, _ := formatWith(func(f format.Format) bool { return f.Name == name })
	return f
}

func formatWith(is func(format.Format) bool) (f format.Format, ok bool) {
	all := formats()
	i := slices.IndexFunc(all, is)
	if i < 0 {
		return format.Format{}, false
	}
	return all[i], true
}

// formatsOf returns the possible formats of the files, according to their names; all formats if there are no files.
func (o Options) formatsOf(files []string) (told []format.Format) {
	if len(files) == 0 && o.Format == "" {
		return formats()
	}
	for _, file := range append([]string{""}, files...) { // "" for a format set by the options
		if f, ok := o.formatByName(file); ok {
			told = append(told, f)
		}
	}
	return told
}

// formatOf returns the format of an open file, by its name or else by its first bytes. It returns a *input.Error if
// neither determines it.
func (o Options) formatOf(c *input.Content) (format.Format, error) {
	first, err := c.Peek(c.Size())
	if err != nil && err != io.EOF {
		return format.Format{}, err
	}
	form, _ := signature.Of(first)
	f, ok := o.formatByName(c.Name)
	if !ok {
		f = formatNamed(form.Format)
	}
	if err := o.checkContent(c.Name, f, first, form); err != nil {
		return f, err
	}
	if err := o.readsText(f, c.Name); err != nil {
		return f, err
	}
	return f, o.decode(c, f)
}

// openAs opens a file, and determines its format. The caller closes the content.
func (o Options) openAs(ctx context.Context, name string) (*input.Content, format.Format, error) {
	c, err := o.openContent(ctx, name)
	if err != nil {
		return nil, format.Format{}, err
	}
	f, err := o.formatOf(c)
	if err != nil {
		c.Close()
		return nil, f, err
	}
	return c, f, nil
}

// formatNames lists the formats for which a condition holds, each in quotes, if any, for errors and the documentation.
func formatNames(quote, conjunction string, is func(format.Format) bool) string {
	var names []string
	for _, f := range formats() {
		if is(f) {
			names = append(names, quote+f.Name+quote)
		}
	}
	return option.Enumerate(names, conjunction)
}

// readsText returns a *input.Error if the options name a text column and the format does not support one.
func (o Options) readsText(f format.Format, file string) error {
	if o.Text == "" || f.IsTable() {
		return nil
	}
	why := "as examples.text is set"
	if o.Mode == layout.Predicting {
		why = "as the model was trained on texts"
	}
	return input.WholeFile(file, fmt.Errorf("format %s: expected %s, %s", f.Name, formatNames("", "or", format.Format.IsTable), why))
}
