package serve

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
)

// The members of a request, and the headers, that say what the answer has.
const (
	keyTop        = "top"
	keyClasses    = "classes"
	headerTop     = "Stagewise-Top"
	headerClasses = "Stagewise-Classes"
)

// asked is what an answer has beside the label of each row.
type asked struct {
	top     int  // how many of the most probable labels; 0: the probability of each, in the order of the labels
	classes bool // all labels, in the order of the probabilities
}

// askedBy returns what the headers of a request ask for.
func askedBy(h http.Header) (a asked, err error) {
	if text := h.Get(headerTop); text != "" {
		if a.top, err = strconv.Atoi(text); err != nil || a.top < 1 {
			return a, refuse(http.StatusBadRequest, "%s %.20q: expected a number of labels, at least 1", headerTop, text)
		}
	}
	if text := h.Get(headerClasses); text != "" {
		if a.classes, err = strconv.ParseBool(text); err != nil {
			return a, refuse(http.StatusBadRequest, "%s %.20q: expected true or false", headerClasses, text)
		}
	}
	return a, nil
}

// check returns an error for what a version does not have.
func (a asked) check(v *version) error {
	if a.top > 0 && v.predictsNumbers() {
		return refuse(http.StatusBadRequest, "%q: the model predicts numbers, which have no probabilities", keyTop)
	}
	return nil
}

// values returns how many values the answer has of each row of a version.
func (a asked) values(v *version) int {
	k := len(v.Labels())
	return min(cmp.Or(a.top, k), k)
}

// mostProbable returns the classes with the largest probabilities, so many of them, the largest first, of equal ones
// the first. It uses the memory of order.
func mostProbable(order []int32, probabilities []float32, top int) []int32 {
	order = order[:0]
	for c := range probabilities {
		order = append(order, int32(c))
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(probabilities[b], probabilities[a]) })
	return order[:min(top, len(order))]
}
