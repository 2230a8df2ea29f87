package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// LineReader reads a file line by line.
type LineReader struct {
	*Content
	Line int    // number of the last line, from 1
	long []byte // buffer for lines longer than that of the content
}

// ReadLine returns the next line with its end, which is valid until the next call; io.EOF after the last. A line of more
// than MaxRowBytes is an error.
func (r *LineReader) ReadLine() ([]byte, error) {
	r.long = r.long[:0]
	for {
		part, err := r.ReadSlice('\n')
		if len(r.long) == 0 && len(part) > 0 {
			r.Line++
		}
		switch {
		case err == nil && len(r.long) == 0, err == io.EOF && len(r.long) == 0 && len(part) > 0:
			return part, nil
		case err != nil && err != bufio.ErrBufferFull && err != io.EOF:
			return nil, err
		}
		if r.long = append(r.long, part...); len(r.long) > MaxRowBytes {
			return nil, r.FailLine(fmt.Errorf("a line of more than %d MiB", MaxRowBytes>>20))
		}
		switch {
		case err == nil, err == io.EOF && len(r.long) > 0:
			return r.long, nil
		case err == io.EOF:
			return nil, io.EOF
		}
	}
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
