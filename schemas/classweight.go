package schemas

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"strings"
)

// ClassWeight is the value of the key `class_weight`: the factors of the weights of training rows, by
// class. The zero value is 1 for every class.
type ClassWeight struct {
	// Balanced gives every class the same weight: n/(k·c), for a class with c of the n rows of k classes.
	Balanced bool
	// By has the factors of labels, finite and ≥ 0. The default is 1.
	By map[string]float64
}

// Values of the key `class_weight` that are words.
const (
	classWeightNone     = "none"
	classWeightBalanced = "balanced"
)

var errClassWeight = errors.New("class_weight: expected none, balanced, or a number ≥ 0 for each of some labels")

// ParseClassWeight returns the class weight that a word stands for: none or balanced.
func ParseClassWeight(word string) (ClassWeight, error) {
	switch word {
	case classWeightNone:
		return ClassWeight{}, nil
	case classWeightBalanced:
		return ClassWeight{Balanced: true}, nil
	}
	return ClassWeight{}, errClassWeight
}

// IsZero reports whether the factor of every class is 1.
func (w ClassWeight) IsZero() bool { return !w.Balanced && len(w.By) == 0 }

// Equal reports whether two class weights are the same.
func (w ClassWeight) Equal(o ClassWeight) bool {
	return w.Balanced == o.Balanced && maps.Equal(w.By, o.By)
}

// Valid reports whether the factors are finite and ≥ 0.
func (w ClassWeight) Valid() bool {
	for _, factor := range w.By {
		if !(factor >= 0) || math.IsInf(factor, 1) {
			return false
		}
	}
	return true
}

// String returns the JSON, without quotes around a word.
func (w ClassWeight) String() string {
	text, _ := w.MarshalJSON() // words and numbers have JSON
	return strings.Trim(string(text), `"`)
}

// MarshalJSON writes "none", "balanced", or an object of the factors.
func (w ClassWeight) MarshalJSON() ([]byte, error) {
	switch {
	case w.Balanced:
		return json.Marshal(classWeightBalanced)
	case len(w.By) == 0:
		return json.Marshal(classWeightNone)
	}
	return json.Marshal(w.By)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (w *ClassWeight) UnmarshalJSON(content []byte) (err error) {
	word := ""
	if json.Unmarshal(content, &word) == nil {
		*w, err = ParseClassWeight(word)
		return err
	}
	read := ClassWeight{}
	if json.Unmarshal(content, &read.By) != nil || len(read.By) == 0 || !read.Valid() {
		return errClassWeight
	}
	*w = read
	return nil
}
