package stages

import (
	"os"
	"strings"
	"testing"
)

// FORMAT.md says what each kind of features computes, so that other languages can compute it.
func TestFormatHasAllKinds(t *testing.T) {
	text, err := os.ReadFile("../schemas/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(text), "\n## Predictions\n")
	for k := range kinds {
		if !strings.Contains(page, "\n| `"+k.name+"` | ") {
			t.Errorf("FORMAT.md has no formula of the features %s", k.name)
		}
	}
}
