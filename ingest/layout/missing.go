package layout

import (
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/schemas/value"
)

// IsMissing reports whether a text says that its value is missing.
func (l *Layout) IsMissing(text string) bool { return l.missing.Has(text) }

// CheckMissing returns an error if values may not be missing. what names the value.
func (l *Layout) CheckMissing(what string) error {
	switch {
	case l.Options.Missing == MissingMean:
		return nil
	case l.Options.Predicts():
		return errors.New(what + ": the model was trained with examples.missing: error")
	}
	return fmt.Errorf("%s: examples.missing: mean uses the mean of the column", what)
}

// missingText names a text that says that its value is missing.
func missingText(text string) string {
	if text == "" {
		return "an empty field"
	}
	return "a missing value, " + value.Quote(text)
}
