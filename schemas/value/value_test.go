package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stagewise/stagewise/internal/assert"
)

// A decimal number or a boolean is a number, and nothing else is.
func TestNumber(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "-0": 0, "1.5": 1.5, " 1 ": 1, "+1": 1, "007": 7, ".5": .5, "5.": 5, "1e3": 1000, "1E-3": .001, "-1.5e+2": -150,
		"true": 1, "True": 1, "TRUE": 1, "False": 0,
		"1e999": math.Inf(1), "1e-999": 0,
	} {
		got, err := Number(text)
		assert.True(t, err == nil && got == want, "%q: %v, %v, expected %v", text, got, err, want)
	}
	for text, want := range map[string]string{
		"": "an empty field", "  ": "an empty field", "1_000": `"1_000" is not a number`, "0x1p4": `"0x1p4" is not a number`,
		"2_5": `"2_5" is not a number`, "1,5": `"1,5" is not a number`,
		".": `"." is not a number`, "1e": `"1e" is not a number`, "--1": `"--1" is not a number`, "tRUE": `"tRUE" is not a number`,
		"-inf": `"-inf" is not a finite number`, "NaN": `"NaN" is not a finite number`,
		"1 2": `"1 2" is not a number`, "١": `"١" is not a number`,
	} {
		got, err := Number(text)
		assert.Equal(t, fmt.Sprint(err), want, "%q: %v", text, got)
	}
}

// A whole number is one word, however it is written, and so is a boolean. Labels keep the numbers as they are written.
func TestWords(t *testing.T) {
	for text, want := range map[string]struct{ word, label, number string }{
		"1": {"1", "1", "1"}, "1.0": {"1", "1.0", "1"}, "1.00": {"1.00", "1.00", "1"},
		"1e0": {"1e0", "1e0", "1"}, "10e-1": {"10e-1", "10e-1", "1"}, "1E2": {"1E2", "1E2", "100"}, "0e12": {"0e12", "0e12", "0"},
		"1.0e0": {"1.0e0", "1.0e0", "1"}, ".0": {".0", ".0", "0"}, "01.0": {"01.0", "01.0", "1"}, "-1.0": {"-1", "-1.0", "-1"}, "+1": {"+1", "+1", "1"},
		"007": {"007", "007", "7"}, "-0": {"0", "-0", "0"},
		"-0.0": {"0", "-0.0", "0"}, "3.10": {"3.10", "3.10", "3.1"}, "-2.50": {"-2.50", "-2.50", "-2.5"}, "0.1": {"0.1", "0.1", "0.1"},
		"12345678901234567890":   {"12345678901234567890", "12345678901234567890", "12345678901234567890"},
		"12345678901234567890.0": {"12345678901234567890", "12345678901234567890.0", "1.2345679e+19"},
		" red ":                  {"red", "red", "red"}, "TRUE": {"true", "true", "true"}, "False": {"false", "false", "false"},
		"tRUE": {"tRUE", "tRUE", "tRUE"}, "1e999": {"1e999", "1e999", "1e999"},
		"1.2.3": {"1.2.3", "1.2.3", "1.2.3"}, "e": {"e", "e", "e"}, "": {"", "", ""},
	} {
		if want.number == "1.2345679e+19" {
			want.number = WordOf(12345678901234567890)
		}
		number := NumberLabel(text)
		assert.True(t, Word(text) == want.word && Label(text) == want.label && (number == want.number || text == "1e999"),
			"%q: word %q, label %q, of numbers %q, expected %q", text, Word(text), Label(text), number, want)
	}
	for v, want := range map[float64]string{0: "0", math.Copysign(0, -1): "0", 1: "1", -3: "-3", 0.5: "0.5",
		float64(float32(0.1)): "0.1", 0.1: "0.1", 1e15: "1000000000000000", 1e300: "1e+300", 1234567.5: "1.2345675e+06"} {
		assert.Equal(t, WordOf(v), want, "%v", v)
	}
}

