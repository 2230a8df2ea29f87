package schemas

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// Labels is the frozen set of classes of a run, in order: class c of every
// score, residual and probability is the label Text[c]. Labels compare as
// text, so the number 7 and the word "7" are one class.
type Labels struct {
	text    []string
	words   map[string]int32
	numbers map[int64]int32 // those that are whole numbers, so that no row makes text
}

// CheckLabels tells whether a label stands twice among those of a set of classes.
func CheckLabels(text []string) error {
	seen := make(map[string]struct{}, len(text))
	for _, t := range text {
		if _, twice := seen[t]; twice {
			return fmt.Errorf("label %s twice", quote(t))
		}
		seen[t] = struct{}{}
	}
	return nil
}

// NewLabels freezes the labels in the order given. It panics on a duplicate, so
// those that somebody else has written go through CheckLabels first.
func NewLabels(text []string) *Labels {
	l := &Labels{text: text, words: make(map[string]int32, len(text)), numbers: map[int64]int32{}}
	for c, t := range text {
		if _, twice := l.words[t]; twice {
			panic(fmt.Sprintf("schemas: label %q twice", t))
		}
		l.words[t] = int32(c)
		if n, err := strconv.ParseInt(t, 10, 64); err == nil && strconv.FormatInt(n, 10) == t {
			l.numbers[n] = int32(c)
		}
	}
	return l
}

// SortLabels puts labels in the order of a run that found them itself: by
// value if all are numbers, else by their bytes.
func SortLabels(text []string) {
	values := make(map[string]float64, len(text))
	for _, t := range text {
		v, err := strconv.ParseFloat(t, 64)
		if err != nil {
			slices.Sort(text)
			return
		}
		values[t] = v
	}
	slices.SortFunc(text, func(a, b string) int {
		return cmp.Or(cmp.Compare(values[a], values[b]), cmp.Compare(a, b))
	})
}

// Len is the number of classes.
func (l *Labels) Len() int { return len(l.text) }

// Text is the labels in order. It is not to be changed.
func (l *Labels) Text() []string { return l.text }

// UnknownLabelError says that an example has a label that is not in the frozen
// set of classes.
type UnknownLabelError struct {
	Row   int
	Label string
}

func (e *UnknownLabelError) Error() string {
	return fmt.Sprintf("row %d: label %q is not one of the classes", e.Row, e.Label)
}

func (e *UnknownLabelError) Unwrap() error { return ErrDamaged }

// Unlabelled is the class of a row without a label.
const Unlabelled = -1

// Classes writes the class of each row into dst, Unlabelled where there is no
// label, and answers an *UnknownLabelError for a label that l does not have.
func (e *Examples) Classes(dst []int32, l *Labels) error {
	for row := range e.Rows {
		if !e.Labelled(row) {
			dst[row] = Unlabelled
			continue
		}
		class, ok := int32(0), false
		if e.words != nil {
			class, ok = l.words[e.words.Value(row)]
		} else {
			class, ok = l.numbers[e.numbers(row)]
		}
		if !ok {
			return &UnknownLabelError{row, e.Label(row)}
		}
		dst[row] = class
	}
	return nil
}
