package examples

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
)

// Labels is the frozen set of classes of a run, in order. Class c of every score, residual and probability is the label
// Text()[c]. Labels compare as text, so the number 7 and the word "7" are the same class, and so are true, True and TRUE
// unless the set has several of them. [TypeOf] returns their type in reports. Create one with [NewLabels].
type Labels struct {
	text  []string
	words map[string]int32
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
	l := &Labels{text: text, words: make(map[string]int32, len(text))}
	for c, t := range text {
		if _, twice := l.words[t]; twice {
			panic(fmt.Sprintf("schemas: label %q occurs twice", t))
		}
		l.words[t] = int32(c)
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

// Classes of rows without a class. All of them are negative.
const (
	Unlabelled = -1 // a row without a label
	Unknown    = -2 // a row with a label that is not a class
)

// ErrLabelLists is the error of a message whose rows have lists of labels.
var ErrLabelLists = errors.New("a list of labels for each example: expected one label, or examples.labels: several")

// UnknownLabel returns the error of a label that is not in the frozen set of classes. It wraps [wire.ErrDamaged].
func UnknownLabel(row int, label string) error {
	return &ValueError{row, -1, fmt.Sprintf("label %q is not one of the classes", label)}
}

// HasLists reports whether each row has a list of labels.
func (r *Rows) HasLists() bool { return r.LabelLists != nil }

// MissLabels sets words that mean no label: a row with one of them has no label, like a row with null or empty text. It returns r.
func (r *Rows) MissLabels(words value.Missing) *Rows {
	for row, labels := range r.LabelLists {
		if known := slices.DeleteFunc(labels, words.Has); len(known) > 0 || len(labels) == 0 {
			r.LabelLists[row] = known
		} else {
			r.LabelLists[row] = nil
		}
	}
	for row := range r.NoLabel {
		if !r.NoLabel[row] && (r.Words != nil || words.HasNumbers()) {
			r.NoLabel[row] = words.Has(r.LabelText(row))
		}
	}
	return r
}

// Unlabel removes the label and the targets of a row, so that it is not used for training.
func (r *Rows) Unlabel(row int) {
	if r.unlabelled == nil {
		r.unlabelled = make([]bool, r.Rows)
	}
	r.unlabelled[row] = true
}

// left reports whether a row is forgotten, or its label was removed.
func (r *Rows) left(row int) bool {
	return r.forgotten != nil && r.forgotten[row] || r.unlabelled != nil && r.unlabelled[row]
}

// hasLabel reports whether a row has a label, or a list of labels, which may be empty.
func (r *Rows) hasLabel(row int) bool {
	if len(r.LabelLists) > 0 {
		return r.LabelLists[row] != nil
	}
	return len(r.Words)+len(r.Numbers) > 0 && (len(r.NoLabel) == 0 || !r.NoLabel[row])
}

// Labelled reports whether a row has a label. A forgotten row has none.
func (r *Rows) Labelled(row int) bool { return !r.left(row) && r.hasLabel(row) }

// WithoutLabel returns the number of rows without a label, excluding forgotten rows and those of [Rows.Unlabel].
func (r *Rows) WithoutLabel() (rows int64) {
	for row := range r.Rows {
		if !r.left(row) && !r.hasLabel(row) {
			rows++
		}
	}
	return rows
}

// LabelText returns the label of a row as it is written; "": it has none. The rows are not multi-label.
func (r *Rows) LabelText(row int) string {
	switch {
	case len(r.NoLabel) > 0 && r.NoLabel[row]:
	case len(r.Words) > 0:
		return r.Words[row]
	case len(r.Numbers) > 0:
		return strconv.FormatInt(r.Numbers[row], 10)
	}
	return ""
}

// Label returns the label of a labelled row. The rows are not multi-label.
func (r *Rows) Label(row int) string { return value.Label(r.LabelText(row)) }

// Labels yields the labels of a labelled row: a single one, unless the rows have lists.
func (r *Rows) Labels(row int) iter.Seq[string] {
	return func(yield func(string) bool) {
		if len(r.LabelLists) == 0 {
			yield(r.Label(row))
			return
		}
		for _, label := range r.LabelLists[row] {
			if !yield(value.Label(label)) {
				return
			}
		}
	}
}

// Classes writes the class of each row into dst, or [Unlabelled] for a row without a label. It calls unknown for a label that l
// does not have: the row is then [Unknown], unless unknown returns an error, such as [UnknownLabel], which Classes returns. dst has an
// element for each row.
func (r *Rows) Classes(dst []int32, l *Labels, unknown func(row int, label string) error) error {
	for row := range r.Rows {
		if !r.Labelled(row) {
			dst[row] = Unlabelled
			continue
		}
		class, ok := l.Find(r.LabelText(row))
		if dst[row] = class; ok {
			continue
		}
		dst[row] = Unknown
		if err := unknown(row, r.Label(row)); err != nil {
			return err
		}
	}
	return nil
}

// LabelSets writes 1 for each label of a row and 0 for the others into dst (Rows × k, row-major), and 0 or [Unlabelled]
// into classes, which has an element for each row. It calls unknown for a label that l does not have: the row is then
// [Unlabelled], unless unknown returns an error, which LabelSets returns.
func (r *Rows) LabelSets(dst []float32, classes []int32, l *Labels, unknown func(row int, label string) error) error {
	clear(dst)
	k := l.Len()
	for row := range r.Rows {
		if classes[row] = Unlabelled; !r.Labelled(row) {
			continue
		}
		classes[row] = 0
		for label := range r.Labels(row) {
			class, ok := l.Find(label)
			if !ok {
				if err := unknown(row, label); err != nil {
					return err
				}
				classes[row] = Unlabelled
				continue
			}
			dst[row*k+int(class)] = 1
		}
	}
	return nil
}
