package plain

import (
	"bytes"
	"context"
	"errors"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/message"
	"github.com/stagewise/stagewise/schemas/value"
)

// JSONMessages is JSON (RFC 8259) in messages: an object with a value for each column, or an array of such objects. Columns
// that no key names are not read. If columns.use names a single column, that may be an array of all features.
func JSONMessages() message.Format {
	return message.Format{
		Name:    "json",
		Meaning: message.Meaning,
		Label:   message.Label,
		IsText:  true,
		Open: func(o message.Options) (message.Decoder, error) {
			return message.Decoder{Decode: func(_ context.Context, p message.Payload) (tabular.Cell, error) {
				content := bytes.TrimSpace(p.Value)
				if err := value.CheckJSON(content); errors.Is(err, value.ErrNotUTF8) {
					return tabular.Cell{}, o.NotUTF8(err, true)
				} else if err != nil {
					return tabular.Cell{}, err
				}
				return tabular.JSON(content), nil
			}}, nil
		},
	}
}
