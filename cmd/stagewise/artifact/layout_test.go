package artifact

import (
	"encoding/json"
	"reflect"
	"testing"
)

// The layout changes no value, whatever is in a text.
func TestLayOut(t *testing.T) {
	value := map[string]any{"labels": []any{`a"[b`, `\`, "]{", ""}, "empty": []any{}, "none": map[string]any{},
		"matrix": []any{[]any{1.0, 2.0}, []any{3.0, 4.5}}, "nested": map[string]any{"x": nil, "y": true, "z": []any{}}}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	laidOut := layOut(text)
	var back any
	if err := json.Unmarshal(laidOut, &back); err != nil || !reflect.DeepEqual(back, any(value)) {
		t.Errorf("%v in\n%s", err, laidOut)
	}
	want := `{
  "empty": [],
  "labels": ["a\"[b", "\\", "]{", ""],
  "matrix": [
    [1, 2],
    [3, 4.5]
  ],
  "nested": {
    "x": null,
    "y": true,
    "z": []
  },
  "none": {}
}`
	if string(laidOut) != want {
		t.Errorf("got\n%s\nexpected\n%s", laidOut, want)
	}
}
