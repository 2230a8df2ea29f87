// Package input finds and opens files of any format: those that a pattern matches, and the tables in a directory, with
// partition values from directory names. It decompresses and digests their content, and its errors include the file and
// the line or offset. Formats interpret the bytes.
package input

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
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
