package config

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/threshold"
	"github.com/stagewise/stagewise/schemas/value"
)

// A kind is the type of a key's value.
type kind int

const (
	kindText        kind = iota // string
	kindTexts                   // []string
	kindWholes                  // []int
	kindWhole                   // int, int64
	kindNatural                 // uint64
	kindReal                    // float64, finite
	kindFlag                    // bool
	kindSize                    // pipeline.Bytes
	kindTime                    // time.Duration
	kindColumn                  // layout.Column
	kindSecret                  // kafkalog.Secret
	kindRidge                   // schemas.Ridge: auto, or finite and ≥ 0
	kindOffsets                 // layout.Offsets: a number for each of some columns
	kindTimes                   // layout.Times: a list of texts for each of some columns, or also a unit
	kindClassWeight             // schemas.ClassWeight: none, balanced, or a number for each of some labels
	kindMissing                 // layout.Missing: a word, or mean for each of some columns
	kindPower                   // layout.HashColumns: a whole number, which may be a power
	kindCrosses                 // layout.Crosses: lists of texts
	kindThreshold               // threshold.Rule: a number, best_f1, or costs
)

// String returns what a value of the kind is, in the words of an error message after "expected".
func (k kind) String() string {
	return [...]string{
		kindText: "text", kindTexts: "a list of texts, as in [a, b]", kindWholes: "a list of whole numbers, as in [1, 2]",
		kindWhole: "a whole number", kindNatural: "a whole number from 0 to 2^64-1",
		kindReal: "a number", kindFlag: "true or false", kindSize: "a size such as 512MB or 1GiB, or a number of bytes, below 8 EiB",
		kindTime:        "a time such as 24h, 90m or 30s",
		kindRidge:       "auto or a number ≥ 0",
		kindClassWeight: "none, balanced, or a number ≥ 0 for each label, as in {cat: 2, dog: 0.5}",
		kindMissing:     "error or mean, or mean for each of some columns, as in {width: mean}",
		kindPower:       "a whole number, or a power, as in 2^22",
		kindCrosses:     "lists of columns, as in [[site, ad]]",
		kindThreshold:   threshold.Want,
		kindOffsets:     "a number for each of some columns, as in {time: 1764000000000}",
		kindTimes: "a list of texts for each of some columns, as in {created: [hour, weekday, age]}, or also a unit, as in " +
			"{created: {parts: [hour, weekday], unit: ms}}",
		kindColumn: "the number or the name of a column",
		kindSecret: "the password in the environment (STAGEWISE_SECURITY_SASL_PASSWORD) or in a separate file " +
			"(security.sasl.password_file)",
	}[k]
}

// kindOf returns the kind of a field's type, or false if the field is not a value.
func kindOf(t reflect.Type) (kind, bool) {
	named := map[reflect.Type]kind{
		reflect.TypeFor[topics.Bytes]():        kindSize,
		reflect.TypeFor[time.Duration]():       kindTime,
		reflect.TypeFor[layout.Column]():       kindColumn,
		reflect.TypeFor[kafkalog.Secret]():     kindSecret,
		reflect.TypeFor[schemas.Ridge]():       kindRidge,
		reflect.TypeFor[schemas.ClassWeight](): kindClassWeight,
		reflect.TypeFor[threshold.Rule]():      kindThreshold,
		reflect.TypeFor[layout.Offsets]():      kindOffsets,
		reflect.TypeFor[layout.Times]():        kindTimes,
		reflect.TypeFor[layout.Missing]():      kindMissing,
		reflect.TypeFor[layout.HashColumns]():  kindPower,
		reflect.TypeFor[layout.Crosses]():      kindCrosses,
		reflect.TypeFor[[]string]():            kindTexts,
		reflect.TypeFor[[]int]():               kindWholes,
	}
	if k, ok := named[t]; ok {
		return k, true
	}
	switch t.Kind() {
	case reflect.String:
		return kindText, true
	case reflect.Int, reflect.Int64:
		return kindWhole, true
	case reflect.Uint64:
		return kindNatural, true
	case reflect.Float64:
		return kindReal, true
	case reflect.Bool:
		return kindFlag, true
	}
	return 0, false
}

