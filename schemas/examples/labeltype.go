package examples

import (
	"encoding/json"
	"fmt"
	"strconv"
)

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

// wholeNumber returns the integer whose shortest form is a text, and whether there is one.
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
