package csv

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/message"
)

// lines is the name of this format, also for CSV files.
const lines = "csv"

const meaning = "one example a line, without a header"

// Messages is CSV (RFC 4180) in messages, without a header, one example in each row. With columns.use a row may have more
// columns than are named. Otherwise all rows have as many as the first one.
func Messages() message.Format {
	return message.Format{
		Name:    lines,
		Meaning: meaning,
		Label:   Label,
		IsText:  true,
		Width:   width,
		Open:    func(o message.Options) (message.Reader, error) { return &messages{delimiter: o.Delimiter}, nil },
	}
}

// width returns the number of columns to read of a row with n columns.
func width(o layout.Options, n int) (columns int, exact bool, err error) {
	if len(o.Columns.Use) == 0 {
		return n, true, nil
	}
	for _, c := range o.NamedColumns() {
		if at, err := strconv.Atoi(string(c)); err == nil {
			columns = max(columns, at+1)
		}
	}
	if columns > n {
		return 0, false, fmt.Errorf("%d columns, expected at least %d", n, columns)
	}
	return columns, false, nil
}

// messages reads lines.
type messages struct {
	delimiter string
	read      [][]tabular.Cell
}

// Names implements message.Reader.
func (r *messages) Names() []string { return nil }

// Read implements message.Reader. A syntax error has the line, from 1, and the byte.
func (r *messages) Read(_ context.Context, p message.Payload) ([][]tabular.Cell, error) {
	comma := ','
	if r.delimiter != "" {
		comma = []rune(r.delimiter)[0]
	}
	parser := newParser(bytes.NewReader(p.Value), comma)
	r.read = r.read[:0]
	for {
		record, err := parser.Read()
		if syntax, ok := errors.AsType[*csv.ParseError](err); ok {
			return nil, fmt.Errorf("line %d, byte %d: %w", syntax.Line, syntax.Column, syntax.Err)
		}
		switch {
		case err == io.EOF && len(r.read) == 0:
			return nil, errors.New("an empty value: expected " + meaning)
		case err == io.EOF:
			return r.read, nil
		case err != nil:
			return nil, err
		case len(record) == 1 && strings.TrimSpace(record[0]) == "": // a blank row
			continue
		}
		row := message.NextRow(&r.read, len(record))
		for i, text := range record {
			row[i] = tabular.Word(text)
		}
	}
}
