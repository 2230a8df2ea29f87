// Package input finds and opens files of any format: those that a pattern matches, and the tables in a directory, with
// partition values from directory names. It decompresses and digests their content, and its errors include the file and
// the line or offset. Formats interpret the bytes.
package input

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/stagewise/stagewise/internal/signature"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Error is an error in a file, with the position and the reason.
type Error struct {
	// File is the file name from the options.
	File string
	// Line is the line of a CSV, from 1. It is 0 if the error is at an offset, or has no position.
	Line int
	// Offset is the byte offset, from 0. It is -1 if the error is at a line, or has no position. It refers to the decompressed
	// content, or to the file itself if the compression is damaged.
	Offset int64
	// Column is the number of a column, from 0, and its name if there is a header; "" if the error is not in a single column.
	Column string
	// Err is the reason.
	Err error
}

// EmptyError is the error of a file without rows. A part of a table may be empty.
type EmptyError string

// ErrEmpty is the error of a file without bytes.
const ErrEmpty = EmptyError("an empty file")

func (e EmptyError) Error() string { return string(e) }

// Error returns the file, the position and the reason, in one line.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(e.File)
	switch {
	case e.Line > 0:
		text.WriteString(": line " + strconv.Itoa(e.Line))
	case e.Offset >= 0:
		text.WriteString(": offset " + strconv.FormatInt(e.Offset, 10))
	}
	if e.Column != "" {
		text.WriteString(", column " + e.Column)
	}
	return text.String() + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// WholeFile returns an error without a position. It removes the file name from the errors of the system, because Error
// includes it.
func WholeFile(name string, err error) *Error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return &Error{File: name, Offset: -1, Err: err}
}

// readSize is the number of bytes per system call.
const readSize = 1 << 16

// Content is the decompressed content of an open file. Its errors are io.EOF and *Error.
type Content struct {
	*bufio.Reader
	Name   string
	Kind   string      // compression: "gzip", "bzip2", "zstd"; "": none
	File   *fileBytes  // as stored
	Path   []Partition // partition values from directory names
	packed *bufio.Reader
	unzip  *zstd.Decoder
}

// New detects the compression by the first bytes, not by the name, since files are often decompressed without being
// renamed.
func New(ctx context.Context, name string, file io.ReadCloser) (*Content, error) {
	raw := &fileBytes{ReadCloser: file, ctx: ctx, sum: sha256.New()}
	c := &Content{Name: name, File: raw, packed: bufio.NewReaderSize(raw, readSize)}
	from := io.Reader(c.packed)
	magic, err := c.packed.Peek(signature.CompressionBytes)
	if err != nil && err != io.EOF {
		return nil, WholeFile(name, err)
	}
	switch c.Kind, err = signature.Compression(magic), nil; c.Kind {
	case "gzip":
		from, err = gzip.NewReader(c.packed)
	case "bzip2":
		from = bzip2.NewReader(c.packed)
	case "zstd":
		c.unzip, err = zstd.NewReader(c.packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxZstdWindow))
		from = c.unzip
	}
	if err != nil {
		return nil, c.fail(err)
	}
	c.Reader = bufio.NewReaderSize(placed{from, c.fail}, readSize)
	return c, nil
}

// SkipMark skips a byte order mark, with which some programs begin a text.
func (c *Content) SkipMark() {
	if mark, _ := c.Peek(3); string(mark) == "\ufeff" {
		c.Discard(3)
	}
}

// DecodeText converts the rest of the content to UTF-8.
func (c *Content) DecodeText(from string) {
	c.Reader = bufio.NewReaderSize(placed{signature.NewTextReader(c.Reader, from), func(err error) error {
		if errors.As(err, new(*signature.EncodingError)) {
			err = WholeFile(c.Name, fmt.Errorf("%w, which examples.encoding expects", err))
		}
		return err
	}}, readSize)
}

// placed adds the position to the errors of a reader.
type placed struct {
	io.Reader
	place func(error) error
}

