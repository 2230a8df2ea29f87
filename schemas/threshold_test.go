package schemas

import (
	"encoding/json"
	"testing"

	"github.com/stagewise/stagewise/schemas/statistics"
)

// A rule has one JSON, which is read as the same rule, and nothing else is a rule.
func TestThresholdAsJSON(t *testing.T) {
	for text, want := range map[string]ThresholdRule{`0.5`: {}, `0.25`: {At: 0.25}, `"best_f1"`: {BestF1: true},
		`{"cost":{"fp":1,"fn":20}}`: {Costs: ThresholdCosts{1, 20}}} {
		var got ThresholdRule
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
		if back, err := json.Marshal(got); err != nil || string(back) != text {
			t.Errorf("%s is written as %s, %v", text, back, err)
		}
	}
	for _, text := range []string{`0`, `1`, `-1`, `1.5`, `"f1"`, `null`, `{}`, `{"cost":{}}`, `{"cost":{"fp":1}}`, `{"cost":{"fp":-1,"fn":1}}`, `[]`, `true`} {
		if err := json.Unmarshal([]byte(text), new(ThresholdRule)); err == nil {
			t.Errorf("%s is a rule", text)
		}
	}
}

// A better decision has less.
func TestThresholdCost(t *testing.T) {
	few, many := statistics.Decision{{90, 10}, {4, 6}}, statistics.Decision{{99, 1}, {9, 1}}
	for _, r := range []ThresholdRule{{BestF1: true}, {Costs: ThresholdCosts{1, 20}}} {
		if !r.Chosen() || !(r.Cost(few) < r.Cost(many)) {
			t.Errorf("%v: %v and %v", r, r.Cost(few), r.Cost(many))
		}
	}
	if r := (ThresholdRule{Costs: ThresholdCosts{1, 1}}); r.Cost(few) != 14 || r.Cost(many) != 10 {
		t.Errorf("wrong rows cost %v and %v", r.Cost(few), r.Cost(many))
	}
}
