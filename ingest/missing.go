package ingest

import (
	"errors"
	"fmt"
)

// isMissing reports whether a text says that its value is missing.
func (l *layout) isMissing(text string) bool { return text == "" || l.missing[text] }

// checkMissing returns an error if values may not be missing. what names the value.
func (l *layout) checkMissing(what string) error {
	switch {
	case l.options.Missing == MissingMean:
		return nil
	case l.options.predicts:
		return errors.New(what + ": the model was trained with examples.missing: error")
	}
	return fmt.Errorf("%s: examples.missing: mean takes the mean of the column", what)
}

// missingText names a text that says that its value is missing.
func missingText(text string) string {
	if text == "" {
		return "an empty field"
	}
	return "a missing value, " + quote(text)
}