// A text is missing as a word if it is one of the words, and as a number if it is one of the numbers, however it is written.
func TestMissing(t *testing.T) {
	m := MissingOf(append(Usual(), "-999", "1.50", "1E2", "0.1", "-inf", "1900-01-01", "12:00"))
	for text, want := range map[string]struct{ word, number bool }{"": {true, true}, " ": {true, true}, "NA": {true, true}, " nan ": {true, true},
		"Na": {}, "0": {}, "-999": {true, true}, "-999.0": {true, true}, "-9.99e2": {false, true}, "-999.00": {false, true}, "999": {},
		"1.50": {true, true}, "1.5": {false, true}, "100": {false, true}, "1E2": {true, true}, "-Infinity": {false, true}, "inf": {},
		"1900-01-01": {true, true}, "0x64": {}, "12:00": {true, true}} {
		word, number := m.Has(text), m.HasNumberText(text)
		assert.True(t, word == want.word && number == want.number, "%q: as a word %v, as a number %v, expected %v", text, word, number, want)
	}
	assert.True(t, m.HasNumber(float64(float32(0.1))) && m.HasNumber(0.1) && !m.HasNumber(0.2) && !m.HasNumber(math.NaN()),
		"a float32 is not the number, or another one is")
	one := MissingOf([]string{"0", "1"})
	assert.True(t, !one.HasNumberText("false") && !one.HasNumberText("TRUE"), "a boolean is missing as a number")
	at, _ := Time("1900-01-01T01:00:00+01:00", "")
	assert.True(t, m.HasTime(at) && !m.HasTime(at.Add(1)), "the same time is not missing, or another is")
	m = MissingOf(Usual()).Without([]string{"NA", "EU"})
	assert.True(t, !m.Has("NA") && m.Has("nan"), "%v without a class", m)
}

// A member that comes twice is an error.
func TestMembers(t *testing.T) {
	err := Cell(`{"a":1,"b":2,"a":3}`).Each(func([]byte, Cell) error { return nil })
	assert.Equal(t, fmt.Sprint(err), `duplicate member "a"`, "a name twice")
}

// Strings of JSON have characters alone: bytes that are not UTF-8 and halves of pairs of surrogates are errors, where
// encoding/json replaces them.
func TestCheckJSON(t *testing.T) {
	for text, want := range map[string]error{
		`{"a":"é\u00e9\ud83d\ude00\\ud800\n"}`: nil, "{\"a\":\"\xe9\"}": ErrNotUTF8, "{\"\xe9\":1}": ErrNotUTF8,
		`{"a":"\ud800"}`: ErrSurrogate, `{"\udc00":1}`: ErrSurrogate, `"\ud800\ud800"`: ErrSurrogate,
		`"\ud800x"`: ErrSurrogate, `"\ud83d\\ude00"`: ErrSurrogate,
	} {
		err := CheckJSON([]byte(text))
		assert.True(t, errors.Is(err, want) && (want != nil || err == nil), "%q: %v, expected %v", text, err, want)
	}
	for text, want := range map[string]string{"": "not JSON: it ends too early", `{"a":`: "not JSON: it ends too early",
		`{"a":.5}`: "not JSON: byte 6: invalid character '.' looking for beginning of value"} {
		assert.Equal(t, fmt.Sprint(CheckJSON([]byte(text))), want, "%q", text)
	}
}

