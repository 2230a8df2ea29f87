package serve

import (
	"encoding/json"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// predictsNumbers reports whether answers have predicted targets in place of labels and probabilities.
func (v *version) predictsNumbers() bool { return v.Task() == examples.Numbers }

// givesSeveral reports whether the model is multi-label.
func (v *version) givesSeveral() bool { return v.Task() == examples.SeveralLabels }

// given returns the predicted classes of a row, in order: the one that the model decides for, or in a multi-label task those
// whose probability is above the threshold. It uses the memory of classes.
func (v *version) given(classes []int32, probabilities []float32) []int32 {
	classes = classes[:0]
	if !v.givesSeveral() {
		return append(classes, v.Decide(probabilities))
	}
	for class, p := range probabilities {
		if float64(p) >= v.Threshold() {
			classes = append(classes, int32(class))
		}
	}
	return classes
}

// wholeNumbers returns the labels as integers if all of them are, otherwise nil.
func wholeNumbers(m *model.Model) []int64 {
	if m.LabelType() != examples.WholeLabels {
		return nil
	}
	return examples.WholeNumbers(m.Labels())
}

// described is a manifest with labels encoded as in answers.
type described struct {
	*schemas.Manifest
	Labels []json.RawMessage `json:"labels"`
}

func manifestOf(m *model.Model) described {
	return described{m.Manifest, m.LabelType().Values(m.Manifest.Labels)}
}
