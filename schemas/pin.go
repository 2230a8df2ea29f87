package schemas

import (
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindPin is the kind of a [Pin] message.
const KindPin wire.Kind = "pin"

// PinKey is the key of every [Pin]: compaction keeps the last one, which is in effect.
const PinKey = "pin"

// Pin is the version that subscribers get as the latest, until the next pin. The zero value pins none: subscribers
// then get the offered version with the highest number. A pin of a removed version has the same effect.
type Pin struct {
	Run     string `json:"run"`     // ID of the run that made the version; empty: no version is pinned
	Version int    `json:"version"` // version number; 0: no version is pinned
}

// Message encodes the pin for the plans topic.
func (p *Pin) Message() wire.Message { return wire.JSONMessage(KindPin, p.Run, PinKey, p) }
