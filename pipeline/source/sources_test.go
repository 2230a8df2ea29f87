package source

import (
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
)

// The beginning of an id is enough if no other id begins with it.
func TestFindSources(t *testing.T) {
	sources := map[string]knownSource{"abc1": {}, "abc2": {}, "f": {}}
	assert.Equal(t, assert.Must(findSources("test.plans", sources, []string{"abc2", "f", "abc1", "f"}))(t), []string{"abc2", "f", "abc1"},
		"found")
	_, err := findSources("test.plans", sources, []string{"abc", "f", "x", "ab"})
	for _, want := range []string{
		`there is no source "x" on test.plans; "ab" begins several source IDs on test.plans: abc1, abc2: expected`,
		"see sources list",
	} {
		assert.Fails(t, err, want)
	}
}
