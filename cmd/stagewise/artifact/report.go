package artifact

import (
	"encoding/json"
	"io"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
)

// Report is what --report writes. schemas/report.schema.json describes it.
type Report struct {
	*schemas.Report
	// Configuration is that of the command that submitted the run, with all defaults; nil if this command only attached to it.
	Configuration *config.Config `json:"configuration,omitempty"`
}

// WriteReport writes a report as JSON for people and programs. An empty path stands for no file.
func WriteReport(path string, stdout io.Writer, r *schemas.Report, c *config.Config) error {
	return WriteJSON(path, stdout, Report{r, c})
}

// WriteJSON writes a value as JSON for people and programs. An empty path stands for no file.
func WriteJSON(path string, stdout io.Writer, value any) error {
	if path == "" {
		return nil
	}
	return Write(path, stdout, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(value)
	})
}

// WriteRetraining writes the report of a chain as JSON. An empty path stands for no file.
func WriteRetraining(path string, stdout io.Writer, r *pipeline.Retraining, c *config.Config) error {
	return WriteJSON(path, stdout, struct {
		*pipeline.Retraining
		Configuration *config.Config `json:"configuration"`
	}{r, c})
}
