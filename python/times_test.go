//go:build python

package python

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stagewise/stagewise/schemas/value"
)

// The package reads dates and times as the program reads them: their parts have the same bits.
func TestPythonReadsTimesAsGo(t *testing.T) {
	p, r := newPython(t), rand.New(rand.NewPCG(1, 5))
	type moment struct {
		Value any                `json:"value"`
		Unit  value.Unit         `json:"unit"`
		Parts map[string]float64 `json:"parts"` // null: it is no time
	}
	values := []any{"2026-11-01", "2026-02-29", "2024-02-29", "0001-01-01", "9999-12-31T23:59:59.999999999Z", "0000-01-01", "2026-11-01T24:00",
		"2026-11-01T09:30:15.", "2026-11-01T09:30:15.0123456789", "2026-11-01T09:30:15,5", "2026-11-01 09:30 UTC", "2026-11-01 09:30  UTC",
		"2026-11-01T09:30z", "2026-11-01T09:30+02", "2026-11-01T09:30+0230", "2026-11-01T09:30+24:00", "2026-11-01T09:30+02:60", "1/2/2026",
		"2026", " 2026-11-01 ", "true", "x", "1_000", "0x10", "+5", "-1", "1e19", "8e18", "1e9", "1793525415.25", "1793525415250", "-1.5",
		"99999999999", "100000000000", "1793525415000000", "1793525415000000001", "20260301", "2.02603010930e11", "20260229",
		0, 1793525415, -1, 1793525415.25, 20513, -0.25, 46082.29167, 20260301, 20260301093015, 2026030109, 1e11, 1.7935254152505e12}
	fixed := len(values)
	layouts := []string{time.RFC3339Nano, "2006-01-02 15:04", "2006-01-02T15:04:05.000000-0700", "2006-01-02 15:04:05 UTC"}
	for range 500 {
		at := time.Unix(r.Int64N(1<<37)-1<<36, r.Int64N(1e9)).In(time.FixedZone("", 900*(r.IntN(96)-48)))
		values = append(values, at.Format(layouts[r.IntN(len(layouts))]), at.Unix(), at.UnixMilli(), float64(at.UnixMicro())/1e6)
	}
	var moments []moment
	for i, v := range values {
		text, isText := v.(string)
		if !isText {
			content, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			text = string(content)
		}
		units := append(value.Units(), "")
		if i >= fixed {
			units = units[i%len(units):][:1]
		}
		for _, unit := range units {
			m := moment{Value: v, Unit: unit}
			if at, err := value.Time(text, unit); err == nil {
				m.Parts = map[string]float64{}
				for _, part := range value.TimeParts() {
					m.Parts[part] = value.PartOfTime(at, part)
				}
			}
			moments = append(moments, m)
		}
	}
	content, err := json.Marshal(moments)
	if err != nil {
		t.Fatal(err)
	}
	p.write("times.json", string(content))
	var different []string
	if err := json.Unmarshal(p.run("tests/times.py", p.folder+"/times.json"), &different); err != nil {
		t.Fatal(err)
	}
	for _, d := range different {
		t.Error(d)
	}
}
