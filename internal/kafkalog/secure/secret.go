package secure

import (
	"fmt"
	"io"
)

// Secret is a string that is never printed: not by fmt with any verb, not as an unexported field, not by JSON, YAML or slog.
// Only this package can read it. The zero value holds no secret.
type Secret struct {
	// A pointer, because fmt prints unexported struct fields without calling their methods, but does not follow a pointer
	// there.
	text *string
}

// NewSecret returns a Secret that holds text. An empty text gives the zero Secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// hidden is printed in place of secrets.
const hidden = "(secret)"

// String returns "(secret)" for every Secret.
func (s Secret) String() string { return hidden }

// Format prints "(secret)" for every verb.
func (s Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, hidden) }

// MarshalText returns "(secret)". JSON and slog call it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

func (s Secret) reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}
