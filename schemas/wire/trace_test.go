package wire

import (
	"strings"
	"testing"
)

// Only values of the form in the specification are passed on, in any version but ff. Identifiers are not all zero.
func TestTrace(t *testing.T) {
	const valid = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	zero := strings.Repeat("0", 32)
	for text, want := range map[string]string{
		valid: valid, "cc" + valid[2:]: "cc" + valid[2:], "": "", "ff" + valid[2:]: "", valid + "-x": "", valid + "\n": "", strings.ToUpper(valid): "",
		valid[:54]: "", "00-" + zero + valid[35:]: "", valid[:36] + zero[:16] + "-01": "",
	} {
		if got := (Message{Headers: []Header{{HeaderTrace, text}}}).Trace(); got != want {
			t.Errorf("%q: %q, expected %q", text, got, want)
		}
	}
	if got := (Message{}).Trace(); got != "" {
		t.Errorf("%q without the header", got)
	}
}
