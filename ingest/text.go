package ingest

import (
	"fmt"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/internal/option"
)

// readsText returns a *input.Error if the options name a text column and the format does not support one.
func (o Options) readsText(f format.Format, file string) error {
	if o.Text == "" || f.IsTable() {
		return nil
	}
	var names []string
	for _, other := range formats() {
		if other.IsTable() {
			names = append(names, other.Name)
		}
	}
	why := "as examples.text is set"
	if o.Predicts() {
		why = "as the model was trained on texts"
	}
	return input.WholeFile(file, fmt.Errorf("format %s: expected %s, %s", f.Name, option.Enumerate(names, "or"), why))
}
