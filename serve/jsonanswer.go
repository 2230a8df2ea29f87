package serve

import (
	"math"
	"slices"
	"strconv"
)

// jsonAnswer is an answer in JSON: {"version", "labels", "probabilities"}.
type jsonAnswer struct {
	*version
	asked
	given *given
	order []int32
	bytes int // of the labels of all rows
}

func (a *jsonAnswer) kept() int { return a.bytes + a.given.bytes() }

// add appends the values of rows.
func (a *jsonAnswer) add(dst []byte, of *predicted, n int) ([]byte, error) {
	k := len(a.quoted)
	for i := range n {
		if a.given.rows > 0 {
			dst = append(dst, ',')
		}
		if a.predictsNumbers() {
			a.given.add(nil)
			dst = appendNumbers(dst, of.numbers[i*k:(i+1)*k], 64)
			continue
		}
		row := of.probabilities[i*k : (i+1)*k]
		a.given.add(row)
		a.given.of(a.given.rows-1, func(class int) { a.bytes += len(a.quoted[class]) + 1 })
		if a.top > 0 {
			dst = a.addTop(dst, row)
			continue
		}
		dst = appendNumbers(dst, row, 32)
	}
	return dst, nil
}

// addTop appends the most probable labels of a row.
func (a *jsonAnswer) addTop(dst []byte, row []float32) []byte {
	a.order = mostProbable(a.order, row, a.top)
	for i, c := range a.order {
		dst = append(append(append(dst, "[,"[min(i, 1)]), `{"label":`...), a.quoted[c]...)
		dst = append(appendNumber(append(dst, `,"probability":`...), float64(row[c]), 32), '}')
	}
	return append(dst, ']')
}

// appendNumbers appends a list of numbers with the given bit size.
func appendNumbers[T float32 | float64](dst []byte, numbers []T, bits int) []byte {
	for i, v := range numbers {
		dst = appendNumber(append(dst, "[,"[min(i, 1)]), float64(v), bits)
	}
	return append(dst, ']')
}

// appendNumber appends a number with the given bit size, or null if it is not finite, because JSON can't represent it.
func appendNumber(dst []byte, v float64, bits int) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(dst, "null"...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}

// head returns the start of an answer.
func (a *jsonAnswer) head() []byte {
	head := strconv.AppendInt([]byte(`{"version":`), int64(a.Manifest.Version), 10)
	if a.predictsNumbers() {
		head = a.appendAll(append(head, `,"targets":`...))
	}
	if a.classes && !a.predictsNumbers() { // otherwise the targets describe the values
		head = a.appendAll(append(head, `,"classes":`...))
	}
	return head
}

// appendAll appends the list of all labels.
func (a *jsonAnswer) appendAll(dst []byte) []byte {
	for i, label := range a.quoted {
		dst = append(append(dst, "[,"[min(i, 1)]), label...)
	}
	return append(dst, ']')
}

// appendValues appends the part before the values of rows.
func (a *jsonAnswer) appendValues(dst []byte) []byte {
	switch {
	case a.predictsNumbers():
		return append(dst, `,"predictions":[`...)
	case a.top > 0:
		return append(dst, `,"top":[`...)
	}
	return append(dst, `,"probabilities":[`...)
}

// appendLabel appends the label of a row, or the list of its labels.
func (a *jsonAnswer) appendLabel(dst []byte, row int) []byte {
	if row > 0 {
		dst = append(dst, ',')
	}
	if !a.given.several {
		return append(dst, a.quoted[a.given.one[row]]...)
	}
	dst = append(dst, '[')
	first := len(dst)
	a.given.of(row, func(class int) {
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = append(dst, a.quoted[class]...)
	})
	return append(dst, ']')
}

func (a *jsonAnswer) whole(rows [][]byte) (pieces [][]byte, err error) {
	head := a.head()
	if !a.predictsNumbers() {
		head = append(slices.Grow(head, a.bytes+64), `,"labels":[`...)
		for i := range a.given.rows {
			head = a.appendLabel(head, i)
		}
		head = append(head, ']')
	}
	a.bytes = 0 // they are in the head
	return append(append([][]byte{a.appendValues(head)}, rows...), []byte("]}\n")), nil
}
