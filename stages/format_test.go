package stages

import (
	"os"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// FORMAT.md specifies the features of each kind, for implementations in other languages.
func TestFormatHasAllKinds(t *testing.T) {
	text := arrowtest.Must(os.ReadFile("../schemas/FORMAT.md"))(t)
	_, page, _ := strings.Cut(string(text), "\n## Predictions\n")
	for k := range kinds {
		if !strings.Contains(page, "\n| `"+k.name+"` | ") {
			t.Errorf("FORMAT.md has no formula of the features %s", k.name)
		}
	}
}
