package schemas

// KindPin is the kind of a [Pin] message.
const KindPin Kind = "pin"

// PinKey is the key of every [Pin]: compaction keeps the last, and that one counts.
const PinKey = "pin"

// Pin says which version subscribers get as the latest, until another pin comes. The zero value says that none is pinned: subscribers
// then get the offered version with the highest number. A pin of a version that was removed says the same.
type Pin struct {
	Run     string `json:"run"`     // id of the run that made the version; empty: none is pinned
	Version int    `json:"version"` // its number; 0: none is pinned
}

// Message encodes the pin for the plans topic.
func (p *Pin) Message() Message { return jsonMessage(KindPin, p.Run, PinKey, p) }
