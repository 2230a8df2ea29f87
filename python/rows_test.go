//go:build python

package python

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The package has the predictions of the table of the ways in (docs/values.md), or refuses what the program refuses: the same rows as in
// TestTheSameRowThroughEveryWay.
func TestPythonReadsTheSameRowAsGo(t *testing.T) {
	p := newPython(t)
	content, err := os.ReadFile("../cmd/stagewise/testdata/values.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name      string                     `json:"name"`
		Row       map[string]json.RawMessage `json:"row"` // as they are written: a number with a point is none without
		Absent    string                     `json:"absent"`
		Want      map[string]any             `json:"want"`
		Refused   bool                       `json:"refused"`
		RefusedBy []string                   `json:"refused_by"`
		NotIn     []string                   `json:"not_in"`
	}
	if err := json.Unmarshal(content, &cases); err != nil {
		t.Fatal(err)
	}
	p.write("orders.csv", orders(200))
	p.write("orders.yaml", `name: orders
examples: {train: [orders.csv], label: kind, categorical: [code, sent, colour], times: {day: {parts: [hour, weekday], unit: s}}, missing: mean, missing_values: [NA, NaN, '-999', 1900-01-01, '0.7'], partitions: 1}
prepare: {scale: standard}
stages: [{features: {kind: columns}, passes: 5}]
`)
	p.stagewise("train", "-c", "orders.yaml", "--quiet", "--model", "m")
	var rows []map[string]json.RawMessage
	columns := []string{"size", "paid", "code", "sent", "colour", "day"}
	wanted := strings.Join(columns, ",") + "\n"
	for _, c := range cases {
		row := map[string]json.RawMessage{"size": json.RawMessage("3.5"), "paid": json.RawMessage("1.0"), "code": json.RawMessage(`"2"`),
			"sent": json.RawMessage(`"true"`), "colour": json.RawMessage(`"red"`), "day": json.RawMessage(`"2026-11-02 09:30"`)}
		maps.Copy(row, c.Row)
		delete(row, c.Absent)
		rows = append(rows, row)
		want := map[string]any{"size": 3.5, "paid": 1, "code": "2", "sent": "true", "colour": "red", "day": "2026-11-02 09:30"}
		maps.Copy(want, c.Want)
		var fields []string
		for _, name := range columns {
			if want[name] == nil {
				want[name] = ""
			}
			fields = append(fields, fmt.Sprint(want[name]))
		}
		wanted += strings.Join(fields, ",") + "\n"
	}
	p.write("wanted.csv", wanted)
	p.stagewise("predict", "--model", "m", "-i", "wanted.csv", "-o", "wanted-predictions.csv")
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	p.write("rows.json", string(text))
	predictions, err := os.ReadFile(p.folder + "/wanted-predictions.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(predictions)), "\n")[1:]
	var answers [][]float64
	if err := json.Unmarshal(p.run("tests/rows.py", p.folder+"/m", p.folder+"/rows.json"), &answers); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		if slices.Contains(c.NotIn, "python") {
			continue
		}
		var want []float64
		if !c.Refused && !slices.Contains(c.RefusedBy, "python") {
			for _, field := range strings.Split(lines[i], ",")[1:] {
				v, err := strconv.ParseFloat(field, 64)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, v)
			}
		}
		if !slices.EqualFunc(answers[i], want, func(a, b float64) bool { return math.Abs(a-b) <= 1e-6 }) {
			t.Errorf("%s: %v, expected %v", c.Name, answers[i], want)
		}
	}
}

// orders is a table of numbers, booleans, words and times, some of which are missing.
func orders(rows int) string {
	var text strings.Builder
	text.WriteString("size,paid,code,sent,colour,day,kind\n")
	for i := range rows {
		size := strconv.Itoa(i % 7)
		if i%11 == 3 {
			size = "NA"
		}
		day := fmt.Sprintf("2026-11-%02d %02d:30", 1+i%14, i%6*4)
		fmt.Fprintf(&text, "%s,%s,%d,%s,%s,%s,%s\n", size, []string{"True", "False"}[i/3%2], 1+i/2%3, []string{"True", "False"}[i/5%2],
			[]string{"red", "grün", "blue"}[i%3], day, []string{"stop", "go", "wait"}[(i+i/2)%3])
	}
	return text.String()
}
