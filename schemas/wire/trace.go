package wire

import (
	"regexp"
	"strings"
)

// HeaderTrace is the header of a message or a request with its place in a trace (https://www.w3.org/TR/trace-context).
const HeaderTrace = "traceparent"

// traceContext matches a version, a trace, its span, and flags.
var traceContext = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// ValidTrace returns a value of [HeaderTrace]; "" if it is invalid, and must be ignored.
func ValidTrace(text string) string {
	if !traceContext.MatchString(text) || strings.HasPrefix(text, "ff") || strings.Contains(text, "-"+strings.Repeat("0", 32)+"-") ||
		strings.Contains(text, "-"+strings.Repeat("0", 16)+"-") {
		return ""
	}
	return text
}

// Trace returns the place of the message in a trace; "" if it is unknown.
func (m Message) Trace() string { return ValidTrace(m.Get(HeaderTrace)) }
