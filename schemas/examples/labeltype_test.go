package examples

import (
	"encoding/json"
	"slices"
	"testing"
)

// Labels are whole numbers if all of them are, in their shortest form, and then they are numbers in JSON. What is read is what was written.
func TestTypeOf(t *testing.T) {
	for _, test := range []struct {
		labels []string
		want   LabelType
		json   string
	}{
		{[]string{"0", "1"}, WholeLabels, `[0,1]`},
		{[]string{"-3", "7", "9223372036854775807"}, WholeLabels, `[-3,7,9223372036854775807]`},
		{[]string{"7"}, WholeLabels, `[7]`},
		{[]string{"007"}, TextLabels, `["007"]`},
		{[]string{"0", "007"}, TextLabels, `["0","007"]`},
		{[]string{"0", "spam"}, TextLabels, `["0","spam"]`},
		{[]string{"0.0", "1.0"}, TextLabels, `["0.0","1.0"]`},
		{[]string{"+1", "-1"}, TextLabels, `["+1","-1"]`},
		{[]string{"-0"}, TextLabels, `["-0"]`},
		{[]string{"1e3"}, TextLabels, `["1e3"]`},
		{[]string{" 1"}, TextLabels, `[" 1"]`},
		{[]string{"9223372036854775808"}, TextLabels, `["9223372036854775808"]`},
		{[]string{"", "1"}, TextLabels, `["","1"]`},
		{[]string{}, TextLabels, `[]`},
		{nil, TextLabels, `null`},
	} {
		if got := TypeOf(test.labels); got != test.want {
			t.Errorf("%q are of type %q, expected %q", test.labels, got, test.want)
		}
		if err := TypeOf(test.labels).Check(test.labels); err != nil {
			t.Error(err)
		}
		text, err := json.Marshal(ClassLabels(test.labels))
		if err != nil || string(text) != test.json {
			t.Errorf("%q are %s as JSON: %v, expected %s", test.labels, text, err, test.json)
		}
		var read ClassLabels
		if err := json.Unmarshal(text, &read); err != nil || !slices.Equal(read, test.labels) {
			t.Errorf("%s is read as %q: %v", text, read, err)
		}
	}
	for _, labels := range [][]string{{"0", "007"}, {}} {
		if WholeLabels.Check(labels) == nil {
			t.Errorf("%q pass as whole numbers", labels)
		}
	}
	if LabelType("decimal").Check([]string{"1"}) == nil {
		t.Error("an unknown type passes")
	}
	for _, text := range []string{`[1,"a"]`, `[1.5]`, `{}`, `[99999999999999999999]`} {
		if err := json.Unmarshal([]byte(text), new(ClassLabels)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}
