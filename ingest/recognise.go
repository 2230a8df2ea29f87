package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/internal/charset"
	"github.com/stagewise/stagewise/internal/signature"
)

// checkContent returns a *input.Error if a file that starts with these bytes is not of the format told by its name or by
// examples.format, if there is one. form is what the bytes are, if known.
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
	if o.Encoding == "" || c.Decoded {
		return nil
	}
	if !f.IsText {
		return input.WholeFile(c.Name, fmt.Errorf("files of the format %s have no encoding: remove %s", f.Name, o.Key("encoding")))
	}
	first, err := c.Peek(c.Size())
	if err != nil && err != io.EOF {
		return err
	}
	if sniffed := charset.Sniff(first); sniffed == "" && charset.IsUTF8(first) &&
		!strings.EqualFold(strings.ReplaceAll(o.Encoding, "-", ""), "utf8") {
		return input.WholeFile(c.Name, fmt.Errorf("the text is UTF-8, but %s is %s: remove it", o.Key("encoding"), o.Encoding))
	}
	c.DecodeText(o.Encoding)
	if first, err = c.Peek(c.Size()); err != nil && err != io.EOF {
		return err
	}
	return checkReturns(c.Name, first)
}
