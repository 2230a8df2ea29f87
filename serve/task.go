package serve

import (
	"encoding/json"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// predictsNumbers reports whether answers have numbers in place of labels and probabilities.
func (v *version) predictsNumbers() bool { return v.Task() == examples.Numbers }

// givesSeveral reports whether a row may have any number of labels.
func (v *version) givesSeveral() bool { return v.Task() == examples.SeveralLabels }

// wholeNumbers returns the labels as whole numbers if all of them are, and else nil.
func wholeNumbers(m *model.Model) []int64 {
	if m.LabelType() != examples.WholeLabels {
		return nil
	}
	return examples.WholeNumbers(m.Labels())
}

// described is a manifest with labels as answers have them.
type described struct {
	*schemas.Manifest
	Labels []json.RawMessage `json:"labels"`
}

func manifestOf(m *model.Model) described {
	return described{m.Manifest, m.LabelType().Values(m.Manifest.Labels)}
}
