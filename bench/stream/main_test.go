package main

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

// The figure is well-formed, and has a tick for each version, a point for each that has an error, each alarm, and what its axes measure.
func TestDraw(t *testing.T) {
	percent := func(e float64) *float64 { return &e }
	r := report{Updates: []update{{Rows: 64}, {Rows: 63, Error: percent(40)}, {Rows: 65, Error: percent(0)},
		{Rows: 64, Error: percent(90), Drift: true}, {Rows: 1, Error: percent(3)}}}
	figure, err := draw(r)
	if err != nil {
		t.Fatal(err)
	}
	count, points := map[string]int{}, 0
	for d := xml.NewDecoder(strings.NewReader(figure)); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v:\n%s", err, figure)
		}
		if element, ok := token.(xml.StartElement); ok {
			for _, a := range element.Attr {
				switch a.Name.Local {
				case "class":
					count[a.Value]++
				case "points":
					points += len(strings.Fields(a.Value))
				}
			}
		}
	}
	if count["version"] != 5 || count["alarm"] != 1 || points != 4 {
		t.Errorf("%d versions, %d alarms, %d points, expected 5, 1 and 4", count["version"], count["alarm"], points)
	}
	for _, label := range []string{">100 %<", ">predicted wrong before they were learnt<", ">250<",
		">rows of the stream; each tick is a version<"} {
		if !strings.Contains(figure, label) {
			t.Errorf("the figure has no text %s:\n%s", label, figure)
		}
	}
	for name, c := range map[string]struct{ errors, low, high float64 }{"a few": {3, 2, 5}, "round": {5, 5, 10}, "none": {0, 0.1, 0.2},
		"all": {100, 50, 100}} {
		if low, high := limits(report{Updates: []update{{Error: percent(c.errors)}}}); low != c.low || high != c.high {
			t.Errorf("%s: an axis from %g to %g, expected %g to %g", name, low, high, c.low, c.high)
		}
	}
	if _, err := draw(report{Updates: []update{{Rows: 64}}}); err == nil {
		t.Error("a report without predictions was drawn")
	}
}
