package schemas

import (
	"encoding/json"
	"fmt"

	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// JSON is the constraint of the types that messages encode as JSON.
type JSON interface {
	Plan | End | Claim | Failure | SourceSeal | Manifest | StageReport | Report |
		Removal | SourceRemoval | Division | Pin | Forget | Window | Origins
}

// DecodeJSON decodes and checks the value of a message that is JSON. A document must be whole, as [wire.Documents]
// returns it. An error wraps [wire.ErrDamaged].
func DecodeJSON[T JSON](m wire.Message) (*T, error) {
	value := new(T)
	err := error(nil)
	most := wire.MaxMessage
	switch any(value).(type) {
	case *Plan, *Manifest, *Report, *Window:
		most = wire.MaxDocument
	}
	if len(m.Value) > most { // decoded JSON may take fifty times its length
		err = fmt.Errorf("%d bytes, expected at most %d", len(m.Value), most)
	} else if err = json.Unmarshal(m.Value, value); err == nil {
		if checked, ok := any(value).(interface{ Check() error }); ok {
			err = checked.Check()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decode %s %s: %w", wire.ErrDamaged, m.Kind(), stream.Quote(m.Key), err)
	}
	return value, nil
}