// read returns the value of a YAML node, or false if the node is not of the kind. It accepts no secret: configurations are
// kept with the code, and every user of a machine can read command lines.
func (k kind) read(n *yaml.Node) (any, bool) {
	if k == kindSecret {
		return nil, false
	}
	if k == kindTexts {
		if n.Kind != yaml.SequenceNode {
			return nil, false
		}
		list := make([]string, len(n.Content))
		for i, item := range n.Content {
			item = resolve(item)
			if item.Kind != yaml.ScalarNode || isNull(item) {
				return nil, false
			}
			list[i] = item.Value
		}
		return list, true
	}
	if k == kindWholes {
		return readWholes(n)
	}
	if k == kindClassWeight && n.Kind == yaml.MappingNode {
		return readClassWeight(n)
	}
	if k == kindThreshold {
		return readThreshold(n)
	}
	if k == kindOffsets {
		numbers, ok := readNumbers(n)
		return layout.Offsets(numbers), ok
	}
	if k == kindTimes {
		return readTimes(n)
	}
	if k == kindMissing && n.Kind == yaml.MappingNode {
		return readMissing(n)
	}
	if k == kindCrosses {
		return readCrosses(n)
	}
	if n.Kind != yaml.ScalarNode {
		return nil, false
	}
	// yaml decodes a float into an integer by truncation, and many values into text. So the tag decides.
	tag := n.ShortTag()
	switch k {
	case kindText, kindColumn:
		return n.Value, true
	case kindMissing:
		return layout.Missing{Mode: n.Value}, true
	case kindWhole:
		var v int64
		ok := tag == "!!int" && n.Decode(&v) == nil
		return v, ok
	case kindPower:
		return readPower(n)
	case kindNatural:
		var v uint64
		ok := tag == "!!int" && n.Decode(&v) == nil
		return v, ok
	case kindReal:
		var v float64
		ok := (tag == "!!int" || tag == "!!float") && n.Decode(&v) == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
		return v, ok
	case kindRidge:
		if n.Value == schemas.RidgeAuto.String() {
			return schemas.RidgeAuto, true
		}
		v, ok := kindReal.read(n)
		if !ok || v.(float64) < 0 {
			return nil, false
		}
		return schemas.Ridge(v.(float64)), true
	case kindClassWeight:
		v, err := schemas.ParseClassWeight(n.Value)
		return v, err == nil
	case kindFlag:
		var v bool
		ok := tag == "!!bool" && n.Decode(&v) == nil
		return v, ok
	case kindSize:
		var v topics.Bytes
		ok := v.UnmarshalText([]byte(n.Value)) == nil
		return v, ok
	case kindTime:
		v, err := time.ParseDuration(n.Value) // "0" needs no unit
		return v, err == nil
	}
	panic(fmt.Sprintf("config: kind %d", k))
}

// readWholes returns a list of whole numbers.
func readWholes(n *yaml.Node) (any, bool) {
	if n.Kind != yaml.SequenceNode {
		return nil, false
	}
	list := make([]int, len(n.Content))
	for i, item := range n.Content {
		number, ok := kindWhole.read(resolve(item))
		if !ok {
			return nil, false
		}
		list[i] = int(number.(int64))
	}
	return list, true
}

// readClassWeight returns the factors of labels, each once.
func readClassWeight(n *yaml.Node) (any, bool) {
	numbers, ok := readNumbers(n)
	w := schemas.ClassWeight{By: numbers}
	return w, ok && len(w.By) > 0 && w.Valid()
}

// readMissing returns the columns whose missing values are replaced by their means, each once.
func readMissing(n *yaml.Node) (any, bool) {
	m := layout.Missing{Mode: layout.MissingMean}
	for i := 0; i < len(n.Content); i += 2 {
		name, mode := resolve(n.Content[i]), resolve(n.Content[i+1])
		if slices.Contains(m.Columns, name.Value) || name.Kind != yaml.ScalarNode || isMerge(name) || mode.Value != layout.MissingMean {
			return nil, false
		}
		m.Columns = append(m.Columns, name.Value)
	}
	slices.Sort(m.Columns)
	return m, len(m.Columns) > 0
}

// readThreshold returns a rule of a threshold.
func readThreshold(n *yaml.Node) (any, bool) {
	if n.Kind == yaml.ScalarNode {
		if number, ok := kindReal.read(n); ok {
			r, err := threshold.Number(number.(float64))
			return r, err == nil
		}
		r, err := threshold.Word(n.Value)
		return r, err == nil && n.ShortTag() == "!!str"
	}
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 || resolve(n.Content[0]).Value != "cost" {
		return nil, false
	}
	costs, ok := readNumbers(resolve(n.Content[1]))
	r, err := threshold.OfCosts(threshold.Costs{FP: costs["fp"], FN: costs["fn"]})
	return r, ok && len(costs) == 2 && err == nil
}

