package stages

import (
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// Features are drawn if two stages of them have different blocks; learnt features are learnt from draws.
func TestDrawn(t *testing.T) {
	const inputs = 20
	x := normals(9, inputs, 1)
	all := schemas.Features{Kind: Columns, Size: 0, BandwidthScale: 1, Degree: 1}
	for _, f := range append(variants(10), all) {
		first, second := expand(mustMap(t, f, 0, plain(inputs, 1), 0, false), x, x), expand(mustMap(t, f, 1, plain(inputs, 1), 0, false), x, x)
		if differ := !slices.Equal(first.Data, second.Data); Drawn(f) != differ {
			t.Errorf("%s: drawn %v, two stages differ: %v", Describe(f), Drawn(f), differ)
		}
	}
	for kind, want := range map[string]bool{Patches: true, PatchPolynomial: true, Gradient: false, ClassCounts: false, "unknown": false} {
		f := DefaultsOf(kind)
		f.Kind = kind
		if Drawn(f) != want {
			t.Errorf("%s: drawn %v, expected %v", kind, Drawn(f), want)
		}
	}
}
