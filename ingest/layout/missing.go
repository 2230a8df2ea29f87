package layout

import (
	"github.com/stagewise/stagewise/schemas/value"
)

// IsMissing reports whether a text means a missing value.
func (l *Layout) IsMissing(text string) bool { return l.missing.Has(text) }

// MissingValueError is the error about a missing value where none is allowed.
type MissingValueError string

func (e MissingValueError) Error() string { return string(e) }

// CheckMissing returns an error if missing values are not allowed. what names the value.
func (l *Layout) CheckMissing(what string) error {
	switch {
	case l.Options.Missing == MissingMean:
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
