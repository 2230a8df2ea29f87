package ingest

import (
	"bufio"
	"fmt"
	"io"
)

// lineReader reads a file line by line.
type lineReader struct {
	*content
	line int    // number of the line read last, from 1
	long []byte // memory for lines that are longer than the buffer of the content
}

// readLine returns the next line with its end, which is valid until the next call; io.EOF after the last. A line of more than maxRowBytes is an
// error.
func (r *lineReader) readLine() ([]byte, error) {
	r.long = r.long[:0]
	for {
		part, err := r.ReadSlice('\n')
		if len(r.long) == 0 && len(part) > 0 {
			r.line++
		}
		switch {
		case err == nil && len(r.long) == 0, err == io.EOF && len(r.long) == 0 && len(part) > 0:
			return part, nil
		case err != nil && err != bufio.ErrBufferFull && err != io.EOF:
			return nil, err
		}
		if r.long = append(r.long, part...); len(r.long) > maxRowBytes {
			return nil, r.failLine(fmt.Errorf("a line of more than %d MiB", maxRowBytes>>20))
		}
		switch {
		case err == nil, err == io.EOF && len(r.long) > 0:
			return r.long, nil
		case err == io.EOF:
			return nil, io.EOF
		}
	}
}

// failLine returns an error at the line read last.
func (r *lineReader) failLine(err error) *FileError {
	return &FileError{File: r.name, Line: r.line, Offset: -1, Err: err}
}
