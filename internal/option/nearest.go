package option

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// maxMisspelled is the length in bytes beyond which a word is not compared with candidates: the comparison is quadratic.
const maxMisspelled = 100

// Nearest returns the candidate that is the fewest edits away from word, or "" if that is more than a third of the
// candidate's length. It ignores case, and treats hyphens as underscores.
func Nearest(word string, candidates []string) string {
	if len(candidates) == 0 || len(word) > maxMisspelled {
		return ""
	}
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
	edits := func(candidate string) int { return levenshtein.ComputeDistance(plain(word), plain(candidate)) }
	best := slices.MinFunc(candidates, func(a, b string) int { return edits(a) - edits(b) })
	if edits(best) > max(1, len(best)/3) {
		return ""
	}
	return best
}