// readNumbers returns numbers by their names, each once.
func readNumbers(n *yaml.Node) (map[string]float64, bool) {
	if n.Kind != yaml.MappingNode {
		return nil, false
	}
	numbers := map[string]float64{}
	for i := 0; i < len(n.Content); i += 2 {
		name := resolve(n.Content[i])
		number, ok := kindReal.read(resolve(n.Content[i+1]))
		if _, twice := numbers[name.Value]; !ok || twice || name.Kind != yaml.ScalarNode || isMerge(name) {
			return nil, false
		}
		numbers[name.Value] = number.(float64)
	}
	return numbers, true
}

// readTimes returns time columns by their names, each once.
func readTimes(n *yaml.Node) (any, bool) {
	if n.Kind != yaml.MappingNode {
		return nil, false
	}
	times := layout.Times{}
	for i := 0; i < len(n.Content); i += 2 {
		name := resolve(n.Content[i])
		of, ok := readTimeColumn(resolve(n.Content[i+1]))
		if _, twice := times[name.Value]; !ok || twice || name.Kind != yaml.ScalarNode || isMerge(name) {
			return nil, false
		}
		times[name.Value] = of
	}
	return times, true
}

// readTimeColumn returns a time column: a list of its parts, or a mapping with its parts and unit.
func readTimeColumn(n *yaml.Node) (of layout.TimeColumn, ok bool) {
	members := []*yaml.Node{{Kind: yaml.ScalarNode, Value: "parts"}, n}
	if n.Kind == yaml.MappingNode {
		members = n.Content
	}
	for i := 0; i < len(members); i += 2 {
		switch v := resolve(members[i+1]); members[i].Value {
		case "parts":
			parts, isList := kindTexts.read(v)
			if !isList || of.Parts != nil {
				return of, false
			}
			of.Parts = parts.([]string)
		case "unit":
			if v.Kind != yaml.ScalarNode || isNull(v) || of.Unit != "" {
				return of, false
			}
			of.Unit = value.Unit(v.Value)
		default:
			return of, false
		}
	}
	return of, of.Parts != nil
}

// readCrosses returns lists of columns.
func readCrosses(n *yaml.Node) (any, bool) {
	if n.Kind != yaml.SequenceNode {
		return nil, false
	}
	crosses := make(layout.Crosses, len(n.Content))
	for i, item := range n.Content {
		of, ok := kindTexts.read(resolve(item))
		if !ok {
			return nil, false
		}
		crosses[i] = of.([]string)
	}
	return crosses, true
}

// readPower returns a whole number, which may be a power.
func readPower(n *yaml.Node) (any, bool) {
	base, exponent, isPower := strings.Cut(n.Value, "^")
	if !isPower {
		v, ok := kindWhole.read(n)
		if !ok {
			return nil, false
		}
		return layout.HashColumns(v.(int64)), true
	}
	b, err := strconv.ParseUint(base, 10, 32)
	e, wrong := strconv.ParseUint(exponent, 10, 32)
	if err != nil || wrong != nil || math.Pow(float64(b), float64(e)) > 1<<53 {
		return nil, false
	}
	return layout.HashColumns(math.Pow(float64(b), float64(e))), true
}

var wholeNumber = regexp.MustCompile(`^[-+]?[0-9]+$`)

// want returns what was expected in place of a node that read refuses. It says more than String where the node comes near.
func (k kind) want(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return k.String()
	}
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		if _, ok := k.read(&yaml.Node{Kind: yaml.ScalarNode, Value: n.Value}); ok {
			return k.String() + ", without quotes"
		}
	}
	switch k {
	case kindWhole:
		if wholeNumber.MatchString(n.Value) {
			return "a whole number from -2^63 to 2^63-1"
		}
	case kindReal:
		if infinite(n) {
			return "a finite number"
		}
	case kindRidge:
		if infinite(n) {
			return "auto or a finite number"
		}
	}
	return k.String()
}

// infinite reports whether a scalar, which is no finite number, is a number nonetheless: infinite, not a number, or too large.
func infinite(n *yaml.Node) bool {
	if _, ok := kindReal.read(n); ok {
		return false
	}
	_, err := strconv.ParseFloat(n.Value, 64)
	return n.ShortTag() == "!!float" || errors.Is(err, strconv.ErrRange)
}
