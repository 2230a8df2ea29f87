package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/format/plain"
	"github.com/stagewise/stagewise/ingest/format/typed"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/signature"
)

// formats are the formats of files and of messages on topics other than examples topics, each in the order of the documentation. If
// several recognise the content of a file, the first one reads it.
func formats() []format.Format {
	return []format.Format{
		plain.JSON(),
		plain.IDX(),
		plain.CSV(),
		plain.LIBSVM(),
		arrow.Format(),
		parquet.Format(),
		plain.JSONLines(),
		plain.Images(),
		typed.Avro(),
		typed.Protobuf(),
	}
}

// formatsThat returns the formats for which a condition holds.
func formatsThat(is func(format.Format) bool) (found []format.Format) {
	return slices.DeleteFunc(formats(), func(f format.Format) bool { return !is(f) })
}

// formatByName returns the format set by examples.format or else by the file name. ok is false if neither determines it.
func (o Options) formatByName(file string) (f format.Format, ok bool) {
	if o.Format != "" {
		f = formatNamed(o.Format)
		return f, f.Name != ""
	}
	file = uncompressed(strings.ToLower(filepath.Base(file)))
	return first(func(f format.Format) bool { return f.Claims(file) })
}

// uncompressed returns the name that a file has after decompression.
func uncompressed(name string) string {
	for _, ending := range []string{".gz", ".bz2", ".zst"} {
		name = strings.TrimSuffix(name, ending)
	}
	return name
}

// formatNamed returns the format of files with a name; the zero value: none.
func formatNamed(name string) format.Format {
	f, _ := first(func(f format.Format) bool { return f.Name == name && f.IsOfFiles() })
	return f
}

// first returns the first format for which a condition holds.
func first(is func(format.Format) bool) (f format.Format, ok bool) {
	if found := formatsThat(is); len(found) > 0 {
		return found[0], true
	}
	return f, false
}

// messageFormat returns the format of the messages of FromTopic. An archive that is the only source has files with formats of their own.
func (o Options) messageFormat() (f format.Format, ok bool) {
	return first(func(f format.Format) bool {
		return f.IsOfMessages() && (f.Name == o.Format || o.Format == "" && o.Archive.Alone)
	})
}

// formatsOf returns the possible formats of the files, according to their names; all formats if there are no files.
func (o Options) formatsOf(files []string) (told []format.Format) {
	if len(files) == 0 && o.Format == "" {
		return formatsThat(format.Format.IsOfFiles)
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
	if o.Text != "" {
		why := ", as examples.text is set"
		if o.Mode == layout.Predicting {
			why = ", as the model was trained on texts"
		}
		if err := checkTable(f, c.Name, why); err != nil {
			return f, err
		}
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
	for _, f := range formatsThat(is) {
		names = append(names, quote+f.Name+quote)
	}
	return english.WordSeries(names, conjunction)
}

// checkTable returns a *input.Error for a file of a format that is not a table. why is the end of its text.
func checkTable(f format.Format, file, why string) error {
	if f.IsTable() {
		return nil
	}
	return input.WholeFile(file, fmt.Errorf("format %s: expected a table: %s%s", f.Name, formatNames("", "or", format.Format.IsTable), why))
}

// checkContent returns a *input.Error if a file that starts with these bytes is not of the format told by its name or by
// examples.format, if there is one. form is the detected form of the bytes, if known.
func (o Options) checkContent(file string, f format.Format, first []byte, form signature.Form) error {
	told := "its name"
	if o.Format != "" {
		told = o.Key("format")
	}
	encoded := f.IsText && o.Encoding != ""
	foreign := form.Name != "" && form.Format == "" && (form.Encoding == "" || o.Encoding == "")
	switch {
	case foreign:
		return input.WholeFile(file, fmt.Errorf("%s: %s", form.Name, form.OfFile(o.Key)))
	case f.Name == "" && len(first) == 0:
		return input.WholeFile(file, input.ErrEmpty)
	case f.Name == "":
		return input.WholeFile(file, errors.New("neither name nor content identifies the format: set "+o.Key("format")))
	case encoded || len(first) == 0: // an empty file is reported elsewhere
		return nil
	case form.Format != "" && form.Format != f.Name:
		return input.WholeFile(file, fmt.Errorf("not a %s file as given by %s: its format is %s: %s", f.Name, told, form.Format,
			form.OfFile(o.Key)))
	case f.IsText:
		return checkReturns(file, first)
	case form.Format == "" && signature.LooksLikeText(first):
		return input.WholeFile(file, fmt.Errorf("not a %s file as given by %s, but text: set %s: csv, jsonl or libsvm", f.Name,
			told, o.Key("format")))
	}
	return nil
}

// checkReturns returns a *input.Error if lines end with a carriage return only, as in classic Mac OS.
func checkReturns(file string, first []byte) error {
	at := bytes.IndexByte(first, '\r')
	if at < 0 || at == len(first)-1 || bytes.IndexByte(first, '\n') >= 0 {
		return nil
	}
	return &input.Error{File: file, Line: 1, Offset: -1,
		Err: errors.New("its lines end with only a carriage return: convert it with `tr '\\r' '\\n'`")}
}

// decode decodes the content of a text file to UTF-8, if the options set another encoding. It returns a *input.Error if
// the encoding is obviously wrong.
func (o Options) decode(c *input.Content, f format.Format) error {
	if o.Encoding == "" {
		return nil
	}
	if !f.IsText {
		return input.WholeFile(c.Name, fmt.Errorf("files of the format %s have no encoding: remove %s", f.Name, o.Key("encoding")))
	}
	first, err := c.Peek(c.Size())
	if err != nil && err != io.EOF {
		return err
	}
	if sniffed := signature.SniffEncoding(first); sniffed == "" && signature.IsUTF8(first) &&
		!strings.EqualFold(strings.ReplaceAll(o.Encoding, "-", ""), "utf8") {
		return input.WholeFile(c.Name, fmt.Errorf("the text is UTF-8, but %s is %s: remove it", o.Key("encoding"), o.Encoding))
	}
	c.DecodeText(o.Encoding)
	if first, err = c.Peek(c.Size()); err != nil && err != io.EOF {
		return err
	}
	return checkReturns(c.Name, first)
}
