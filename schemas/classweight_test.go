package schemas

import (
	"encoding/json"
	"testing"
)

func TestClassWeightAsJSON(t *testing.T) {
	for text, want := range map[string]ClassWeight{
		`"none"`:              {},
		`"balanced"`:          {Balanced: true},
		`{"cat":2,"dog":0.5}`: {By: map[string]float64{"cat": 2, "dog": 0.5}},
		`{"rare":0}`:          {By: map[string]float64{"rare": 0}},
	} {
		var got ClassWeight
		if err := json.Unmarshal([]byte(text), &got); err != nil || !got.Equal(want) || got.IsZero() != (text == `"none"`) {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
		if written, err := json.Marshal(got); err != nil || string(written) != text {
			t.Errorf("%s is written as %s, %v", text, written, err)
		}
	}
	for _, text := range []string{`"equal"`, `{"cat":-1}`, `{"cat":"2"}`, `{}`, `3`} {
		var w ClassWeight
		if json.Unmarshal([]byte(text), &w) == nil {
			t.Errorf("%s is read as %+v", text, w)
		}
	}
}
