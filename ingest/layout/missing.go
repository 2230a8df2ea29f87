package layout

import (
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/schemas/value"
)

// IsMissing reports whether a text means a missing value.
func (l *Layout) IsMissing(text string) bool { return l.missing.Has(text) }

// CheckMissing returns an error if missing values are not allowed. what names the value.
func (l *Layout) CheckMissing(what string) error {
	switch {
	case l.Options.Missing == MissingMean:
		return nil
	case l.Options.Predicts():
		return errors.New(what + ": the model was trained with examples.missing: error")
	}
	return fmt.Errorf("%s: examples.missing: mean uses the mean of the column", what)
}

// missingText formats a missing-value text.
func missingText(text string) string {
	if text == "" {
		return "an empty field"
	}
	return "a missing value, " + value.Quote(text)
}
