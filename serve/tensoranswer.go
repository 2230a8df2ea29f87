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
		err := item.Each(func(key []byte, cell value.Cell) (err error) {
			switch string(key) {
			case "name":
				name, err = textOf(cell)
			case "parameters":
				isBinary, err = truthOf(cell, "binary_data", isBinary)
			}
			return err
		})
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

// tensorAnswer is an answer of the Open Inference Protocol: tensors in JSON, or behind it.
type tensorAnswer struct {
	*version
	asked
	rows   int
	first  []byte // values of label or labels
	length int    // of the JSON
}

func (a *tensorAnswer) kept() int { return len(a.first) }

// add implements encoder.
func (a *tensorAnswer) add(dst []byte, row *predictedRow) ([]byte, error) {
	a.rows++
	last := &a.tensors[len(a.tensors)-1]
	if a.predictsNumbers() {
		return appendTensor(dst, last, a.rows == 1, row.numbers, 64), nil
	}
	if a.tensors[0].asked {
		a.addLabels(&a.tensors[0], row.given)
	}
	return appendTensor(dst, last, a.rows == 1, row.probabilities, 32), nil
}

// appendTensor appends values with a bit size.
func appendTensor[T float32 | float64](dst []byte, o *output, first bool, values []T, bits int) []byte {
	if !o.asked {
		return dst
	}
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

// addLabels adds the label of a row, or whether it has each.
func (a *tensorAnswer) addLabels(o *output, given []int32) {
	if a.givesSeveral() {
		for class := range a.Labels() {
			has := len(given) > 0 && given[0] == int32(class)
			if has {
				given = given[1:]
			}
			switch {
			case !o.binary:
				a.first = strconv.AppendBool(appendComma(a.first, a.rows == 1 && class == 0), has)
			case has:
				a.first = append(a.first, 1)
			default:
				a.first = append(a.first, 0)
			}
		}
		return
	}
	switch class := given[0]; {
	case !o.binary:
		a.first = append(appendComma(a.first, a.rows == 1), a.quoted[class]...)
	case a.wholeNumbers != nil:
		a.first = binary.LittleEndian.AppendUint64(a.first, uint64(a.wholeNumbers[class]))
	default:
		label := a.Labels()[class]
		a.first = append(binary.LittleEndian.AppendUint32(a.first, uint32(len(label))), label...)
	}
}

// whole returns the JSON, with the values of the last output at its end if they are not binary, and the binary values.
func (a *tensorAnswer) whole(rows [][]byte) (pieces [][]byte, err error) {
	head := fmt.Appendf(nil, `{"model_name":%q,"model_version":"%d",`, a.Manifest.Name, a.Manifest.Version)
	if a.id != nil {
		head = append(append(append(head, `"id":`...), a.id...), ',')
	}
	head = append(head, `"outputs":[`...)
	var behind [][]byte
	begun := false
	for i := range a.tensors {
		o := &a.tensors[i]
		if !o.asked {
			continue
		}
		values := rows
		if i < len(a.tensors)-1 {
			values = [][]byte{a.first}
		}
		head = fmt.Appendf(appendComma(head, !begun), `{"name":%q,"datatype":%q,"shape":[%d`, o.name, o.datatype, a.rows)
		if begun = true; o.width > 0 {
			head = fmt.Appendf(head, ",%d", o.width)
		}
		head = append(head, "],"...)
		if o.binary {
			n := 0
			for _, piece := range values {
				n += len(piece)
			}
			head = fmt.Appendf(head, `"parameters":{"binary_data_size":%d}}`, n)
			behind = append(behind, values...)
			continue
		}
		pieces = append(append(pieces, append(head, `"data":[`...)), values...)
		head = []byte("]}")
	}
	pieces = append(pieces, append(head, "]}"...))
	for _, piece := range pieces {
		a.length += len(piece)
	}
	a.first = nil // it is in the pieces
	return append(pieces, behind...), nil
}

// announce sets the headers of the answer. The length of the JSON is only there if binary values follow it.
func (a *tensorAnswer) announce(h http.Header) {
	h.Set("Content-Type", typeJSON)
	if slices.ContainsFunc(a.tensors, func(o output) bool { return o.asked && o.binary }) {
		h.Set("Content-Type", typeBytes)
		h.Set(headerLength, strconv.Itoa(a.length))
	}
}
