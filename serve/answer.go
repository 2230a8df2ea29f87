package serve

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas/value"
)

// encoder encodes an answer. Rows are added in order.
type encoder interface {
	// add adds the next row.
	add(row *predictedRow) error
	// size returns the approximate number of bytes of the added rows.
	size() int
	// whole returns the pieces of the complete answer.
	whole() (pieces [][]byte, err error)
	// announce sets the headers of the complete answer.
	announce(http.Header)
}

// newEncoder returns the encoder of an answer with a content type, or in a protocol, by a version.
func newEncoder(v *version, kind string, a asked) encoder {
	if kind == typeArrow {
		return newArrowAnswer(v, a)
	}
	return &textAnswer{version: v, asked: a, kind: kind}
}

// textAnswer is an answer in JSON: {"version", "labels", "probabilities"}; {"predictions"} for MLflow, the labels or the predicted numbers;
// for the Open Inference Protocol tensors, in JSON or behind it.
type textAnswer struct {
	*version
	asked
	kind   string
	rows   int
	labels text // of the rows: the items of a list
	values text // probabilities or numbers, the same
	more   text // contributions, the same
	length int  // of the JSON of tensors
}

// text is bytes in pieces: they grow without copies.
type text struct {
	pieces [][]byte
	bytes  int
}

// pieceBytes is the approximate size of a piece of a long text.
const pieceBytes = 64 << 10

// add appends what appends appends to the last piece.
func (t *text) add(appends func(dst []byte) []byte) {
	last := len(t.pieces) - 1
	if last < 0 || len(t.pieces[last]) >= pieceBytes {
		t.pieces, last = append(t.pieces, nil), last+1
	}
	before := len(t.pieces[last])
	t.pieces[last] = appends(t.pieces[last])
	t.bytes += len(t.pieces[last]) - before
}

func (a *textAnswer) size() int { return a.labels.bytes + a.values.bytes + a.more.bytes }

// add implements encoder.
func (a *textAnswer) add(row *predictedRow) error {
	first := a.rows == 0
	a.rows++
	if row.contributions != "" {
		a.more.add(func(dst []byte) []byte { return append(appendComma(dst, first), row.contributions...) })
	}
	if a.kind == openInference {
		a.addTensors(row, first)
		return nil
	}
	if !a.predictsNumbers() {
		a.labels.add(func(dst []byte) []byte {
			if dst = appendComma(dst, first); a.givesSeveral() {
				return a.appendLabels(dst, row.given)
			}
			return append(dst, a.quoted[row.given[0]]...)
		})
	}
	if a.kind == mlflow && !a.predictsNumbers() {
		return nil
	}
	a.values.add(func(dst []byte) []byte {
		switch dst = appendComma(dst, first); {
		case a.kind == mlflow && len(row.numbers) == 1:
			return value.AppendNumber(dst, row.numbers[0], 64)
		case a.predictsNumbers():
			return appendNumbers(dst, row.numbers, 64)
		case a.top > 0:
			return a.appendTop(dst, row)
		}
		return appendNumbers(dst, row.probabilities, 32)
	})
	return nil
}

// appendLabels appends the list of the labels of a row.
func (v *version) appendLabels(dst []byte, given []int32) []byte {
	dst = append(dst, '[')
	for i, class := range given {
		dst = append(appendComma(dst, i == 0), v.quoted[class]...)
	}
	return append(dst, ']')
}

