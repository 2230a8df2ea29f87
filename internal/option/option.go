// Package option lets a package describe the configuration keys of its options, and report invalid values. Package config reads the
// descriptions: see its Keys.
package option

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
)

// Rule restricts the value of a key. The zero Rule allows any value.
type Rule struct {
	Want  string               // what is expected
	Holds func(value any) bool // reports whether a value is allowed; it has the type of the field
	Texts []any                // the allowed texts; nil for other rules
}

// OneOf allows the given texts. Want does not list "".
func OneOf(texts ...string) Rule {
	shown := slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return text == "" })
	rule := Rule{Want: english.WordSeries(shown, "or"), Holds: func(value any) bool { return slices.Contains(texts, fmt.Sprint(value)) }}
	for _, text := range texts {
		rule.Texts = append(rule.Texts, text)
	}
	return rule
}

// Whole allows whole numbers from a minimum to a maximum. A maximum of 0 means none.
func Whole(least, most int) Rule {
	if most == 0 {
		return Range(float64(least), math.Inf(1), fmt.Sprintf("a whole number ≥ %d", least))
	}
	return Range(float64(least), float64(most), fmt.Sprintf("a whole number from %d to %d", least, most))
}

// Range allows numbers, times and sizes from a minimum to a maximum.
func Range(least, most float64, want string) Rule {
	return Rule{Want: want, Holds: func(value any) bool {
		v := reflect.ValueOf(value)
		n := 0.0
		if v.CanInt() {
			n = float64(v.Int())
		} else {
			n = v.Float()
		}
		return n >= least && n <= most // false for NaN
	}}
}

var topicName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Topic allows the name of a topic, as Kafka does, or none.
func Topic() Rule {
	return Rule{Want: "the name of a topic: letters, digits, dots, hyphens and underscores", Holds: func(value any) bool {
		return value == "" || topicName.MatchString(value.(string))
	}}
}

// Check returns the first problem of each key whose value breaks its rule, which lacks a key that it needs, or which is
// set with a key that it excludes. options is the struct with the keys, and defaults the same struct with no key set.
func Check(keys []Key, options, defaults any) (problems Problems) {
	values := maps.Collect(Values(reflect.ValueOf(options)))
	field := func(key string) reflect.Value {
		if v, here := values[key]; here {
			return v
		}
		return Field(reflect.ValueOf(options), key)
	}
	isSet := func(key string) bool {
		key, value, one := strings.Cut(key, ": ")
		v := field(key)
		if one {
			return fmt.Sprint(v.Interface()) == value
		}
		return !isEmpty(v) && !reflect.DeepEqual(v.Interface(), Field(reflect.ValueOf(defaults), key).Interface())
	}
	for _, k := range keys {
		v, want := field(k.Name), ""
		if k.Rule.Holds != nil && (k.When == "" || isSet(k.When)) && !k.Rule.Holds(v.Interface()) {
			want = k.Rule.Want
		}
		if want == "" && len(k.Needs)+len(k.Excludes) > 0 && isSet(k.Name) {
			for _, key := range slices.Sorted(maps.Keys(k.Needs)) {
				if want == "" && !isSet(key) {
					want = k.Needs[key]
				}
			}
			for _, key := range slices.Sorted(maps.Keys(k.Excludes)) {
				if want == "" && isSet(key) {
					want = k.Excludes[key]
				}
			}
		}
		if want != "" {
			problems.Add(k.Name, Shown(v.Interface()), want)
		}
	}
	return problems
}

// Shown returns a value of a key as problems show it: a URL without its password.
func Shown(value any) string {
	v := reflect.ValueOf(value)
	if v.Kind() == reflect.String {
		if u, err := url.Parse(v.String()); err == nil && u.User != nil {
			return u.Redacted()
		}
	}
	switch {
	case isEmpty(v):
		return "not set"
	case v.Kind() == reflect.Pointer:
		v = v.Elem()
	}
	return fmt.Sprint(v.Interface())
}

// isEmpty reports whether a value is a nil pointer, an empty text or an empty list.
func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	case reflect.Pointer:
		return v.IsNil()
	}
	return false
}

// Values yields the fields of a struct by their keys.
func Values(of reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for key, f := range KeysOf(of.Type()) {
			if !yield(key, of.FieldByIndex(f.Index)) {
				return
			}
		}
	}
}

// Field returns the field of a key in a struct, or below it. It panics if there is none.
func Field(of reflect.Value, key string) reflect.Value {
	for name := range strings.SplitSeq(key, ".") {
		of = reflect.Indirect(of)
		if i, err := strconv.Atoi(name); err == nil && of.Kind() == reflect.Slice {
			of = of.Index(i)
			continue
		}
		at := reflect.Value{}
		for other, v := range Values(of) {
			if other == name {
				at = v
				break
			}
		}
		if !at.IsValid() {
			panic(fmt.Sprintf("option: %s has no key %s", of.Type(), key))
		}
		of = at
	}
	return of
}

// Key describes one key of the configuration. Each package has a table of its own keys, from which [Check] and docs/configuration.md are
// made.
type Key struct {
	Name    string // relative to the package's own keys, as in `stop.patience`
	Meaning string // Markdown, one line: what the key does, its values, and its zero value
	Rule    Rule   // what its value must be
	When    string // the key without which its value does not matter; "" means that it always does
	// Needs are keys without which this one has no effect, and Excludes are keys that can't be set with it: what is expected
	// instead, by key. A key with a value, as in `labels: several`, is that value of the key.
	Needs, Excludes map[string]string
}

// Under returns keys with the prefix of the key above them.
func Under(prefix string, keys []Key) []Key {
	below := make([]Key, len(keys))
	for i, k := range keys {
		k.Name = prefix + "." + k.Name
		below[i] = k
	}
	return below
}

// Join returns the full key of a name below a prefix, which may be empty.
func Join(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// Problem is an invalid value of a configuration, described by the package that owns the value.
type Problem struct {
	Key   string // relative to the package's own keys, as in `stop.patience`
	Value string // as it was given
	Want  string // what is expected instead
}

// Problems are invalid values, at most one of each key.
type Problems []Problem

// Add adds a problem, unless the key has one already.
func (p *Problems) Add(key string, value any, want string) {
	if !slices.ContainsFunc(*p, func(other Problem) bool { return other.Key == key }) {
		*p = append(*p, Problem{Key: key, Value: fmt.Sprint(value), Want: want})
	}
}

// Under adds problems with the prefix of the key above them.
func (p *Problems) Under(prefix string, problems Problems) {
	for _, below := range problems {
		p.Add(Join(prefix, below.Key), below.Value, below.Want)
	}
}

// Error returns one line: key, value, and what is expected instead.
func (p Problem) Error() string {
	return fmt.Sprintf("%s: %s: expected %s", p.Key, p.Value, p.Want)
}

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
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous {
				for key, below := range KeysOf(f.Type) {
					below.Index = append([]int{i}, below.Index...)
					if !yield(key, below) {
						return
					}
				}
			} else if f.IsExported() && f.Tag.Get("yaml") != "-" && !yield(KeyOf(f), f) {
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
	if err != nil || n > math.MaxInt64 {
		return errBytes
	}
	*b = Bytes(n)
	return nil
}

// String returns the amount in binary units, rounded, as in 1.5 GiB. A negative amount is 0 B.
func (b Bytes) String() string { return humanize.IBytes(uint64(max(b, 0))) }
