package plain

import (
	"bytes"
	"context"
	"errors"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/schemas/value"
)

// jsonName is the name of the format, which other things have too.
const jsonName = "json"

// JSON is JSON (RFC 8259) in messages: an object with a value for each column, or an array of such objects. Columns
// that no key names are not read. If columns.use names a single column, that may be an array of all features.
func JSON() format.Format {
	return format.Format{
		Name:    jsonName,
		Meaning: format.Meaning,
		Label:   format.Label,
		IsText:  true,
		Decoder: func(o format.Options) (format.Decoder, error) {
			return format.Decoder{Decode: func(_ context.Context, p format.Payload) (tabular.Cell, error) {
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
