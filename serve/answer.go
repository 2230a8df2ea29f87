package serve

import (
	"net/http"
	"strconv"

	"github.com/stagewise/stagewise/schemas/value"
)

// encoder encodes an answer. Rows are added in order.
type encoder interface {
	// add appends n predicted rows to a piece of the answer.
	add(dst []byte, of *predicted, n int) ([]byte, error)
	// kept returns the number of bytes of the added rows that are not in a piece yet.
	kept() int
	// whole returns the pieces of the complete answer, given those of the rows.
	whole(rows [][]byte) (pieces [][]byte, err error)
	// announce sets the headers of the complete answer.
	announce(http.Header)
}

// newEncoder returns the encoder of an answer with a content type, or in a protocol, by a version.
func newEncoder(v *version, kind string, a asked) encoder {
	switch kind {
	case typeArrow:
		return newArrowAnswer(v, a)
	case openInference:
		return &tensorAnswer{version: v, asked: a}
	}
	return &jsonAnswer{version: v, asked: a, plain: kind == mlflow}
}

// jsonAnswer is an answer in JSON: {"version", "labels", "probabilities"}. A plain one, for MLflow, is {"predictions"}: the labels, or
// the predicted numbers.
type jsonAnswer struct {
	*version
	asked
	plain  bool
	rows   int
	labels []byte // of the rows, as a list without its end
	order  []int32
}

func (a *jsonAnswer) kept() int { return len(a.labels) }

// add appends the values of rows.
func (a *jsonAnswer) add(dst []byte, of *predicted, n int) ([]byte, error) {
	k := len(a.quoted)
	for i := range n {
		if a.rows++; !a.predictsNumbers() {
			a.addLabels(of.probabilities[i*k : (i+1)*k])
			if a.plain {
				continue
			}
		}
		if a.rows > 1 {
			dst = append(dst, ',')
		}
		switch {
		case a.plain && k == 1:
			dst = value.AppendNumber(dst, of.numbers[i], 64)
		case a.predictsNumbers():
			dst = appendNumbers(dst, of.numbers[i*k:(i+1)*k], 64)
		case a.top > 0:
			dst = a.addTop(dst, of.probabilities[i*k:(i+1)*k])
		default:
			dst = appendNumbers(dst, of.probabilities[i*k:(i+1)*k], 32)
		}
	}
	return dst, nil
}

// addLabels appends the label of a row, or the list of its labels.
func (a *jsonAnswer) addLabels(row []float32) {
	a.order = a.given(a.order, row)
	a.labels = append(a.labels, "[,"[min(a.rows-1, 1)])
	if a.givesSeveral() {
		a.labels = append(a.labels, '[')
	}
	for i, class := range a.order {
		if i > 0 {
			a.labels = append(a.labels, ',')
		}
		a.labels = append(a.labels, a.quoted[class]...)
	}
	if a.givesSeveral() {
		a.labels = append(a.labels, ']')
	}
}

// addTop appends the most probable labels of a row.
func (a *jsonAnswer) addTop(dst []byte, row []float32) []byte {
	a.order = mostProbable(a.order, row, a.top)
	for i, c := range a.order {
		dst = append(append(append(dst, "[,"[min(i, 1)]), `{"label":`...), a.quoted[c]...)
		dst = append(value.AppendNumber(append(dst, `,"probability":`...), float64(row[c]), 32), '}')
	}
	return append(dst, ']')
}

// appendNumbers appends a list of numbers with the given bit size.
func appendNumbers[T float32 | float64](dst []byte, numbers []T, bits int) []byte {
	for i, v := range numbers {
		dst = value.AppendNumber(append(dst, "[,"[min(i, 1)]), float64(v), bits)
	}
	return append(dst, ']')
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

func (a *jsonAnswer) whole(rows [][]byte) (pieces [][]byte, err error) {
	labels := a.labels
	a.labels = nil // they are in the pieces
	switch {
	case a.plain && a.predictsNumbers():
		return append(append([][]byte{[]byte(`{"predictions":[`)}, rows...), []byte("]}\n")), nil
	case a.plain:
		return [][]byte{[]byte(`{"predictions":`), labels, []byte("]}\n")}, nil
	}
	head := a.head()
	if !a.predictsNumbers() {
		head = append(append(append(head, `,"labels":`...), labels...), ']')
	}
	return append(append([][]byte{a.appendValues(head)}, rows...), []byte("]}\n")), nil
}

func (a *jsonAnswer) announce(h http.Header) { h.Set("Content-Type", typeJSON) }
