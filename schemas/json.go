package schemas

import (
	"encoding/json"
	"fmt"

	"github.com/stagewise/stagewise/schemas/stream"
)

// jsonMessage makes a message whose value is JSON. It panics if the value has none.
func jsonMessage(kind Kind, run, key string, value any) Message {
	return Message{Key: key, Headers: []Header{{"kind", string(kind)}, {"run", run}}, Value: mustJSON(value)}
}

// mustJSON returns the JSON of a value. It panics if the value has none.
func mustJSON(value any) []byte {
	content, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("schemas: no JSON for %T: %v", value, err))
	}
	return content
}

// JSON is what messages have as JSON.
type JSON interface {
	Plan | End | Claim | Failure | SourceSeal | Manifest | StageReport | Report | Removal | SourceRemoval | Pin | Forget | Ledger | Window
}

// DecodeJSON decodes and checks the value of a message that is JSON; of a document, the whole that [Documents] returns. An error wraps [ErrDamaged].
func DecodeJSON[T JSON](m Message) (*T, error) {
	value := new(T)
	err := error(nil)
	most := MaxMessage
	switch any(value).(type) {
	case *Plan, *Manifest, *Report, *Ledger, *Window:
		most = MaxDocument
	}
	if len(m.Value) > most { // decoded JSON may take fifty times its length
		err = fmt.Errorf("%d bytes, expected at most %d", len(m.Value), most)
	} else if err = json.Unmarshal(m.Value, value); err == nil {
		if checked, ok := any(value).(interface{ Check() error }); ok {
			err = checked.Check()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decode %s %s: %w", ErrDamaged, m.Kind(), stream.Quote(m.Key), err)
	}
	return value, nil
}
