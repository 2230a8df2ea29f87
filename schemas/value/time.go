package value

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The parts of times that become numeric columns.
const (
	TimeHour    = "hour"    // since midnight, with minutes and seconds as a fraction
	TimeWeekday = "weekday" // 1 is Monday, 7 Sunday
	TimeMonth   = "month"   // from 1
	TimeAge     = "age"     // days before 1970, with a fraction: earlier times have a larger age
)

// TimeParts returns the parts of times, in the order of the documentation.
func TimeParts() []string { return []string{TimeHour, TimeWeekday, TimeMonth, TimeAge} }

// IsTimePart reports whether there is a part of times with that name.
func IsTimePart(name string) bool { return slices.Contains(TimeParts(), name) }

// PartOfTime returns a part of a time. Hour, weekday and month are local to its time zone. It panics if there is no such part.
func PartOfTime(t time.Time, part string) float64 {
	switch part {
	case TimeHour:
		return (float64(3600*t.Hour()+60*t.Minute()+t.Second()) + float64(t.Nanosecond())/1e9) / 3600
	case TimeWeekday:
		return float64((t.Weekday()+6)%7 + 1)
	case TimeMonth:
		return float64(t.Month())
	case TimeAge:
		return -(float64(t.Unix()) + float64(t.Nanosecond())/1e9) / 86400
	}
	panic("value: no part of times: " + part)
}

// Time parses a time: a date such as 2026-11-01, optionally followed by a space or T and a time of day, such as 09:30, 09:30:15 or
// 09:30:15.25, and then optionally a zone, such as Z, UTC, +02:00, +0200 or +02; or a number of the unit. The default zone is UTC.
// Ambiguous notations, such as 1/2/2026, are rejected. The error of a number without a unit is a *UnitError.
func Time(text string, u Unit) (time.Time, error) {
	text = strings.TrimSpace(text)
	if t, ok := timeOfText(text); ok {
		return t, nil
	}
	number, err := Number(text)
	if _, boolean := Boolean(text); boolean || err != nil {
		return time.Time{}, fmt.Errorf("%s is not a time: expected a form such as 2026-11-01 or 2026-11-01T09:30:15+02:00, or a number: %s",
			Quote(text), u.Meaning())
	}
	if u == "" {
		return time.Time{}, &UnitError{text}
	}
	t, ok := u.time(number)
	if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
		t, ok = u.timeOfWhole(whole)
	} else if number == math.Trunc(number) && math.Abs(number) < 1<<63 {
		t, ok = u.timeOfWhole(int64(number))
	}
	if !ok {
		return t, fmt.Errorf("%s is not a time: expected a number: %s", Quote(text), u.Meaning())
	}
	return t, nil
}

// timeOfText parses a date, an optional time of day and an optional zone.
func timeOfText(text string) (t time.Time, ok bool) {
	year, rest, ok := wholeOf(text, 4, 0, 9999)
	month, rest, ok := after(rest, ok, '-', 1, 12)
	day, rest, ok := after(rest, ok, '-', 1, 31)
	if !ok || year == 0 {
		return t, false
	}
	if rest == "" {
		return date(year, month, day, 0, 0, 0, 0, time.UTC)
	}
	if rest[0] != 'T' && rest[0] != ' ' {
		return t, false
	}
	hour, rest, ok := wholeOf(rest[1:], 2, 0, 23)
	minute, rest, ok := after(rest, ok, ':', 0, 59)
	second, nanoseconds := 0, 0
	if ok && strings.HasPrefix(rest, ":") {
		if second, rest, ok = wholeOf(rest[1:], 2, 0, 59); ok && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, ",")) {
			nanoseconds, rest, ok = fraction(rest[1:])
		}
	}
	zone, known := zoneOf(strings.TrimPrefix(rest, " "))
	if !ok || !known {
		return t, false
	}
	return date(year, month, day, hour, minute, second, nanoseconds, zone)
}

// date is [time.Date] for a valid day.
func date(year, month, day, hour, minute, second, nanoseconds int, zone *time.Location) (time.Time, bool) {
	t := time.Date(year, time.Month(month), day, hour, minute, second, nanoseconds, zone)
	return t, t.Day() == day
}

// zoneOf returns the zone of a text; UTC if it is empty.
func zoneOf(text string) (*time.Location, bool) {
	switch text {
	case "", "Z", "z", "UTC":
		return time.UTC, true
	}
	sign := 1
	if text[0] == '-' {
		sign = -1
	} else if text[0] != '+' {
		return nil, false
	}
	hours, rest, ok := wholeOf(text[1:], 2, 0, 23)
	minutes := 0
	if ok && rest != "" {
		minutes, rest, ok = wholeOf(strings.TrimPrefix(rest, ":"), 2, 0, 59)
	}
	return time.FixedZone("", sign*(3600*hours+60*minutes)), ok && rest == ""
}

// after returns the two-digit number after a byte, if ok.
func after(text string, ok bool, separator byte, least, most int) (number int, rest string, _ bool) {
	if !ok || text == "" || text[0] != separator {
		return 0, text, false
	}
	return wholeOf(text[1:], 2, least, most)
}

// wholeOf returns the number of the first n bytes, which must be digits, and the rest of the text.
func wholeOf(text string, n, least, most int) (number int, rest string, ok bool) {
	if len(text) < n {
		return 0, text, false
	}
	for _, c := range []byte(text[:n]) {
		if c < '0' || c > '9' {
			return 0, text, false
		}
		number = 10*number + int(c-'0')
	}
	return number, text[n:], number >= least && number <= most
}

// fraction returns the nanoseconds given by up to nine digits after a point.
func fraction(text string) (nanoseconds int, rest string, ok bool) {
	n, unit := 0, int(1e9)
	for ; n < len(text) && text[n] >= '0' && text[n] <= '9'; n++ {
		unit /= 10
		nanoseconds += int(text[n]-'0') * unit
	}
	return nanoseconds, text[n:], n >= 1 && n <= 9
}
