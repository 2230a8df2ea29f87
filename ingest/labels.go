package ingest

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stagewise/stagewise/schemas"
)

// maxLabels is the maximum number of labels whose text is kept.
const maxLabels = 1 << 16

// word checks a label and returns a string of its own, shared by all rows with that label. The text itself may be a slice of the row, and
// would keep all of it in memory.
func (l *layout) word(text string) (string, error) {
	if word, ok := l.labels[text]; ok {
		return word, nil
	}
	switch {
	case text == "":
		return "", errors.New("an empty label")
	case !utf8.ValidString(text):
		return "", fmt.Errorf("label %s is not UTF-8", quote(text))
	case len(text) > schemas.MaxLabel:
		return "", fmt.Errorf("label %s: expected at most %d bytes", quote(text), schemas.MaxLabel)
	case len(l.options.Classes) > 0:
		return "", fmt.Errorf("label %s is not one of the classes", quote(text))
	}
	if len(l.labels) == maxLabels {
		clear(l.labels)
	}
	word := strings.Clone(text)
	l.labels[word] = word
	return word, nil
}
