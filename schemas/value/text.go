// Package value parses the values of rows written by people and programs: numbers, booleans, words, labels and missing
// values, as text and as JSON. Files, topics, requests and messages of examples are all parsed here, so the same row has
// the same values from every source.
package value

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrNotUTF8 reports that a text is not UTF-8. Invalid bytes are not replaced: words that differ only in these bytes
// would become the same word.
var ErrNotUTF8 = errors.New("not UTF-8")

// CheckText returns an error, which wraps [ErrNotUTF8], unless a text is UTF-8.
func CheckText(text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	return fmt.Errorf("%s is %w", Quote(text), ErrNotUTF8)
}

// CheckUTF8 is CheckText for a long text: the error has the index of the invalid byte.
func CheckUTF8(text []byte) error {
	if utf8.Valid(text) {
		return nil
	}
	at := 0
	for at < len(text) {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return fmt.Errorf("byte %d, %#02x, is %w", at, text[at], ErrNotUTF8)
}

// UUID returns the text of a UUID of 16 bytes.
func UUID(id []byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
}
