package artifact

import (
	"bytes"
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
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		_, err = w.Write(append(layOut(text), '\n'))
		return err
	})
}

// layOut indents JSON without spaces so that a list or an object of plain values is one line: a stage, or a row of a confusion matrix.
// encoding/json would give each number a line of its own.
func layOut(text []byte) []byte {
	var out []byte
	depth, flat := 0, false // flat: within a list or an object that is one line
	line := func() { out = append(append(out, '\n'), bytes.Repeat([]byte("  "), depth)...) }
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			end := i + textLength(text[i:])
			out = append(out, text[i:end]...)
			i = end - 1
		case '[', '{':
			out, flat = append(out, c), isPlain(text[i+1:])
			if depth++; !flat {
				line()
			}
		case ']', '}':
			if depth--; !flat {
				line()
			}
			out, flat = append(out, c), false
		case ',':
			if out = append(out, c); flat {
				out = append(out, ' ')
			} else {
				line()
			}
		case ':':
			out = append(out, c, ' ')
		default:
			out = append(out, c)
		}
	}
	return out
}

// isPlain reports whether a list or an object has no other in it. text begins after its bracket.
func isPlain(text []byte) bool {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += textLength(text[i:]) - 1
		case '[', '{':
			return false
		case ']', '}':
			return true
		}
	}
	return true
}

// textLength returns the length of the JSON text that text begins with, with its quotes.
func textLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// WriteRetraining writes the report of a chain as JSON. An empty path stands for no file.
func WriteRetraining(path string, stdout io.Writer, r *pipeline.Retraining, c *config.Config) error {
	return WriteJSON(path, stdout, struct {
		*pipeline.Retraining
		Configuration *config.Config `json:"configuration"`
	}{r, c})
}
