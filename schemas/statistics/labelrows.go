package statistics

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Tensors of a survey's visit with rows by label: text with the labels in order, and the number of rows of each, in a tensor with this
// suffix. They are not in a header, because a column of free text may have a hundred thousand labels.
const (
	tensorUnknown   = "unknown"   // labels that are not classes
	tensorUntrained = "untrained" // labels that only holdout and test rows of the span have
	suffixRows      = "_rows"
)

// labelRowsTensors makes the tensors of a name; none without labels.
func labelRowsTensors(name string, list []examples.LabelRows) wire.Tensors[float64] {
	if len(list) == 0 {
		return nil
	}
	labels, rows := make([]string, len(list)), make([]float64, len(list))
	for i, of := range list {
		labels[i], rows[i] = of.Label, float64(of.Rows)
	}
	return wire.Tensors[float64]{wire.Words[float64](name, labels), wire.Vector(name+suffixRows, rows)}
}

// labelRowsOf is the inverse of labelRowsTensors. An error describes the invalid tensor.
func labelRowsOf(t wire.Tensors[float64], name string) (list []examples.LabelRows, err error) {
	labels, any := t.Find(name)
	if !any {
		return nil, nil
	}
	rows, err := t.Shaped(name+suffixRows, len(labels.Text))
	if err != nil {
		return nil, err
	}
	for i, label := range labels.Text {
		if !isCount(rows[i]) || i > 0 && label <= labels.Text[i-1] {
			return nil, fmt.Errorf("%v rows of label %s of the tensor %s", rows[i], stream.Quote(label), name)
		}
		list = append(list, examples.LabelRows{Label: label, Rows: int64(rows[i])})
	}
	return list, nil
}
