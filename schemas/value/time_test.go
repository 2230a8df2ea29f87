package value

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
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
		got, err := Time(" "+text, "")
		if err != nil || !got.Equal(want) || got.Hour() != want.Hour() || got.Weekday() != want.Weekday() {
			t.Fatalf("%s: %v, %v, expected %v", text, got, err, want)
		}
	}
}

// A number is a time in its unit.
func TestTimesOfNumbers(t *testing.T) {
	for _, test := range []struct {
		unit  Unit
		texts []string
		want  string // "": none
	}{
		{UnitSeconds, []string{"1793525415", "1793525415.0", "1.793525415e9"}, "2026-11-01T09:30:15Z"},
		{UnitMilliseconds, []string{"1793525415000"}, "2026-11-01T09:30:15Z"},
		{UnitMicroseconds, []string{"1793525415000000"}, "2026-11-01T09:30:15Z"},
		{UnitNanoseconds, []string{"1793525415000000000"}, "2026-11-01T09:30:15Z"},
		{UnitSeconds, []string{"0"}, "1970-01-01T00:00:00Z"},
		{UnitSeconds, []string{"-1", "-1.0"}, "1969-12-31T23:59:59Z"},
		{UnitMilliseconds, []string{"-1500000000000"}, "1922-06-20T21:20:00Z"},
		{UnitMilliseconds, []string{"-86400000", "-8.64e7"}, "1969-12-31T00:00:00Z"},
		{UnitSeconds, []string{"1793525415.25"}, "2026-11-01T09:30:15.25Z"},
		{UnitMilliseconds, []string{"1793525415250"}, "2026-11-01T09:30:15.25Z"},
		{UnitDays, []string{"20513", "20513.0"}, "2026-03-01T00:00:00Z"},
		{UnitDays, []string{"-0.25"}, "1969-12-31T18:00:00Z"},
		{UnitExcel, []string{"46082"}, "2026-03-01T00:00:00Z"},
		{UnitExcel, []string{"46082.5"}, "2026-03-01T12:00:00Z"},
		{UnitDigits, []string{"20260301", "20260301.0", "2.0260301e7", "2026030100", "202603010000", "20260301000000"}, "2026-03-01T00:00:00Z"},
		{UnitDigits, []string{"20260302070159"}, "2026-03-02T07:01:59Z"},
		{UnitDigits, []string{"20260229", "20261301", "2026030", "202603011", "20260301240000", "0", "-20260301", "20260301.5"}, ""},
		{UnitSeconds, []string{"1793525415000"}, ""},
		{UnitDays, []string{"1793525415"}, ""},
	} {
		for _, text := range test.texts {
			got, err := Time(text, test.unit)
			if test.want == "" && err == nil || test.want != "" && (err != nil || got.Format(time.RFC3339Nano) != test.want) {
				t.Errorf("%s in %s: %v, %v, expected %q", text, test.unit, got, err, test.want)
			}
		}
	}
	if _, err := Time("1793525415", ""); !errors.As(err, new(*UnitError)) {
		t.Errorf("a number without a unit: %v", err)
	}
}

// The unit is that in which the numbers are times within 1950 to 2100, or none.
func TestUnitsOfNumbers(t *testing.T) {
	for texts, want := range map[string]string{
		"":                                   "",
		"2026-11-01 x true":                  "",
		"1793525415 0 -1":                    "s",
		"-631152000 1":                       "s",
		"1793525415000 1793525415250":        "ms",
		"-126230400000 94694400000 0":        "ms", // 1966 to 1973
		"-94694400000":                       "ms",
		"1793525415000000":                   "us",
		"1793525415000000000":                "ns",
		"20513 20514 19000":                  "days",
		"-7305 20513":                        "days",
		"20513.5":                            "days",
		"46082 46083.29167":                  "excel",
		"30000 50000":                        "excel",
		"18264.5 46082.5":                    "excel",
		"20260301":                           "yyyymmdd",
		"19991231 20260301000000":            "yyyymmdd",
		"202603010930":                       "yyyymmdd",
		"2026-11-01 1793525415":              "s",
		"1793525415 4102444800":              "s",
		"20260301 20260229":                  "are times within 1950 to 2100 in no unit: s (1970-08-23 to 1970-08-23), ms (",
		"20260301 0":                         "yyyymmdd (but not 0)",
		"1793525415 1793525415000":           "in no unit",
		"1793525415 1793525415 253402300799": "in no unit", // the last is 9999-12-31
		"1793525415000 253402300799000":      "in no unit",
		"2026 1999":                          "the numbers from 1999 to 2026 are times within 1950 to 2100 in no unit: s (1970-01-01 to 1970-01-01), ms (",
		"202603":                             "in no unit",
		"86399 34200":                        "in no unit",
		"-1262304000000 1119744000000":       "in no unit", // birthdays from 1930 in ms
		"18300 39000":                        "in several units: days (2020-02-08 to 2076-10-11), excel (1950-02-06 to 2006-10-10)",
		"1e300":                              "in no unit",
		"29531000":                           "in no unit", // minutes since 1970
		"2460000.5":                          "in no unit", // Julian days
	} {
		var s Stamps
		for _, text := range strings.Fields(texts) {
			s.Add(text)
		}
		u, err := s.Unit()
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && string(u) != want || err != nil && len(want) < 9 {
			t.Errorf("%s: %q, %v, expected %s", texts, u, err, want)
		}
	}
}

func TestNoTimes(t *testing.T) {
	for _, text := range []string{"", "x", "NaN", "inf", "1e19", "1793525415000", "1/2/2026", "01.02.2026", "2026-11", "2026-11-1", "2026-02-29", "2026-13-01",
		"0000-01-01", "2026-11-01T", "2026-11-01T9:30", "2026-11-01T24:00", "2026-11-01T09:60", "2026-11-01T09:30:60", "2026-11-01T09:30:15.",
		"2026-11-01T09:30:15.0123456789", "2026-11-01T09:30 CET", "2026-11-01T09:30+2", "2026-11-01T09:30+02:", "2026-11-01x09:30", "09:30",
		"2026-11-01T09:30+02:00x", "true"} {
		if got, err := Time(text, UnitSeconds); err == nil {
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
		at, err := Time(text, "")
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
