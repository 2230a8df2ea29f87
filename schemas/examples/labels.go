package examples

import (
	"cmp"
	"encoding/json"
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

// Find returns the class of a label.
func (l *Labels) Find(label string) (class int32, ok bool) {
	if class, ok = l.words[label]; !ok {
		class, ok = l.words[value.Label(label)]
	}
	return class, ok
}

// Spelt returns a label in the spelling of its class, such as True if the classes have True. Other labels are returned unchanged.
func (l *Labels) Spelt(label string) string {
	if class, ok := l.Find(label); ok {
		return l.text[class]
	}
	return label
}

// Len returns the number of classes.
func (l *Labels) Len() int { return len(l.text) }

// Text returns the labels in order. The caller must not change them.
func (l *Labels) Text() []string { return l.text }

// LabelType is the type of the labels of a version. On topics and in model files, all labels are text.
type LabelType string

// The types of labels.
const (
	TextLabels  LabelType = ""      // some are not integers
	WholeLabels LabelType = "int64" // all labels are integers, in their shortest form
)

// TypeOf returns the type of labels. They are integers only if all of them are: 7 is an integer; 007, +7 and 7.0 are text.
func TypeOf(labels []string) LabelType {
	for _, label := range labels {
		if _, whole := wholeNumber(label); !whole {
			return TextLabels
		}
	}
	if len(labels) == 0 {
		return TextLabels
	}
	return WholeLabels
}

// WholeNumbers returns labels that are all integers as numbers. It panics for other labels.
func WholeNumbers(labels []string) []int64 {
	numbers := make([]int64, len(labels))
	for i, label := range labels {
		n, whole := wholeNumber(label)
		if !whole {
			panic(fmt.Sprintf("schemas: label %q as a whole number", label))
		}
		numbers[i] = n
	}
	return numbers
}

// Check returns an error if labels do not have the type.
func (t LabelType) Check(labels []string) error {
	if t != TextLabels && (t != WholeLabels || TypeOf(labels) != WholeLabels) {
		return fmt.Errorf("labels %q, expected labels of the type %q", labels, t)
	}
	return nil
}

// Values returns labels of the type as JSON values: strings or integers.
func (t LabelType) Values(labels []string) []json.RawMessage {
	values := make([]json.RawMessage, len(labels))
	for i, label := range labels {
		if t == WholeLabels {
			values[i] = json.RawMessage(label)
			continue
		}
		values[i], _ = json.Marshal(label) // a string has JSON
	}
	return values
}

// wholeNumber parses an integer. It returns false unless the text is the shortest form of the integer.
func wholeNumber(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == text
}

// ClassLabels are labels in reports: JSON integers if all labels are integers, otherwise strings.
type ClassLabels []string

// MarshalJSON implements json.Marshaler.
func (l ClassLabels) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("null"), nil
	}
	return json.Marshal(TypeOf(l).Values(l))
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *ClassLabels) UnmarshalJSON(text []byte) error {
	var numbers []int64
	if err := json.Unmarshal(text, (*[]string)(l)); err == nil || json.Unmarshal(text, &numbers) != nil {
		return err
	}
	*l = (*l)[:0]
	for _, n := range numbers {
		*l = append(*l, strconv.FormatInt(n, 10))
	}
	return nil
}

// LabelRows is the number of rows with a label.
type LabelRows struct {
	Label string `json:"label"` // label
	Rows  int64  `json:"rows"`  // number of rows
}
