package export

import (
	"encoding/json"
	"fmt"

	"github.com/stagewise/stagewise/model"
)

// The keys of what a file of another format says of its model, all of it JSON.
const (
	manifestKey = "manifest" // whose plan has the kinds of features, the links and the seed
	labelsKey   = "labels"   // in the order of the probabilities
	columnsKey  = "columns"  // that the features are of; null if they are not known
)

// metadata returns what a file says of its model.
func metadata(m *model.Model) (map[string]string, error) {
	texts := map[string]string{}
	for key, value := range map[string]any{manifestKey: m.Manifest, labelsKey: m.LabelType().Values(m.Labels()), columnsKey: m.Columns()} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", key, err)
		}
		texts[key] = string(text)
	}
	return texts, nil
}
