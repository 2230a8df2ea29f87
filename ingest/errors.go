package ingest

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
)

// FileError says which place of which file can't be used, and why.
type FileError struct {
	File   string
	Line   int    // of a CSV file, from 1; 0: not known by line
	Offset int64  // of a byte, from 0; -1: not known by offset. In the decompressed content, or in the file if the compression itself is damaged
	Column string // number from 0, and name if there is a header; "": no particular one
	Err    error
}

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

func (e *FileError) Unwrap() error { return e.Err }

// wholeFile blames no particular place. The system's errors repeat the file's
// name, which is left out.
func wholeFile(name string, err error) *FileError {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return &FileError{File: name, Offset: -1, Err: err}
}

// quote shows a value that came from a file, however long it is.
func quote(text string) string {
	const enough = 40
	if len(text) > enough {
		return strconv.Quote(strings.ToValidUTF8(text[:enough], "")) + "…"
	}
	return strconv.Quote(text)
}
