package layout

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/stagewise/stagewise/schemas/value"
)

// Missing is the value of the key `missing`: the handling of missing values, empty fields in a file or nulls in a message.
type Missing struct {
	Mode    string   // MissingError or MissingMean
	Columns []string // columns that rows of a topic may stop to have, sorted; only with MissingMean
}

const (
	MissingError = "error" // Missing.Mode: a missing value is an error
	MissingMean  = "mean"  // Missing.Mode: the mean of the feature replaces a missing value
)

// MarshalJSON writes the mode, or an object with the mode of each of Columns.
func (m Missing) MarshalJSON() ([]byte, error) {
	if len(m.Columns) == 0 {
		return json.Marshal(m.Mode)
	}
	by := map[string]string{}
	for _, column := range m.Columns {
		by[column] = m.Mode
	}
	return json.Marshal(by)
}

// UnmarshalJSON reads a mode, or an object with the mode mean of each column.
func (m *Missing) UnmarshalJSON(content []byte) error {
	by := map[string]string{}
	*m = Missing{}
	if json.Unmarshal(content, &m.Mode) == nil {
		return nil
	}
	m.Mode = MissingMean
	if json.Unmarshal(content, &by) != nil || len(by) == 0 {
		return errMissing
	}
	for _, column := range slices.Sorted(maps.Keys(by)) {
		if by[column] != MissingMean {
			return errMissing
		}
		m.Columns = append(m.Columns, column)
	}
	return nil
}

var errMissing = errors.New("expected error or mean, or mean for each of some columns, as in {width: mean}")

// isMissing reports whether a text means a missing value.
func (l *Layout) isMissing(text string) bool { return l.missing.Has(text) }

// MissingValueError is the error about a missing value where none is allowed.
type MissingValueError string

func (e MissingValueError) Error() string { return string(e) }

// CheckMissing returns an error if missing values are not allowed. what names the value.
func (l *Layout) CheckMissing(what string) error {
	switch {
	case l.Options.Missing.Mode == MissingMean:
		return nil
	case l.Options.Mode == Predicting:
		return MissingValueError(what + ": the model was trained with examples.missing: error")
	}
	return MissingValueError(what + ": examples.missing: mean uses the mean of the column")
}

// missingText formats a missing-value text.
func missingText(text string) string {
	if text == "" {
		return "an empty field"
	}
	return "a missing value, " + value.Quote(text)
}
