package screen

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/currency"

	"github.com/stagewise/stagewise/schemas/value"
)

// formattedNumber is a number with a currency, a unit, thousands separators, a decimal comma or an accounting sign.
type formattedNumber struct {
	digits   string // with separators; all kinds of spaces and apostrophes are normalised
	negative bool
	unit     string // other than a currency or a percent sign
}

var (
	around = regexp.MustCompile(`^([^0-9]*)([0-9](?:[0-9.,' ]*[0-9])?(?:[eE][-+]?[0-9]+)?)([^0-9]*)$`)
	// grouped is the start of an expression for thousands with a space or an apostrophe, or without separators
	grouped      = `^(?:[1-9][0-9]{0,2}(?:(?: [0-9]{3})+|(?:'[0-9]{3})+)|[0-9]*|`
	decimalPoint = regexp.MustCompile(grouped + `[1-9][0-9]{0,2}(?:,[0-9]{2,3})*,[0-9]{3})(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$`)
	decimalComma = regexp.MustCompile(grouped + `[1-9][0-9]{0,2}(?:\.[0-9]{3})+)(?:,[0-9]+)?(?:[eE][-+]?[0-9]+)?$`)

	// duration matches a duration in hours, minutes and seconds, or in two of them
	duration = regexp.MustCompile(`^-?[0-9]+(?::[0-5][0-9]){1,2}(?:\.[0-9]+)?$`)

	spelling = strings.NewReplacer("\u00a0", " ", "\u202f", " ", "\u2009", " ", "’", "'", "_", "'", "−", "-")
	// shortCurrencies are common abbreviations that are not ISO codes
	shortCurrencies = []string{"kr", "rs", "fr", "sfr", "zł", "kč", "ft", "lei", "rp", "rm", "tl", "руб"}
)

const (
	maxUnit  = 12 // characters
	maxUnits = 6  // of a column; with more, the words after numbers are texts, such as names of streets
)

// parseFormatted parses a formatted number.
func parseFormatted(text string) (f formattedNumber, ok bool) {
	text = spelling.Replace(text)
	parts := around.FindStringSubmatch(text)
	if parts == nil {
		return f, false
	}
	before, after := strings.TrimSpace(parts[1]), strings.TrimSpace(parts[3])
	f.digits = parts[2]
	opens, closes := strings.Contains(before, "("), strings.Contains(after, ")")
	f.negative = opens && closes || strings.Contains(before, "-") || strings.HasPrefix(after, "-")
	before, after = strings.Trim(strings.Replace(before, "(", "", 1), "+- "), strings.Trim(strings.Replace(after, ")", "", 1), "- ")
	if last := len(before) - 1; last >= 0 && (before[last] == '.' || before[last] == ',') && !isCurrency(before) {
		before, f.digits = strings.TrimSpace(before[:last]), before[last:]+f.digits // .5
	}
	if !isCurrency(after) && after != "%" && after != "‰" {
		f.unit = after
	}
	_, noAddress := netip.ParseAddr(text)
	return f, opens == closes && noAddress != nil && (before == "" || isCurrency(before)) && (f.unit == "" || isUnit(f.unit)) &&
		(decimalPoint.MatchString(f.digits) || decimalComma.MatchString(f.digits))
}

// isCurrency reports whether a text is a currency: a symbol such as $, € or R$, an ISO code, or a common abbreviation.
func isCurrency(text string) bool {
	text = strings.TrimSuffix(text, ".")
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Sc, r) }) {
		return utf8.RuneCountInString(text) <= len("US$")
	}
	_, err := currency.ParseISO(text)
	return err == nil && strings.ToUpper(text) == text || slices.Contains(shortCurrencies, strings.ToLower(text))
}

func isUnit(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return (unicode.IsLetter(first) || strings.ContainsRune("°\"'", first)) && utf8.RuneCountInString(text) <= maxUnit
}

// plain returns the number as ingest reads it, with a decimal point.
func (f formattedNumber) plain(comma bool) string {
	digits := strings.NewReplacer(" ", "", "'", "", ",", "").Replace(f.digits)
	if comma {
		digits = strings.NewReplacer(" ", "", "'", "", ".", "", ",", ".").Replace(f.digits)
	}
	if f.negative {
		return "-" + digits
	}
	return digits
}

// formatted says, with an example, how to write the formatted numbers of a column, or numbers that a file with types
// has as text; "" if less than nine tenths of the cells are numbers, or none is formatted.
func (c *column) formatted() string {
	point, comma, fractions := true, true, false // decimals have a point, a comma; some number has decimals
	numbers, cells, durations, present := 0, 0, 0, 0
	var longest, longestNumber, someDuration string
	var of formattedNumber
	units := map[string]string{} // a cell with each
	for _, word := range c.frequent() {
		rows := c.words[word]
		present += rows
		if _, err := value.Number(word); err == nil {
			numbers += rows
			if strings.Contains(word, ".") {
				fractions, comma = true, comma && decimalComma.MatchString(strings.TrimLeft(word, "+-"))
			}
			if len(word) > len(longestNumber) {
				longestNumber = word
			}
			continue
		}
		f, ok := parseFormatted(word)
		if duration.MatchString(word) {
			durations, someDuration = durations+rows, word
		}
		if !ok {
			continue
		}
		cells += rows
		units[f.unit] = word
		point, comma = point && decimalPoint.MatchString(f.digits), comma && decimalComma.MatchString(f.digits)
		if len(word) > len(longest) {
			longest, of = word, f
		}
	}
	examples := slices.Sorted(maps.Values(units))
	switch {
	case durations > 0 && 10*durations >= 9*present:
		return fmt.Sprintf("durations: write %s as a number in one unit, such as seconds", value.Quote(someDuration))
	case 10*(numbers+cells) < 9*present || len(units) > maxUnits || len(units) > 1 && !strings.ContainsAny(longest, " ."):
		return "" // seats and ordinals are texts
	case cells == 0 && fractions && !isNumbers(c.Field):
		return fmt.Sprintf("numbers stored as text, such as %s: store them as numbers", value.Quote(longestNumber))
	case cells == 0:
		return ""
	case len(units) > 1:
		return fmt.Sprintf("numbers in several units, such as %s and %s: write them in one, without its name", value.Quote(examples[0]),
			value.Quote(examples[1]))
	case !point && !comma:
		return fmt.Sprintf("numbers formatted in several ways, such as %s: write them with a decimal point", value.Quote(longest))
	case point && comma && of.plain(true) != of.plain(false):
		return fmt.Sprintf("formatted numbers: write %s as %s or %s", value.Quote(longest), of.plain(false), of.plain(true))
	}
	return fmt.Sprintf("formatted numbers: write %s as %s", value.Quote(longest), of.plain(!point))
}