// A number is what a grammar says, and has the value that strconv gives it. The word of a text is its own word, and of
// numbers it is the same number.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"1", "1.0", "-0.0", "+.5e-3", "1_000", "0x1p4", "inf", "true", "NA", " x ", "\xff",
		"12345678901234567890.000", "1e15", "1e22", "-1.5E+2"} {
		f.Add(seed)
	}
	grammar := regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
	f.Fuzz(func(t *testing.T, text string) {
		trimmed := strings.TrimSpace(text)
		v, err := Number(text)
		_, boolean := Boolean(trimmed)
		assert.True(t, (err == nil) == (boolean || grammar.MatchString(trimmed)), "%q: %v, %v", text, v, err)
		want, _ := strconv.ParseFloat(trimmed, 64)
		assert.True(t, err != nil || boolean || v == want, "%q: %v, expected %v", text, v, want)
		for name, of := range map[string]func(string) string{"word": Word, "label": Label, "label of numbers": NumberLabel} {
			word := of(text)
			assert.Equal(t, of(word), word, "%q has the %s", text, name)
			same, wrong := Number(word)
			assert.True(t, (err == nil) == (wrong == nil) && (err != nil || math.Abs(same-v) <= 1e-6*math.Abs(v) || v-v != 0),
				"%q, %v, has the %s %q, %v", text, v, name, word, same)
		}
		assert.True(t, (CheckText(text) == nil) == utf8.ValidString(text), "%q: %v", text, CheckText(text))
	})
}

