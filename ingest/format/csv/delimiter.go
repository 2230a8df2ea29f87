package csv

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/value"
)

// delimiters are the supported automatic delimiters. The first is that of RFC 4180.
const delimiters = ",;\t|"

// delimiterOf returns the delimiter of a file: that of the options, or one detected in its first rows. If several
// delimiters give rows of equal length, it is the one with the most numeric fields. It returns a *input.Error if that is
// ambiguous.
func delimiterOf(o layout.Options, file string, first []byte) (rune, error) {
	if o.Delimiter != "" {
		return []rune(o.Delimiter)[0], nil
	}
	best, maximum, ways := ',', -1.0, []string(nil)
	for _, delimiter := range delimiters {
		columns, numbers := tryDelimiter(first, delimiter)
		if columns < 2 || numbers < maximum {
			continue
		}
		if numbers > maximum {
			ways = nil
		}
		best, maximum, ways = delimiter, numbers, append(ways, fmt.Sprintf("%q (%d columns)", string(delimiter), columns))
	}
	if len(ways) > 1 {
		err := fmt.Errorf("several delimiters fit its rows, %s: set %s", strings.Join(ways, " and "), o.Key("delimiter"))
		return 0, &input.Error{File: file, Line: 1, Offset: -1, Err: err}
	}
	return best, nil
}

// detectRows is the number of rows used to detect the delimiter.
const detectRows = 20

// tryDelimiter returns the number of columns of the first rows with a delimiter, and the fraction of numeric fields, with
// a decimal point or comma. It returns 0 columns if the rows differ, or can't be parsed.
func tryDelimiter(first []byte, delimiter rune) (columns int, numbers float64) {
	parser := newParser(bytes.NewReader(first), delimiter)
	fields := 0
	for row := 0; row < detectRows; {
		record, err := parser.Read()
		switch {
		case err == io.EOF:
			return columns, numbers / max(1, float64(fields))
		case err != nil:
			return 0, 0
		case len(record) == 1 && strings.TrimSpace(record[0]) == "":
			continue // a blank row
		case row > 0 && len(record) != columns:
			return 0, 0
		}
		columns = len(record)
		row++
		for _, field := range record {
			field = strings.TrimSpace(field)
			if _, err := value.Number(field); err == nil || layout.DecimalComma.MatchString(field) {
				numbers++
			}
			fields++
		}
	}
	return columns, numbers / float64(fields)
}
