package option

import (
	"errors"
	"iter"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
)

// wordEnd matches the end of a word in a name, as in DataDir and TokenURL.
var wordEnd = regexp.MustCompile(`([a-z])([A-Z])|([A-Z])([A-Z][a-z])`)

// KeyOf returns the key of a field: the name in its YAML or JSON tag, or else its own, such as data_dir for DataDir.
func KeyOf(field reflect.StructField) string {
	for _, tag := range []string{"yaml", "json"} {
		if name, _, _ := strings.Cut(field.Tag.Get(tag), ","); name != "" {
			return name
		}
	}
	return strings.ToLower(wordEnd.ReplaceAllString(field.Name, "${1}${3}_${2}${4}"))
}

// KeysOf iterates over the keys of a struct with their fields, and those of structs that are embedded in it.
func KeysOf(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			if !f.Anonymous && f.IsExported() && f.Tag.Get("yaml") != "-" && !yield(KeyOf(f), f) {
				return
			}
		}
	}
}

// maxMisspelled is the length in bytes beyond which a word is not compared with candidates: the comparison is quadratic.
const maxMisspelled = 100

// Nearest returns the candidate that is the fewest edits away from word, or "" if that is more than a third of the
// candidate's length. It ignores case, and treats hyphens as underscores.
func Nearest(word string, candidates []string) string {
	if len(candidates) == 0 || len(word) > maxMisspelled {
		return ""
	}
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "_")) }
	edits := func(candidate string) int { return Edits(plain(word), plain(candidate)) }
	best := slices.MinFunc(candidates, func(a, b string) int { return edits(a) - edits(b) })
	if edits(best) > max(1, len(best)/3) {
		return ""
	}
	return best
}

// Edits returns the number of letters to insert, delete or replace that makes one word another (Levenshtein 1965).
func Edits(from, to string) int {
	letters := []rune(to)
	row := make([]int, len(letters)+1) // of edits from the letters so far to each beginning of the other word
	for j := range row {
		row[j] = j
	}
	for _, letter := range from {
		replaced := row[0]
		row[0]++
		for j, other := range letters {
			if letter != other {
				replaced++
			}
			replaced, row[j+1] = row[j+1], min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(letters)]
}

// Bytes is an amount of memory in bytes. A configuration has it as a number, or as a number with a decimal (512MB) or
// binary (1GiB) unit.
type Bytes int64

var errBytes = errors.New("expected a size such as 512MB or 1GiB, or a number of bytes, below 8 EiB")

// UnmarshalText parses text as [Bytes] describes. Other text, and an amount of 2^63 bytes or more, is an error.
func (b *Bytes) UnmarshalText(text []byte) error {
	n, err := humanize.ParseBytes(string(text))
	if err != nil {
		return errBytes
	}
	if n > math.MaxInt64 {
		return errBytes
	}
	*b = Bytes(n)
	return nil
}

// String returns the amount in binary units, rounded, as in 1.5 GiB. A negative amount is 0 B.
func (b Bytes) String() string { return humanize.IBytes(uint64(max(b, 0))) }