// appendTop appends the most probable labels of a row.
func (a *textAnswer) appendTop(dst []byte, row *predictedRow) []byte {
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

func (a *textAnswer) whole() (pieces [][]byte, err error) {
	add := func(text string) { pieces = append(pieces, []byte(text)) }
	list := func(name string, items text) {
		add(`"` + name + `":[`)
		pieces = append(pieces, items.pieces...)
	}
	var all []byte
	for i, label := range a.quoted {
		all = append(appendComma(all, i == 0), label...)
	}
	switch {
	case a.kind == openInference:
		return a.wholeTensors()
	case a.kind == mlflow && a.predictsNumbers():
		add("{")
		list("predictions", a.values)
	case a.kind == mlflow:
		add("{")
		list("predictions", a.labels)
	case a.predictsNumbers():
		add(fmt.Sprintf(`{"version":%d,"targets":[%s],`, a.Manifest.Version, all))
		list("predictions", a.values)
	default:
		add(fmt.Sprintf(`{"version":%d,`, a.Manifest.Version))
		if a.classes {
			add(fmt.Sprintf(`"classes":[%s],`, all))
		}
		list("labels", a.labels)
		add("],")
		if a.top > 0 {
			list("top", a.values)
		} else {
			list("probabilities", a.values)
		}
	}
	if a.more.bytes > 0 {
		add("],")
		list("contributions", a.more)
	}
	add("]}\n")
	return pieces, nil
}

// output is a tensor of an answer.
type output struct {
	name, datatype string
	width          int // values of a row; 0: one, which is no list
	asked, binary  bool
}

// outputs returns the tensors in the answers of a version: label, in a multi-label task labels, which has whether a row has each class; and
// probabilities. In regression predictions.
func (v *version) outputs() []output {
	k, label := len(v.Labels()), output{name: "label", datatype: "BYTES"}
	switch {
	case v.predictsNumbers():
		return []output{{name: "predictions", datatype: "FP64", width: k}}
	case v.givesSeveral():
		label = output{name: "labels", datatype: "BOOL", width: k}
	case v.wholeNumbers != nil:
		label.datatype = "INT64"
	}
	return []output{label, {name: "probabilities", datatype: "FP32", width: k}}
}

// setOutputs sets the outputs that a request asks for: those in a list, or all if it has none.
func (a *asked) setOutputs(list value.Cell, all []output) error {
	named := false
	for item := range list.All() {
		name, isBinary := "", a.binary
		err := members{"name": keepText(&name), "parameters": members{"binary_data": keepTruth(&isBinary)}.read}.read(item)
		i := slices.IndexFunc(all, func(o output) bool { return o.name == name })
		if err == nil && i < 0 {
			err = fmt.Errorf("there is no %.40q: expected label, labels, probabilities or predictions, as of the model", name)
		}
		if err != nil {
			return fmt.Errorf(`"outputs": %w`, err)
		}
		all[i].asked, all[i].binary, named = true, isBinary, true
	}
	for i := range all {
		if !named {
			all[i].asked, all[i].binary = true, a.binary
		}
	}
	a.tensors = all
	return nil
}

// addTensors adds the next row to the tensors that are asked for.
func (a *textAnswer) addTensors(row *predictedRow, first bool) {
	last := &a.asked.tensors[len(a.asked.tensors)-1]
	if last.asked {
		a.values.add(func(dst []byte) []byte {
			if a.predictsNumbers() {
				return appendTensor(dst, last, first, row.numbers, 64)
			}
			return appendTensor(dst, last, first, row.probabilities, 32)
		})
	}
	if o := &a.asked.tensors[0]; o.asked && !a.predictsNumbers() {
		a.labels.add(func(dst []byte) []byte { return a.appendLabelTensor(dst, o, first, row.given) })
	}
}

// appendTensor appends values with a bit size.
func appendTensor[T float32 | float64](dst []byte, o *output, first bool, values []T, bits int) []byte {
	for i, v := range values {
		switch {
		case o.binary && bits == 32:
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v)))
		case o.binary:
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(v)))
		default:
			dst = value.AppendNumber(appendComma(dst, first && i == 0), float64(v), bits)
		}
	}
	return dst
}

// appendLabelTensor appends the label of a row, or whether it has each.
func (a *textAnswer) appendLabelTensor(dst []byte, o *output, first bool, given []int32) []byte {
	if a.givesSeveral() {
		for class := range a.Labels() {
			switch has := slices.Contains(given, int32(class)); {
			case !o.binary:
				dst = strconv.AppendBool(appendComma(dst, first && class == 0), has)
			case has:
				dst = append(dst, 1)
			default:
				dst = append(dst, 0)
			}
		}
		return dst
	}
	switch class := given[0]; {
	case !o.binary:
		return append(appendComma(dst, first), a.quoted[class]...)
	case a.wholeNumbers != nil:
		return binary.LittleEndian.AppendUint64(dst, uint64(a.wholeNumbers[class]))
	default:
		label := a.Labels()[class]
		return append(binary.LittleEndian.AppendUint32(dst, uint32(len(label))), label...)
	}
}

// wholeTensors returns the JSON, and the values of binary tensors behind it.
func (a *textAnswer) wholeTensors() (pieces [][]byte, err error) {
	head := fmt.Appendf(nil, `{"model_name":%q,"model_version":"%d",`, a.Manifest.Name, a.Manifest.Version)
	if a.id != nil {
		head = append(append(append(head, `"id":`...), a.id...), ',')
	}
	head = append(head, `"outputs":[`...)
	var behind [][]byte
	first := true
	for i, o := range a.asked.tensors {
		if !o.asked {
			continue
		}
		values := a.values
		if i < len(a.asked.tensors)-1 {
			values = a.labels
		}
		head = fmt.Appendf(appendComma(head, first), `{"name":%q,"datatype":%q,"shape":[%d`, o.name, o.datatype, a.rows)
		if first = false; o.width > 0 {
			head = fmt.Appendf(head, ",%d", o.width)
		}
		if o.binary {
			head = fmt.Appendf(head, `],"parameters":{"binary_data_size":%d}}`, values.bytes)
			behind = append(behind, values.pieces...)
			continue
		}
		pieces = append(append(pieces, append(head, `],"data":[`...)), values.pieces...)
		head = []byte("]}")
	}
	pieces = append(pieces, append(head, "]}"...))
	a.length = lengthsOf(pieces)
	return append(pieces, behind...), nil
}

// lengthsOf returns the number of bytes of pieces.
func lengthsOf(pieces [][]byte) (n int) {
	for _, piece := range pieces {
		n += len(piece)
	}
	return n
}

// announce sets the headers of the answer. The length of the JSON is only there if binary values follow it.
func (a *textAnswer) announce(h http.Header) {
	h.Set("Content-Type", typeJSON)
	if slices.ContainsFunc(a.asked.tensors, func(o output) bool { return o.asked && o.binary }) {
		h.Set("Content-Type", typeBytes)
		h.Set(headerLength, strconv.Itoa(a.length))
	}
}
