package serve

import (
	"net/http"
	"strconv"

	"github.com/stagewise/stagewise/schemas/value"
)

// encoder encodes an answer. Rows are added in order.
type encoder interface {
	// add appends the next row to a piece of the answer.
	add(dst []byte, row *predictedRow) ([]byte, error)
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

	contributed []byte // contributions to the rows, as a list without its end
}

func (a *jsonAnswer) kept() int { return len(a.labels) + len(a.contributed) }

// add implements encoder.
func (a *jsonAnswer) add(dst []byte, row *predictedRow) ([]byte, error) {
	if row.contributions != "" {
		a.contributed = append(append(a.contributed, "[,"[min(a.rows, 1)]), row.contributions...)
	}
	if a.rows++; !a.predictsNumbers() {
		a.addLabels(row.given)
		if a.plain {
			return dst, nil
		}
	}
	dst = appendComma(dst, a.rows == 1)
	switch {
	case a.plain && len(row.numbers) == 1:
		return value.AppendNumber(dst, row.numbers[0], 64), nil
	case a.predictsNumbers():
		return appendNumbers(dst, row.numbers, 64), nil
	case a.top > 0:
		return a.addTop(dst, row), nil
	}
	return appendNumbers(dst, row.probabilities, 32), nil
}

// addLabels appends the label of a row, or the list of its labels.
func (a *jsonAnswer) addLabels(given []int32) {
	a.labels = append(a.labels, "[,"[min(a.rows-1, 1)])
	if a.givesSeveral() {
		a.labels = append(a.labels, '[')
	}
	for i, class := range given {
		a.labels = append(appendComma(a.labels, i == 0), a.quoted[class]...)
	}
	if a.givesSeveral() {
		a.labels = append(a.labels, ']')
	}
}

// addTop appends the most probable labels of a row.
func (a *jsonAnswer) addTop(dst []byte, row *predictedRow) []byte {
	for i, c := range row.top {
		dst = append(append(append(dst, "[,"[min(i, 1)]), `{"label":`...), a.quoted[c]...)
		dst = append(value.AppendNumber(append(dst, `,"probability":`...), float64(row.probabilities[c]), 32), '}')
	}
	return append(dst, ']')
}

// appendComma appends a comma before all items of a list but the first.
func appendComma(dst []byte, first bool) []byte {
	if first {
		return dst
	}
	return append(dst, ',')
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
	pieces = append([][]byte{a.appendValues(head)}, rows...)
	if a.contributed != nil {
		pieces = append(pieces, []byte(`],"contributions":`), a.contributed)
		a.contributed = nil // they are in the pieces
	}
	return append(pieces, []byte("]}\n")), nil
}

func (a *jsonAnswer) announce(h http.Header) { h.Set("Content-Type", typeJSON) }
