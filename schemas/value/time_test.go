package value

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// Times are those that package time reads of the same texts.
func TestTimesAsPackageTimeReadsThem(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	layouts := []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02 15:04:05", time.RFC3339,
		"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02T15:04-07", "2006-01-02T15:04:05.999999999Z07:00",
		"2006-01-02 15:04:05.000", "2006-01-02 15:04:05 UTC"}
	for range 10_000 {
		at := time.Unix(r.Int64N(1<<36)-1<<35, r.Int64N(1e9)).In(time.FixedZone("", 900*(r.IntN(96)-48)))
		layout := layouts[r.IntN(len(layouts))]
		text := at.Format(layout)
		want, err := time.Parse(layout, text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Time(" " + text)
		if err != nil || !got.Equal(want) || got.Hour() != want.Hour() || got.Weekday() != want.Weekday() {
			t.Fatalf("%s: %v, %v, expected %v", text, got, err, want)
		}
	}
}

// Numbers count from 1970, in the unit that their magnitude says.
func TestTimesOfNumbers(t *testing.T) {
	want := time.Date(2026, 11, 1, 9, 30, 15, 0, time.UTC)
	for _, text := range []string{"1793525415", "1793525415.0", "1.793525415e9", "1793525415000", "1793525415000000", "1793525415000000000"} {
		if got, err := Time(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"0": "1970-01-01T00:00:00Z", "-1": "1969-12-31T23:59:59Z", "-1500000000000": "1922-06-20T21:20:00Z",
		"1793525415.25": "2026-11-01T09:30:15.25Z", "1793525415250": "2026-11-01T09:30:15.25Z"} {
		if got, err := Time(text); err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%s: %v, %v, expected %s", text, got, err, want)
		}
	}
}

func TestNoTimes(t *testing.T) {
	for _, text := range []string{"", "x", "NaN", "inf", "1e19", "1/2/2026", "01.02.2026", "2026-11", "2026-11-1", "2026-02-29", "2026-13-01",
		"0000-01-01", "2026-11-01T", "2026-11-01T9:30", "2026-11-01T24:00", "2026-11-01T09:60", "2026-11-01T09:30:60", "2026-11-01T09:30:15.",
		"2026-11-01T09:30:15.0123456789", "2026-11-01T09:30 CET", "2026-11-01T09:30+2", "2026-11-01T09:30+02:", "2026-11-01x09:30", "09:30",
		"2026-11-01T09:30+02:00x", "true"} {
		if got, err := Time(text); err == nil {
			t.Errorf("%q: %v, expected an error", text, got)
		}
	}
}

// The parts of times are what people mean.
func TestPartsOfTimes(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-01T09:30:00":       "hour 9.5, weekday 7, month 11, age -20758.395833333332",
		"2026-11-02T23:30:00-02:00": "hour 23.5, weekday 1, month 11, age -20760.0625",
		"1969-12-31":                "hour 0, weekday 3, month 12, age 1",
	} {
		at, err := Time(text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, part := range TimeParts() {
			if got += fmt.Sprintf("%s %v", part, PartOfTime(at, part)); part != TimeAge {
				got += ", "
			}
		}
		if got != want {
			t.Errorf("%s: %s, expected %s", text, got, want)
		}
	}
}
