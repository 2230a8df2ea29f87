package input

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
)

// Error describes the file that can't be read, the place, and the reason.
type Error struct {
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

// EmptyError is the error of a file without rows. A part of a table may have none.
type EmptyError string

// ErrEmpty is the error of a file without bytes.
const ErrEmpty = EmptyError("an empty file")

func (e EmptyError) Error() string { return string(e) }

// Error returns the file, the place and the reason, in one line.
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

// WholeFile returns an error without a place. It drops the name of the file that
// the system's errors have in them, as Error has it too.
func WholeFile(name string, err error) *Error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return &Error{File: name, Offset: -1, Err: err}
}
