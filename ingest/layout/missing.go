package layout

import (
	"encoding/json"

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

// IsMissing reports whether a text means a missing value.
func (l *Layout) IsMissing(text string) bool { return l.missing.Has(text) }

// MissingValueError is the error about a missing value where none is allowed.
type MissingValueError string

func (e MissingValueError) Error() string { return string(e) }

// CheckMissing returns an error if missing values are not allowed. what names the value.
func (l *Layout) CheckMissing(what string) error {
	switch {
	case l.Options.Missing.Mode == MissingMean:
		return nil
	case l.Options.Predicts():
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