// What is taken as JSON is JSON, and its strings are what encoding/json reads, without a character in the place of bytes that are none.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":[true,"x"]}`, `"\ud83d\ude00"`, `"\ud800"`, "\"\xff\"", `{"a":1,"a":2}`, `[1e999,-0.0]`,
		`["\udc00","\ud83d\u00e9"]`, `{"a":"\\ud800"}`, ` [ { "a" : [ ] , "b" : { } } , -12.5E-3 , "\/\b" ] `, `[01]`, `[1.]`, `{"a" 1}`, `[1,]`, `"\x"`, `tru`, `-`, `[1}`, "\"\t\""} {
		f.Add([]byte(seed))
	}
	// An escape of JSON, but not of an unpaired surrogate.
	escape := regexp.MustCompile(`\\(?:[^u]|u[dD][89abAB]..\\u[dD][c-fC-F]..|u(?:[^dD].|[dD][0-7])..)`)
	f.Fuzz(func(t *testing.T, text []byte) {
		ok := CheckJSON(text) == nil
		is := json.Valid(text) && utf8.Valid(text) && !bytes.Contains(escape.ReplaceAll(text, nil), []byte(`\`))
		assert.Need(t, is == ok, "%q: JSON %v, expected %v", text, !is, is)
		if !ok {
			return
		}
		var content any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber() // of any size
		err := d.Decode(&content)
		assert.Need(t, err == nil, "%q was taken: %v", text, err)
		replaced := strings.Count(string(text), "\ufffd") + strings.Count(strings.ToLower(string(text)), `\ufffd`)
		again, _ := json.Marshal(content)
		assert.Need(t, replaced != 0 || !strings.Contains(string(again), "\ufffd"), "%q has another character than it says: %s", text, again)
		cell := Cell(text)
		names := map[string]bool{}
		err = cell.Each(func(name []byte, _ Cell) error {
			assert.Need(t, !names[string(name)], "%q: %q twice", text, name)
			names[string(name)] = true
			return nil
		})
		members, ok := content.(map[string]any)
		assert.Need(t, !ok || err != nil || len(members) == len(names), "%q: %d members, expected %d", text, len(names), len(members))
	})
}

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
		want := assert.Must(time.Parse(layout, text))(t)
		got, err := Time(" "+text, "")
		assert.Need(t, err == nil && got.Equal(want) && got.Hour() == want.Hour() && got.Weekday() == want.Weekday(),
			"%s: %v, %v, expected %v", text, got, err, want)
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
			assert.True(t, (test.want != "" || err != nil) && (test.want == "" || err == nil && got.Format(time.RFC3339Nano) == test.want),
				"%s in %s: %v, %v, expected %q", text, test.unit, got, err, test.want)
		}
	}
	assert.MustFail(Time("1793525415", ""))(t, new(*UnitError))
}

// The unit is that in which the numbers are times within 1950 to 2100, or none.
func TestUnitsOfNumbers(t *testing.T) {
	for texts, want := range map[string]string{
		"":                            "",
		"2026-11-01 x true":           "",
		"1793525415 0 -1":             "s",
		"-631152000 1":                "s",
		"1793525415000 1793525415250": "ms",
		"-126230400000 94694400000 0": "ms", // 1966 to 1973
		"-94694400000":                "ms",
		"1793525415000000":            "us",
		"1793525415000000000":         "ns",
		"20513 20514 19000":           "days",
		"-7305 20513":                 "days",
		"20513.5":                     "days",
		"46082 46083.29167":           "excel",
		"30000 50000":                 "excel",
		"18264.5 46082.5":             "excel",
		"20260301":                    "yyyymmdd",
		"19991231 20260301000000":     "yyyymmdd",
		"202603010930":                "yyyymmdd",
		"2026-11-01 1793525415":       "s",
		"1793525415 4102444800":       "s",
		"20260301 20260229":           "are times within 1950 to 2100 in no unit: s (1970-08-23 to 1970-08-23), ms (",
		"20260301 0":                  "yyyymmdd (but not 0)",
		"1793525415 1793525415000":    "in no unit",
		"1793525415000 1793525415001 1793525415002 1793525415003 1793525415": "in no unit: ms (1970-01-21 to 2026-11-01)", // the last is of seconds
		"1793525415 1793525416 1793525417 1793525418 20523":                  "in no unit: s (1970-01-01 to 2026-11-01)",  // of days
		"1793525415 1793525416 1793525417 1793525418 20260301":               "yyyymmdd (but not 1793525415)",
		"-400000000000 86400000 300000000000 400000000000 10000000000":       "ms",         // birthdays, of which one is in January 1970
		"1793525415 1793525415 253402300799":                                 "in no unit", // the last is 9999-12-31
		"1793525415000 253402300799000":                                      "in no unit",
		"2026 1999":                                                          "the numbers from 1999 to 2026 are times within 1950 to 2100 in no unit: s (1970-01-01 to 1970-01-01), ms (",
		"202603":                                                             "in no unit",
		"86399 34200":                                                        "in no unit",
		"-1262304000000 1119744000000":                                       "in no unit", // birthdays from 1930 in ms
		"18300 39000":                                                        "in several units: days (2020-02-08 to 2076-10-11), excel (1950-02-06 to 2006-10-10)",
		"638355968000000000 638700000000000000":                              "of 1990-03, or rather the ticks of .NET, of 100 ns each: write (ticks − 621355968000000000) / 10000, which",
		"133444736000000000 133800000000000000":                              "of 1974-03, or rather the ticks of Windows, of 100 ns each: write (ticks − 116444736000000000) / 10000",
		"638355968000000000 1793525415000000000":                             "ns",
		"1e300":                                                              "in no unit",
		"29531000":                                                           "in no unit", // minutes since 1970
		"2460000.5":                                                          "in no unit", // Julian days
	} {
		var s Stamps
		for _, text := range strings.Fields(texts) {
			s.Add(text)
		}
		u, err := s.Unit()
		assert.True(t, err == nil && string(u) == want || err != nil && strings.Contains(err.Error(), want) && len(want) >= 9,
			"%s: %q, %v, expected %s", texts, u, err, want)
	}
}

func TestNoTimes(t *testing.T) {
	for _, text := range []string{"", "x", "NaN", "inf", "1e19", "1793525415000", "1/2/2026", "01.02.2026", "2026-11", "2026-11-1", "2026-02-29", "2026-13-01",
		"0000-01-01", "2026-11-01T", "2026-11-01T9:30", "2026-11-01T24:00", "2026-11-01T09:60", "2026-11-01T09:30:60", "2026-11-01T09:30:15.",
		"2026-11-01T09:30:15.0123456789", "2026-11-01T09:30 CET", "2026-11-01T09:30+2", "2026-11-01T09:30+02:", "2026-11-01x09:30", "09:30",
		"2026-11-01T09:30+02:00x", "true"} {
		got, err := Time(text, UnitSeconds)
		assert.True(t, err != nil, "%q: %v, expected an error", text, got)
	}
}

// The parts of times are what people mean.
func TestPartsOfTimes(t *testing.T) {
	for text, want := range map[string]string{
		"2026-11-01T09:30:00":       "hour 9.5, weekday 7, month 11, age -20758.395833333332",
		"2026-11-02T23:30:00-02:00": "hour 23.5, weekday 1, month 11, age -20760.0625",
		"1969-12-31":                "hour 0, weekday 3, month 12, age 1",
	} {
		at := assert.Must(Time(text, ""))(t)
		got := ""
		for _, part := range TimeParts() {
			if got += fmt.Sprintf("%s %v", part, PartOfTime(at, part)); part != TimeAge {
				got += ", "
			}
		}
		assert.Equal(t, got, want, "%s", text)
	}
}

// Half rounds as IEEE 754 does.
func TestHalf(t *testing.T) {
	for v, want := range map[float64]float64{
		0: 0, -9999: -10000, -99.9: -99.875, 0.1: 0.0999755859375, 65504: 65504, 65519: 65504, 65520: math.Inf(1), -1e300: math.Inf(-1),
		2049: 2048, 2051: 2052, 6e-8: math.Ldexp(1, -24), 2e-8: 0, 6.1e-5: 1023 * math.Ldexp(1, -24), math.Inf(-1): math.Inf(-1),
	} {
		assert.Equal(t, Half(v), want, "%v", v)
	}
	v := Half(math.NaN())
	assert.True(t, v != v, "%v", v)
}

// A number in a column whose first rows have none around 1970 is an error if it is of another unit. If they have, or if the unit is known
// to have numbers of any time, it is not.
func TestNumbersOfAnotherUnit(t *testing.T) {
	for _, test := range []struct {
		text, want string // the date, or a part of the error
		of         Unit
	}{
		{"1793525415000", "2026-11-01", UnitMilliseconds},
		{"0", "1970-01-01", UnitMilliseconds},
		{"1970-01-20", "1970-01-20", UnitMilliseconds},
		{"1793525415", `"1793525415" is 1970-01-21 in ms, the unit of other rows, but 2026-11-01 in s: write`, UnitMilliseconds},
		{"20523", `"20523" is 1970-01-01 in s, the unit of other rows, but 2026-03-11 in days and 1956-03-09 in excel: write`, UnitSeconds},
		{"20260301", `is 1970-08-23 in s, the unit of other rows, but 2026-03-01 in yyyymmdd: write`, UnitSeconds},
		{"94694400000", `is 4970-09-30 in s, the unit of other rows, but 1973-01-01 in ms: write`, UnitSeconds},
		{"-1262304000000", `is 1930-01-01 in ms, the unit of other rows: write`, UnitMilliseconds},
		{"1793525415", `"1793525415" is no time in days, the unit of other rows, but 2026-11-01 in s: write`, UnitDays},
		{"20260230", `"20260230" is no time in yyyymmdd, the unit of other rows: write`, UnitDigits},
		{"x", `"x" is not a time: expected a form such as`, UnitDays},
		{"true", `"true" is not a time: expected a form such as`, UnitDays},
	} {
		at, err := LikelyTime(test.text, test.of)
		assert.True(t, (err != nil || at.Format(time.DateOnly) == test.want) && (err == nil || strings.Contains(err.Error(), test.want)),
			"%s in %s: %v, %v, expected %s", test.text, test.of, at, err, test.want)
	}
	for texts, want := range map[string]bool{"1793525415": false, "0 1 -1 1793525415": false, "-400000000 400000000": true, "10000000 400000000": true, "20513": false} {
		var s Stamps
		for _, text := range strings.Fields(texts) {
			s.Add(text)
		}
		u, err := s.Unit()
		assert.True(t, err == nil && s.AnyTime(u) == want && StampsIn(u, want).AnyTime(u) == want,
			"%s: %v, expected %v", texts, s.AnyTime(u), want)
	}
}