func (r placed) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		err = r.place(err)
	}
	return n, err
}

func (c *Content) Close() error {
	if c.unzip != nil {
		c.unzip.Close()
	}
	return c.File.Close()
}

// Digest is the sha256 of the bytes of the file read so far, which are all of them once Read has returned io.EOF.
func (c *Content) Digest() wire.Digest {
	return wire.Digest(hex.EncodeToString(c.File.sum.Sum(nil)))
}

// Bytes is the number of bytes of the file read so far: see Digest.
func (c *Content) Bytes() int64 { return c.File.read }

// maxZstdWindow limits the memory that a file may request: by default, `zstd -d` rejects larger windows too.
const maxZstdWindow = 128 << 20

// fileBytes reads a file, counts its bytes and digests them. It fails once the context has ended.
type fileBytes struct {
	io.ReadCloser
	ctx  context.Context
	read int64 // number of bytes so far
	sum  hash.Hash
}

func (f *fileBytes) Read(p []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := f.ReadCloser.Read(p)
	f.read += int64(n)
	f.sum.Write(p[:n])
	return n, err
}

// fail returns an error of the file or of its decompressor, at the next byte of the file.
func (c *Content) fail(err error) error {
	e := WholeFile(c.Name, err)
	if c.Kind == "" || c.File.ctx.Err() != nil {
		return e
	}
	e.Offset = c.Bytes() - int64(c.packed.Buffered())
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		e.Err = fmt.Errorf("the %s stream is cut off: %w", c.Kind, io.ErrUnexpectedEOF)
	} else {
		e.Err = fmt.Errorf("the %s stream is damaged: %w", c.Kind, e.Err)
	}
	return e
}

// LineReader reads a file line by line.
type LineReader struct {
	*Content
	Line int    // number of the last line, from 1
	long []byte // buffer for lines longer than that of the content
}

// ReadLine returns the next line with its end, which is valid until the next call; io.EOF after the last. A line of more
// than MaxRowBytes is an error.
func (r *LineReader) ReadLine() ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		r.long = r.long[:0]
		for ; err == bufio.ErrBufferFull && len(r.long) <= MaxRowBytes; line, err = r.ReadSlice('\n') {
			r.long = append(r.long, line...)
		}
		r.long = append(r.long, line...)
		line = r.long
	}
	if len(line) > 0 {
		r.Line++
	}
	switch {
	case err != nil && err != bufio.ErrBufferFull && (err != io.EOF || len(line) == 0):
		return nil, err
	case len(line) > MaxRowBytes:
		return nil, r.FailLine(fmt.Errorf("a line of more than %d MiB", MaxRowBytes>>20))
	}
	return line, nil
}

// FailLine returns an error at the last line.
func (r *LineReader) FailLine(err error) *Error {
	return &Error{File: r.Name, Line: r.Line, Offset: -1, Err: err}
}

// FirstRows peeks at the first complete rows of a file. They are valid until it is read.
func FirstRows(c *Content) ([]byte, error) {
	first, err := c.Peek(c.Size())
	if err != nil && err != io.EOF {
		return nil, err
	}
	if end := bytes.LastIndexByte(first, '\n'); err == nil && end >= 0 { // the last row may be incomplete
		first = first[:end+1]
	}
	return first, nil
}

// MaxRowBytes is the maximum length of a row in a file. Without it an open quote would read the rest of the file into
// memory. The widest example that fits into a message has 215,000 features, 19 bytes each.
const MaxRowBytes = 4 << 20

// EndsRow reports whether a row of a text file ends after the given number of bytes, which is less than the file size.
func EndsRow(file io.Reader, bytes int64) (bool, error) {
	if _, err := io.CopyN(io.Discard, file, bytes-1); err != nil {
		return false, err
	}
	var around [3]byte // the last byte, and two after it
	n, err := io.ReadFull(file, around[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	text := string(around[:n])
	return text[0] == '\n' || n > 1 && text[1] == '\n' || n > 2 && text[1:] == "\r\n", nil
}
