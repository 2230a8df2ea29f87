package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/internal/charset"
)

// recognised returns the non-text format whose files start with these bytes.
func recognised(first []byte) (f format.Format, ok bool) {
	all := formats()
	i := slices.IndexFunc(all, func(f format.Format) bool { return !f.IsText && f.Recognise != nil && f.Recognise(first) })
	if i < 0 {
		return format.Format{}, false
	}
	return all[i], true
}

// checkContent returns a *input.Error if the content of a file does not match its name or examples.format. It consumes
// nothing.
func (o Options) checkContent(c *input.Content, f format.Format) error {
	first, err := c.Peek(c.Size())
	switch {
	case err != nil && err != io.EOF:
		return err
	case len(first) == 0: // an empty file is reported elsewhere
		return nil
	}
	told := "its name"
	if o.Format != "" {
		told = o.Key("format")
	}
	other, known := recognised(first)
	switch {
	case f.IsText && known && o.Encoding == "":
		return o.misnamed(c.Name, f, told, other.Name)
	case f.IsText:
		return o.checkLines(c.Name, first)
	case f.Recognise == nil || f.Recognise(first):
		return nil
	case known:
		return o.misnamed(c.Name, f, told, other.Name)
	case input.LooksLikeText(first):
		return input.WholeFile(c.Name, fmt.Errorf("not a %s file as given by %s, but text: set %s: csv, jsonl or libsvm", f.Name,
			told, o.Key("format")))
	}
	return nil
}

// misnamed returns the error of a file whose format differs from the one told by its name or a key.
func (o Options) misnamed(file string, f format.Format, told, other string) error {
	return input.WholeFile(file, fmt.Errorf("not a %s file as given by %s: its format is %s: set %s: %s",
		f.Name, told, other, o.Key("format"), other))
}

// checkLines returns a *input.Error if a text file starts with invalid bytes.
func (o Options) checkLines(file string, first []byte) error {
	if o.Encoding != "" {
		return nil
	}
	if in := charset.Sniff(first); in != "" {
		return input.WholeFile(file, fmt.Errorf("text in UTF-16: set %s: %s, or convert it with `iconv -f %s -t utf-8`",
			o.Key("encoding"), in, strings.ToUpper(in)))
	}
	return checkReturns(file, first)
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
