package examples

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
)

// Labels is the frozen set of classes of a run, in order. Class c of every score, residual and probability is the label
// Text()[c]. Labels compare as text, so the number 7 and the word "7" are the same class, and so are true, True and TRUE
// unless the set has several of them. [TypeOf] returns their type in reports. Create one with [NewLabels].
type Labels struct {
	text    []string
	words   map[string]int32
	numbers map[int64]int32 // classes with integer labels, to look up numbers without formatting them
}

// CheckLabels returns an error if a label occurs twice.
func CheckLabels(text []string) error {
	seen := make(map[string]struct{}, len(text))
	for _, t := range text {
		if _, twice := seen[t]; twice {
			return fmt.Errorf("label %s occurs twice", stream.Quote(t))
		}
		seen[t] = struct{}{}
	}
	return nil
}

// NewLabels returns the set of classes with these labels, in order. It panics if a label occurs twice. Call [CheckLabels]
// first for labels from a topic or a file.
func NewLabels(text []string) *Labels {
	l := &Labels{text: text, words: make(map[string]int32, len(text)), numbers: map[int64]int32{}}
	for c, t := range text {
		if _, twice := l.words[t]; twice {
			panic(fmt.Sprintf("schemas: label %q occurs twice", t))
		}
		l.words[t] = int32(c)
		if n, whole := wholeNumber(t); whole {
			l.numbers[n] = int32(c)
		}
	}
	for c, t := range text {
		if other := value.Label(t); l.words[t] == int32(c) {
			if _, taken := l.words[other]; !taken {
				l.words[other] = int32(c)
			}
		}
	}
	return l
}

// SortLabels sorts labels into the order that a run without configured classes uses: by value if all are numbers,
// otherwise by their bytes.
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

// find returns the class of a label.
func (l *Labels) find(label string) (class int32, ok bool) {
	if class, ok = l.words[label]; !ok {
		class, ok = l.words[value.Label(label)]
	}
	return class, ok
}

// Spelt returns a label in the spelling of its class, such as True if the classes have True. Other labels are returned unchanged.
func (l *Labels) Spelt(label string) string {
	if class, ok := l.find(label); ok {
		return l.text[class]
	}
	return label
}

// Len returns the number of classes.
func (l *Labels) Len() int { return len(l.text) }

// Text returns the labels in order. The caller must not change them.
func (l *Labels) Text() []string { return l.text }
