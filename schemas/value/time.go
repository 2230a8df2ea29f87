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

// LikelyTime is Time for a column whose earlier numbers were times of the unit from 1950 to 2100, none of them within a year of 1970.
// It returns an error if this number is not such a time, because it is of another unit: as milliseconds, seconds are in January 1970.
func LikelyTime(text string, u Unit) (time.Time, error) {
	t, err := Time(text, u)
	if u == "" {
		return t, err
	}
	text = strings.TrimSpace(text)
	number, notNumber := Number(text)
	if _, isBoolean := Boolean(text); isBoolean || notNumber != nil || err == nil && isUsual(number, u) {
		return t, err
	}
	is := "no time"
	if err == nil {
		is = t.Format(time.DateOnly)
	}
	var others []string
	for _, other := range Units() {
		if at, ok := other.time(number); ok && isUsual(number, other) {
			others = append(others, fmt.Sprintf("%s in %s", at.Format(time.DateOnly), other))
		}
	}
	but := ""
	if len(others) > 0 {
		but = ", but " + strings.Join(others, " and ")
	}
	return t, fmt.Errorf("%s is %s in %s, the unit of other rows%s: write numbers of one unit, or texts. A unit that is set under "+
		"examples.times, as in {parts: [hour], unit: %[3]s}, has numbers of any time", Quote(text), is, u, but)
}

// isUsual reports whether a number is a time of the unit within 1950 to 2100, and not within a year of 1970 unless the unit is days.
// Numbers from -1 to 1, which stand for no time, are usual.
func isUsual(number float64, u Unit) bool {
	if math.Abs(number) <= 1 {
		return true
	}
	if u == UnitDigits {
		t, ok := timeOfDigits(number)
		return ok && isLikely(float64(t.Unix()))
	}
	seconds := u.seconds(number)
	return isLikely(seconds) && (u == UnitDays || u == UnitExcel || math.Abs(seconds) >= secondsYear)
}

// timeOfText parses a date, an optional time of day and an optional zone.
func timeOfText(text string) (t time.Time, ok bool) {
	if len(text) <= len(time.DateOnly) {
		return parse(time.DateOnly, text)
	}
	day, clock, zone := text[:len(time.DateOnly)], text[len(time.DateOnly):], "Z"
	if clock[0] != 'T' && clock[0] != ' ' {
		return t, false
	}
	clock = clock[1:]
	if at := strings.IndexAny(clock, " ZzU+-"); at >= 0 {
		clock, zone = clock[:at], strings.TrimPrefix(clock[at:], " ")
	}
	form := "15:04:05" // and a fraction
	switch {
	case len(clock) == len("15:04"):
		form = "15:04"
	case len(clock) > len("15:04:05.999999999"):
		return t, false
	}
	switch {
	case zone == "z", zone == "UTC":
		zone = "Z"
	case len(zone) == len("+00"):
		form += "Z07"
	case len(zone) == len("+0000"):
		form += "Z0700"
	}
	if !strings.Contains(form, "Z") {
		form += "Z07:00"
	}
	return parse("2006-01-02T"+form, day+"T"+clock+zone)
}

// parse is [time.Parse] for the years from 1, regardless of the time zone of the machine.
func parse(form, text string) (t time.Time, ok bool) {
	t, err := time.ParseInLocation(form, text, time.UTC)
	return t, err == nil && t.Year() > 0
}
