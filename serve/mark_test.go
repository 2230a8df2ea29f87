package serve

import (
	"testing"

	"github.com/stagewise/stagewise/serve/jsonscan"
)

// A byte order mark before a request is no part of it, as before the text of a file.
func TestByteOrderMark(t *testing.T) {
	for _, mark := range []string{"", "\ufeff"} {
		text, err := jsonscan.New([]byte(mark + " [1]"))
		if err != nil {
			t.Fatal(err)
		}
		got := 0.0
		if err := text.Elements(func(int) error { got, err = text.Float(); return err }); err != nil || got != 1 {
			t.Errorf("%q: %v, %v", mark, got, err)
		}
	}
}
