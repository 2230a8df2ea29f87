package kafkalog

import (
	"fmt"
	"io"
)

// Secret is a text that nothing prints: not fmt with any verb, not as a field that is not exported, not JSON, YAML or slog.
// Only the code that proves who we are reveals it. The zero value is none.
type Secret struct {
	// A pointer, because fmt prints the fields of a struct without asking their methods where they are not exported; it
	// follows no pointer there.
	text *string
}

// NewSecret is a text from now on hidden; "" is none.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// hidden is what all see of a secret.
const hidden = "(secret)"

// IsZero tells whether there is none.
func (s Secret) IsZero() bool { return s.text == nil }

// String says that there is something to hide, and not what.
func (s Secret) String() string { return hidden }

// Format is String with every verb.
func (s Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, hidden) }

// MarshalText is String, for JSON, slog and their like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

func (s Secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}
