package solve

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
)

func TestEveryMethodIsComplete(t *testing.T) {
	names := methodNames()
	for i, m := range methods() {
		if m.name == "" || m.doc == "" || m.start == nil || slices.Index(names, m.name) != i {
			t.Errorf("%q lacks a part, or has the name of another method", m.name)
		}
		if methodNamed(m.name).doc != m.doc {
			t.Errorf("%s is not found by its name", m.name)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown name has a method")
		}
	}()
	methodNamed("newton")
}

// The documentation of the keys names every link and every method, and docs/configuration.md has it, in the same order.
func TestKeys(t *testing.T) {
	page, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	rest := string(page)
	for _, key := range Keys() {
		for name, values := range map[string][]string{"link": link.Names(), "method": methodNames()} {
			for _, value := range values {
				if key.Name == name && !strings.Contains(key.Meaning, "`"+value+"`") {
					t.Errorf("the documentation of %s lacks %s", name, value)
				}
			}
		}
		_, after, ok := strings.Cut(rest, "| `stages.*."+key.Name+"` |")
		if line, _, _ := strings.Cut(after, "\n"); !ok || !strings.HasSuffix(line, " | "+key.Meaning+" |") {
			t.Errorf("docs/configuration.md does not say of %s: %s", key.Name, key.Meaning)
		}
		rest = after
	}
}
