package csv

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Rows returns the non-blank rows of a message value. An empty delimiter means a comma. Its errors have the line, from 1,
// and the byte.
func Rows(value []byte, delimiter string) (rows [][]string, err error) {
	comma := ','
	if delimiter != "" {
		comma = []rune(delimiter)[0]
	}
	parser := newParser(bytes.NewReader(value), comma)
	parser.ReuseRecord = false
	for {
		row, err := parser.Read()
		if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
			return nil, fmt.Errorf("line %d, byte %d: %w", syntax.Line, syntax.Column, syntax.Err)
		}
		switch {
		case err == io.EOF:
			return rows, nil
		case err != nil:
			return nil, err
		case len(row) == 1 && strings.TrimSpace(row[0]) == "": // a blank row
			continue
		}
		rows = append(rows, slices.Clip(row))
	}
}
