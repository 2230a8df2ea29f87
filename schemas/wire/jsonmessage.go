package wire

import (
	"encoding/json"
	"fmt"
)

// JSONMessage makes a message whose value is JSON. It panics if the value can't be encoded.
func JSONMessage(kind Kind, run, key string, value any) Message {
	return Message{Key: key, Headers: []Header{{"kind", string(kind)}, {"run", run}}, Value: JSON(value)}
}

// JSON returns the JSON of a value. It panics if the value can't be encoded.
func JSON(value any) []byte {
	content, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("schemas: no JSON for %T: %v", value, err))
	}
	return content
}
