package schemas

import (
	"encoding/json"
	"math"
	"testing"
)

// A ridge is a number in JSON, with the bits that it had when it was a number, or auto.
func TestRidgeInJSON(t *testing.T) {
	for _, r := range []Ridge{0, 1e-4, 3e-7, 0.1, 1e300, 12, RidgeAuto} {
		content, err := json.Marshal(Stage{Ridge: r})
		var back Stage
		if err != nil || json.Unmarshal(content, &back) != nil || back.Ridge != r {
			t.Errorf("%v is written as %s and read as %v: %v", r, content, back.Ridge, err)
		}
		if number, _ := json.Marshal(float64(r)); r != RidgeAuto {
			if ridge, err := json.Marshal(r); string(ridge) != string(number) {
				t.Errorf("%v is written as %s: %v", r, ridge, err)
			}
		}
	}
	for _, text := range []string{`-1`, `-0.5`, `"1e-4"`, `"none"`, `true`, `{}`, `1e999`} {
		if err := json.Unmarshal([]byte(`{"ridge": `+text+`}`), new(Stage)); err == nil {
			t.Errorf("%s is read as a ridge", text)
		}
	}
}

func TestRidgeIsValid(t *testing.T) {
	for r, want := range map[Ridge]bool{0: true, 1e-9: true, RidgeAuto: true, -0.5: false, -2: false, Ridge(math.Inf(1)): false,
		Ridge(math.NaN()): false} {
		if r.Valid() != want {
			t.Errorf("ridge %v is valid: %v, expected %v", r, r.Valid(), want)
		}
	}
}
