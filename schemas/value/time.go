package value

import (
	"errors"
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

// Unit is the unit of the times of a column that are numbers; "": unknown.
type Unit string

const (
	UnitAuto         Unit = "auto"     // in a configuration: determined from the rows, see [Stamps]
	UnitSeconds      Unit = "s"        // since 1970, like all of the following except the last two
	UnitMilliseconds Unit = "ms"       // 1e-3 s
	UnitMicroseconds Unit = "us"       // 1e-6 s
	UnitNanoseconds  Unit = "ns"       // 1e-9 s
	UnitDays         Unit = "days"     // 86,400 s
	UnitExcel        Unit = "excel"    // days since 1899-12-30, as in spreadsheets
	UnitDigits       Unit = "yyyymmdd" // the digits of a date, optionally with hours, minutes and seconds
)

// Units returns the units, in the order of the documentation.
func Units() []Unit {
	return []Unit{UnitSeconds, UnitMilliseconds, UnitMicroseconds, UnitNanoseconds, UnitDays, UnitExcel, UnitDigits}
}

// Known reports whether u is the name of a unit.
func (u Unit) Known() bool { return slices.Contains(Units(), u) }

// excelEpoch is 1970-01-01 as a day of a spreadsheet.
const excelEpoch = 25569

// scale describes numbers of the unit: per is the number per second, or per day if days is set; epoch is the number for 1970-01-01.
func (u Unit) scale() (meaning string, per, epoch int64, days bool) {
	switch u {
	case UnitMilliseconds:
		return "milliseconds since 1970", 1e3, 0, false
	case UnitMicroseconds:
		return "microseconds since 1970", 1e6, 0, false
	case UnitNanoseconds:
		return "nanoseconds since 1970", 1e9, 0, false
	case UnitDays:
		return "days since 1970", 1, 0, true
	case UnitExcel:
		return "days since 1899-12-30, as in spreadsheets", 1, excelEpoch, true
	case UnitDigits:
		return "the digits of a date, yyyymmdd or yyyymmddhhmmss", 1, 0, false
	}
	return "seconds since 1970", 1, 0, false
}

// Meaning describes numbers of the unit.
func (u Unit) Meaning() string {
	meaning, _, _, _ := u.scale()
	return meaning
}

// The seconds of the first and the last day of the years 1 to 9999, and of 1950 to 2100.
const (
	firstSecond, lastSecond   = -62135596800, 253402300799
	firstLikely, lastLikely   = -631152000, 4133980799
	secondsOfDay, secondsYear = 86400, 365 * 86400
)

// seconds returns the number of seconds since 1970 of a number of the unit.
func (u Unit) seconds(number float64) float64 {
	_, per, epoch, days := u.scale()
	if days {
		return (number - float64(epoch)) * secondsOfDay
	}
	return number / float64(per)
}

// time returns the time of a number. ok is false if it has none in the years 1 to 9999.
func (u Unit) time(number float64) (t time.Time, ok bool) {
	if u == UnitDigits {
		return timeOfDigits(number)
	}
	scaled := u.seconds(number)
	if !(scaled >= firstSecond && scaled <= lastSecond) {
		return t, false
	}
	seconds := math.Floor(scaled)
	return time.Unix(int64(seconds), int64((scaled-seconds)*1e9)).UTC(), true
}

// timeOfWhole is time for an integer, without rounding.
func (u Unit) timeOfWhole(whole int64) (t time.Time, ok bool) {
	_, per, _, days := u.scale()
	if days || u == UnitDigits {
		return u.time(float64(whole)) // exact
	}
	if s := u.seconds(float64(whole)); !(s >= firstSecond && s <= lastSecond) {
		return t, false
	}
	seconds := whole / per
	return time.Unix(seconds, (whole-seconds*per)*(1e9/per)).UTC(), true
}

// timeOfDigits returns the time whose digits are a number: yyyymmdd, and two digits each for hours, minutes and seconds.
func timeOfDigits(number float64) (t time.Time, ok bool) {
	if !(number >= 1e7 && number < 1e14) || number != math.Trunc(number) {
		return t, false
	}
	const form = "20060102150405"
	digits := strconv.FormatInt(int64(number), 10)
	if len(digits)%2 != 0 {
		return t, false
	}
	return parse(form[:len(digits)], digits)
}

// UnitError reports a number in a column of times whose unit is unknown.
type UnitError struct{ Number string }

func (e *UnitError) Error() string {
	return fmt.Sprintf("%s is a number of an unknown unit: earlier rows have dates and times as text in this column. Write such a text, "+
		"or set the unit under examples.times, as in {parts: [hour], unit: ms}", Quote(e.Number))
}

// Stamps collects the times of a column, from which [Stamps.Unit] determines the unit of those that are numbers. The zero
// value has none.
type Stamps struct {
	known    Unit
	anyTime  bool // of the known unit
	texts    int
	numbers  int
	min, max float64
	fraction bool    // some numbers are not whole
	dates    int     // number of numbers that are the digits of a date in the years 1950 to 2100
	odd      float64 // the first other number
	near     [4]int  // number of numbers other than 0 and 1 that are close to 1970 in s, ms, us and ns
	around   [4]int  // number of others that are within a year of it
}

// nearDays exceeds the days that 130 years, from 1970 to 2100, in one of s, ms and us are in the next one.
const nearDays = 48

// StampsIn returns Stamps with a known unit, and with the result of [Stamps.AnyTime] for it.
func StampsIn(u Unit, anyTime bool) *Stamps { return &Stamps{known: u, anyTime: anyTime} }

// Add adds a time. It ignores text that is not a time.
func (s *Stamps) Add(text string) {
	text = strings.TrimSpace(text)
	if _, ok := timeOfText(text); ok {
		s.texts++
		return
	}
	v, err := Number(text)
	if _, boolean := Boolean(text); err != nil || boolean || v-v != 0 {
		return
	}
	if s.numbers == 0 {
		s.min, s.max = v, v
	}
	s.numbers++
	s.min, s.max, s.fraction = min(s.min, v), max(s.max, v), s.fraction || v != math.Trunc(v)
	t, isDate := timeOfDigits(v)
	isDate = isDate && isLikely(float64(t.Unix()))
	for i, u := range Units()[:len(s.near)] {
		switch from1970 := math.Abs(u.seconds(v)); {
		case math.Abs(v) <= 1 || from1970 >= secondsYear:
		case from1970 < nearDays*secondsOfDay || isDate:
			s.near[i]++
		default:
			s.around[i]++
		}
	}
	if isDate {
		s.dates++
	} else if s.dates == s.numbers-1 {
		s.odd = v
	}
}

// isLikely reports whether a number of seconds since 1970 is within 1950 to 2100.
func isLikely(seconds float64) bool { return seconds >= firstLikely && seconds <= lastLikely }

// AnyTime reports whether numbers of the unit may be any time: some are a year or more before 1970 and others after it, or some are within
// a year of it. Otherwise numbers within a year of 1970 are of another unit, see [LikelyTime].
func (s *Stamps) AnyTime(u Unit) bool {
	if s.known != "" {
		return s.anyTime
	}
	i := slices.Index(Units()[:len(s.near)], u)
	return i >= 0 && (s.around[i] > 0 || u.seconds(s.min) <= -secondsYear && u.seconds(s.max) >= secondsYear)
}

// Settled reports whether further rows are unlikely to change the unit.
func (s *Stamps) Settled() bool {
	u, err := s.Unit()
	return s.numbers == 0 && s.texts > 0 || s.numbers > 0 && err == nil && u != UnitDays && u != UnitExcel
}

// Unit returns the unit of the numbers; "" if there are none. It is an error if none of the units gives times within 1950
// to 2100, or if two do.
//
// Numbers close to 0 are times close to 1970 in every unit, so at least one time must be a year from it, or ten years if the unit is
// days. This leaves one of s, ms, us and ns. A unit is excluded if it puts the times of more than a quarter of the rows close to 1970,
// or of any rows unless others are around 1970 too: those are of another unit. Digits of dates rarely mean anything else. Days of 1970
// and of spreadsheets overlap: if all times are before 2040 as the former, they are all before 1970 as the latter.
func (s *Stamps) Unit() (Unit, error) {
	switch {
	case s.known != "" || s.numbers == 0:
		return s.known, nil
	case s.dates == s.numbers:
		return UnitDigits, nil
	}
	var found []Unit
	for i, u := range Units() {
		first, last := u.seconds(s.min), u.seconds(s.max)
		least := 0.0
		if i < len(s.near) && (4*s.near[i] > s.numbers || s.near[i] > 0 && !s.AnyTime(u)) {
			continue
		}
		switch u {
		case UnitDigits:
			continue
		case UnitDays:
			least = 10 * secondsYear
		case UnitExcel:
		default:
			least = secondsYear
		}
		if isLikely(first) && isLikely(last) && max(math.Abs(first), math.Abs(last)) >= least {
			found = append(found, u)
		}
	}
	if len(found) == 2 && s.max < excelEpoch {
		return UnitDays, nil
	}
	if len(found) == 2 && (s.min >= excelEpoch || s.fraction) {
		return UnitExcel, nil
	}
	if len(found) == 1 && found[0] == UnitNanoseconds {
		if err := s.checkTicks(); err != nil {
			return "", err
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return "", s.undecided(found)
}

// The seconds before 1970 at which .NET and Windows begin to count ticks of 100 ns.
const sinceYear1, since1601 = 62135596800, 11644473600

// checkTicks returns an error if the numbers may be nanoseconds since 1970, but are more likely ticks of 2000 to 2040: as nanoseconds,
// all of them would be within a few months of 1990 or 1974.
func (s *Stamps) checkTicks() error {
	const from, to, perSecond, perMillisecond = 946684800, 2208988800, 1e7, 1e4
	for name, epoch := range map[string]float64{".NET": sinceYear1, "Windows": since1601} {
		if s.min >= (epoch+from)*perSecond && s.max <= (epoch+to)*perSecond {
			return fmt.Errorf("the numbers from %.0f to %.0f are nanoseconds since 1970 of %s, or rather the ticks of %s, of 100 ns each: write "+
				"(ticks − %.0f) / %.0f, which are milliseconds. If they are nanoseconds, set the unit under examples.times, as in "+
				"{parts: [hour], unit: ns}", s.min, s.max, time.Unix(0, int64(s.min)).UTC().Format("2006-01"), name, epoch*perSecond, perMillisecond)
		}
	}
	return nil
}

// undecided returns the error of a column whose numbers fit no unit, or several of these.
func (s *Stamps) undecided(found []Unit) error {
	var candidates []string
	for _, u := range Units() {
		first, ok := u.time(s.min)
		last, also := u.time(s.max)
		switch {
		case ok && also && (len(found) == 0 || slices.Contains(found, u)):
			candidates = append(candidates, fmt.Sprintf("%s (%s to %s)", u, first.Format(time.DateOnly), last.Format(time.DateOnly)))
		case u == UnitDigits && s.dates > 0:
			candidates = append(candidates, fmt.Sprintf("%s (but not %s)", u, strconv.FormatFloat(s.odd, 'f', -1, 64)))
		}
	}
	what := "are times within 1950 to 2100 in no unit"
	if len(found) > 0 {
		what = "are times within 1950 to 2100 in several units"
	}
	numbers := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	text := fmt.Sprintf("the numbers from %s to %s %s", numbers(s.min), numbers(s.max), what)
	if len(candidates) > 0 {
		text += ": " + strings.Join(candidates, ", ")
	}
	return errors.New(text + ". Set the unit under examples.times, as in {parts: [hour], unit: ms}, or list numbers that are no times in " +
		"examples.missing_values")
}
