package ingest

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
)

// FileError says which file can't be read, at which place, and why.
type FileError struct {
	// File is the name of the file, as the options have it.
	File string
	// Line is the line of a CSV, from 1. It is 0 if the error is at an offset, or
	// at no particular place.
	Line int
	// Offset is the offset of a byte, from 0. It is -1 if the error is at a line,
	// or at no particular place. It counts the bytes of the decompressed content,
	// or those of the file itself if the compression is damaged.
	Offset int64
	// Column is the number of a column, from 0, and its name if there is a header;
	// "" if the error is not in a single column.
	Column string
	// Err is the reason.
	Err error
}

// Error returns the file, the place and the reason, in one line.
func (e *FileError) Error() string {
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
func (e *FileError) Unwrap() error { return e.Err }

// wholeFile returns an error without a place. It drops the name of the file that
// the system's errors have in them, as FileError has it too.
func wholeFile(name string, err error) *FileError {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return &FileError{File: name, Offset: -1, Err: err}
}

// quote returns a value of a file for an error. It cuts long values off.
func quote(text string) string {
	const maxBytes = 40
	if len(text) > maxBytes {
		return strconv.Quote(strings.ToValidUTF8(text[:maxBytes], "")) + "…"
	}
	return strconv.Quote(text)
}
