package option

import (
	"fmt"
	"github.com/stagewise/stagewise/internal/assert"
	"testing"
)

type inner struct {
	Size float64 `yaml:"size"`
}

type options struct {
	inner
	Kind, Other string
	Names       []string
	Below       inner
	Flag        *bool
}

// A key that is set has an allowed value, the keys that it needs, and none that it excludes. What is not set has no problem.
func TestCheck(t *testing.T) {
	keys := []Key{
		{Name: "kind", Rule: OneOf("a", "b", ""), Excludes: map[string]string{"below.size": "no size"}},
		{Name: "other", Needs: map[string]string{"kind: b": "kind b", "names": "names"}},
		{Name: "below.size", When: "names", Rule: Range(1, 2, "1 or 2")},
	}
	yes := true
	for _, test := range []struct {
		options options
		want    string
	}{
		{options{}, "[]"},
		{options{Kind: "c"}, "[kind: c: expected a or b]"},
		{options{Kind: "a", Below: inner{1}}, "[kind: a: expected no size]"},
		{options{Other: "x", Kind: "b"}, "[other: x: expected names]"},
		{options{Other: "http://me:secret@x", Names: []string{"n"}, Below: inner{1}}, "[other: http://me:xxxxx@x: expected kind b]"},
		{options{Other: "x", Kind: "b", Names: []string{"n"}, Below: inner{1.5}, Flag: &yes}, "[kind: b: expected no size]"},
		{options{Below: inner{3}}, "[]"},
		{options{Below: inner{3}, Names: []string{"n"}}, "[below.size: 3: expected 1 or 2]"},
	} {
		assert.Equal(t, fmt.Sprint(Check(keys, test.options, options{})), test.want, "%+v", test.options)
	}
}

// Edits are symmetric, of whole letters, and none within a word; a chain of words takes no fewer than the direct way.
func TestEdits(t *testing.T) {
	words := []string{"", "a", "ä", "kitten", "sitting", "sitten", "rows", "wors"}
	for _, a := range words {
		for _, b := range words {
			n := Edits(a, b)
			assert.True(t, n == Edits(b, a) && (n == 0) == (a == b) && n <= max(len([]rune(a)), len([]rune(b))),
				"%q to %q: %d edits, back %d", a, b, n, Edits(b, a))
			for _, c := range words {
				assert.True(t, n <= Edits(a, c)+Edits(c, b), "%q to %q: %d edits, fewer by way of %q", a, b, n, c)
			}
		}
	}
	n := Edits("kitten", "sitting")
	assert.True(t, n == 3 && Edits("ä", "a") == 1, "kitten to sitting: %d edits", n)
}
