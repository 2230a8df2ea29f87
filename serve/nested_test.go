package serve

import (
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Columns with paths are found in nested values, as in training.
func TestNestedRows(t *testing.T) {
	columns := examples.Columns{{Name: "user.age"}, {Name: "user.address.city", Categories: []string{"Oslo", "Rome"}}, {Name: "items.1.price"}, {Name: "n"}}
	m := newModel(t, 1, 6, columns, layout.MissingMean)
	s := newServer(t, Defaults(), Fixed(m))
	for body, row := range map[string][]float32{
		`{"rows": [{"user": {"age": 30, "address": {"city": "Rome", "zip": [1]}, "id": {"age": 1}}, "items": [{"price": 1}, {"price": 2, "n": 9}, 3], "n": 4}]}`: {30, 0, 1, 0, 2, 4},
		`{"rows": [{"n": 4, "user.age": 30, "user": {"address.city": "Rome"}, "items.1": {"price": 2}, "other": {"age": 7}}]}`:                                   {30, 0, 1, 0, 2, 4},
		`{"rows": [{"user": null, "items": [], "n": 4}]}`:             {nan, nan, nan, nan, nan, 4},
		`{"rows": [{"user": [{"age": 1}], "items": "none", "n": 4}]}`: {nan, nan, nan, nan, nan, 4},
	} {
		checkAnswer(t, ask(s, "POST", "/predict", typeJSON, []byte(body)), m, row)
	}
	for body, want := range map[string]string{
		`{"rows": [{"user": {"age": 1}, "user.age": 2}]}`: `duplicate column "user.age"`,
		`{"rows": [{"user": {"age": {}}}]}`:               `column "user.age"`,
		`{"rows": [{"user": {"age": 1, "age": 1}}]}`:      `duplicate column "user.age"`,
		`{"rows": [{"user": {"x": 1, "x": 1}}]}`:          `duplicate column "user.x"`,
	} {
		checkRefused(t, ask(s, "POST", "/predict", typeJSON, []byte(body)), body, want)
	}
}
