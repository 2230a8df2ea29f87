package option

import (
	"errors"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
)

// KeyOf returns the key of a field: the name in its YAML tag, or else its own, such as data_dir for DataDir, and token_url for TokenURL.
func KeyOf(field reflect.StructField) string {
	if name, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); name != "" {
		return name
	}
	// A plan is checked whenever it is read: names are ASCII, and only the key is allocated.
	key, of := make([]byte, 0, 32), field.Name
	for i := range len(of) {
		begins := i > 0 && isUpper(of[i]) && (isLower(of[i-1]) || i+1 < len(of) && isLower(of[i+1]))
		if begins {
			key = append(key, '_')
		}
		letter := of[i]
		if isUpper(letter) {
			letter += 'a' - 'A'
		}
		key = append(key, letter)
	}
	return string(key)
}

func isUpper(letter byte) bool { return 'A' <= letter && letter <= 'Z' }
func isLower(letter byte) bool { return 'a' <= letter && letter <= 'z' }

// KeysOf iterates over the fields of a struct that are keys, and those of structs that are embedded in it.
func KeysOf(t reflect.Type) iter.Seq[reflect.StructField] {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous {
				for below := range KeysOf(f.Type) {
					below.Index = append([]int{i}, below.Index...)
					if !yield(below) {
						return
					}
				}
			} else if f.IsExported() && f.Tag.Get("yaml") != "-" && !yield(f) {
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
