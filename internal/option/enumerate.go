package option

import "strings"

// Enumerate joins words as a sentence does: "a", "a or b", "a, b or c".
func Enumerate(words []string, conjunction string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}
