package input

import (
	"errors"
	"io"
)

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
