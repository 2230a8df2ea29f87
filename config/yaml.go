package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
)

// A fault is something that makes YAML as a whole unusable.
type fault struct {
	line  int // 0: unknown
	value string
	want  string
}

// parseYAML returns the root node of the one document in content, or nil if there is none.
func parseYAML(content []byte) (*yaml.Node, *fault) {
	documents, err := documentsOf(content)
	switch {
	case err != nil:
		return nil, explain(content, err)
	case len(documents) == 0:
		return nil, nil
	case len(documents) > 1:
		return nil, &fault{documents[1].Line, "a second document", "one document in a file"}
	}
	return documents[0].Content[0], nil
}

// documentsOf parses content. The error says why the library can't, or can't expand the aliases.
func documentsOf(content []byte) (documents []*yaml.Node, err error) {
	for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
		document, left := &yaml.Node{}, maxValues
		if err := decoder.Decode(document); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, err
		}
		if err := expand(document, &left); err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
}

// maxValues is the maximum number of values of a document with its aliases expanded. Without a limit, nine lines of nested aliases
// expand to billions. The library does not count values after a merge that it rejects.
const maxValues = 100_000

var (
	errTooMany = errors.New("excessive aliasing")
	errItself  = errors.New("anchor contains itself")
)

// expand subtracts the number of values of a node, with its aliases expanded, from left. within are the enclosing nodes.
func expand(n *yaml.Node, left *int, within ...*yaml.Node) error {
	if *left--; *left < 0 {
		return errTooMany
	}
	if slices.Contains(within, n.Alias) {
		return errItself
	}
	within = append(within, n)
	if n.Alias != nil {
		return expand(n.Alias, left, within...)
	}
	for _, child := range n.Content {
		if err := expand(child, left, within...); err != nil {
			return err
		}
	}
	return nil
}

// yamlLine matches the beginning of most messages of the parser.
var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line \d+: )?`)

// plain explains a message of the parser: what is wrong, and what was expected instead. It shows no part of the file,
// which may be a password. Only their texts distinguish the parser's errors.
func plain(message string) (value, want string) {
	for _, known := range [...]struct{ part, value, want string }{
		{"excessive aliasing", "too many values", "fewer values once aliases (*NAME) are expanded"},
		{"contains itself", "an alias inside its own anchor", "*NAME after the end of the value of &NAME"},
		{"unknown anchor", "an alias without an anchor", "&NAME before *NAME, or quotes around a text that begins with *"},
		{"alphabetic or numeric character", "* or & without a name", "quotes around a text that begins with * or &"},
		{"cannot start any token", "a text that begins with @, ` or %", "quotes around it"},
		{"tab character", "a tab", "spaces for indentation"},
		{"mapping values are not allowed", "an unexpected colon",
			"one key per line, indented like its siblings, and quotes around text with a colon"},
		{"could not find expected ':'", "a key without a colon", "key: value"},
		{"did not find expected key", "wrong indentation, or text after the end of a value", "key: value, indented like its siblings"},
		{"expected '-' indicator", "wrong indentation", "a hyphen (-) indented like those before it, or a key indented like its " +
			"siblings"},
		{"block sequence entries", "an unexpected hyphen (-)",
			"the list below its key, or in brackets: [a, b]; quotes around a hyphen that is a value"},
		{"expected ',' or ']'", "an unterminated list", "commas between its elements and ] at its end"},
		{"expected ',' or '}'", "an unterminated mapping", "commas between its keys and } at its end"},
		{"expected node content", "a missing value",
			"a value, brackets in pairs, and quotes around a text that begins with : or a bracket"},
		{"end of stream", "an unterminated quote", "the same quote at the end of the text"},
		{"unknown escape character", "an unknown escape in double quotes", `single quotes, or \\ for a backslash`},
		{"UTF-8", "invalid UTF-8", "text in UTF-8"},
		{"Unicode character", "invalid UTF-8", "text in UTF-8"},
		{"incompatible YAML", "a version of YAML other than 1", "%YAML 1.2, or no such line"},
		{"control characters", "a control character", "text without control characters"},
	} {
		if strings.Contains(message, known.part) {
			return known.value, known.want
		}
	}
	return "not YAML: " + yamlLine.ReplaceAllString(message, ""), "valid YAML"
}

// explain turns an error of the parser about content into a fault.
func explain(content []byte, err error) *fault {
	lines := bytes.SplitAfter(content, []byte("\n"))
	f := &fault{line: lineOf(lines)}
	f.value, f.want = plain(err.Error())
	if f.line > 0 {
		line := lines[f.line-1]
		if indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]; bytes.ContainsRune(indent, '\t') {
			f.value, f.want = "a tab", "spaces for indentation"
			return f
		}
		for n := f.line; n > 0 && n >= f.line-1; n-- { // without the space the line is a text, and the next one may be what can't follow it
			if tight.Match(lines[n-1]) {
				return &fault{n, "a colon without a space after it", wantSpace}
			}
		}
	}
	return f
}

// tight matches a line with a key whose colon has no space after it. An address such as localhost:9092 or a URL does not match.
var tight = regexp.MustCompile(`(?:^|[{,]|^\s*-)\s*[a-z_]+:(?:[^\s/:0-9'"]|[0-9'"][^\s]*(?:\s*[,}]|\s*$))`)

// wantSpace is the text that is expected instead of key:value.
const wantSpace = "a space after the colon, as in key: value"

// maxReparsed is the maximum number of bytes that lineOf may parse, which takes a second. A file of 1000 lines is far below it.
const maxReparsed = 1 << 25

// lineOf returns the line, from 1, at which the file stops being YAML: the lines before it can be parsed, and no longer
// prefix of the file can. The parser's own line is often the line where the surrounding list begins, or absent. lineOf
// returns 0 for a file that is too long for that, or in UTF-16, whose characters would be cut at the ends of lines.
func lineOf(lines [][]byte) int {
	content := bytes.Join(lines, nil)
	if len(lines)*len(content) > maxReparsed || bytes.HasPrefix(content, []byte("\xff\xfe")) || bytes.HasPrefix(content, []byte("\xfe\xff")) {
		return 0
	}
	for n := len(lines); n > 0; n-- {
		content = content[:len(content)-len(lines[n-1])]
		if _, err := documentsOf(content); err == nil {
			return n
		}
	}
	return 0
}

// resolve follows an alias to its anchor.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// isMerge reports whether a key of a mapping is <<, which merges other mappings in.
func isMerge(key *yaml.Node) bool { return key.ShortTag() == "!!merge" }

// split makes a list of a scalar at its commas, for environment variables and settings.
func split(n *yaml.Node) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for item := range strings.SplitSeq(n.Value, ",") {
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: strings.TrimSpace(item)})
	}
	return list
}

// written returns a value as a message shows it: a scalar as it was written, a list of scalars in brackets, and the shape of
// anything else.
func written(y *yaml.Node) string {
	switch y.Kind {
	case yaml.SequenceNode:
		items := make([]string, len(y.Content))
		for i, item := range y.Content {
			switch item = resolve(item); item.Kind {
			case yaml.SequenceNode:
				items[i] = "[…]"
			case yaml.MappingNode:
				items[i] = "{…}"
			default:
				items[i] = written(item)
			}
		}
		return shortened("[" + strings.Join(items, ", ") + "]")
	case yaml.MappingNode:
		return "a mapping"
	}
	if isNull(y) {
		return "null"
	}
	value := quoted(y.Value)
	if y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		value = strconv.Quote(shortened(y.Value))
	}
	if y.Style&yaml.TaggedStyle != 0 {
		value = quoted(y.Tag) + " " + value
	}
	return value
}

// quoted returns text for one line of a message: in quotes if it is empty, begins or ends with space, or has characters
// that are not printable.
func quoted(text string) string {
	text = shortened(text)
	if q := strconv.Quote(text); text == "" || strings.TrimSpace(text) != text || q != `"`+text+`"` {
		return q
	}
	return text
}

// maxShown is the maximum number of characters of a value in a message.
const maxShown = 80

func shortened(text string) string {
	if letters := []rune(text); len(letters) > maxShown {
		return string(letters[:maxShown]) + "…"
	}
	return text
}

// errSecret is the error of every secret in a file or a setting: configurations are kept with the code, and every user of a
// machine can read command lines.
var errSecret = errors.New("expected the password in the environment (STAGEWISE_SECURITY_SASL_PASSWORD) or in a separate file " +
	"(security.sasl.password_file)")

// parse returns a YAML node as a value of a type. A type that parses text or JSON parses itself, and its errors state what
// it expected.
func parse(y *yaml.Node, t reflect.Type) (reflect.Value, error) {
	value := reflect.New(t)
	switch target := value.Interface().(type) {
	case *kafkalog.Secret:
		return value, errSecret
	case *time.Duration:
		if days, found := strings.CutSuffix(y.Value, "d"); found {
			n, err := strconv.ParseUint(days, 10, 16)
			*target = time.Duration(n) * 24 * time.Hour
			return value.Elem(), err
		}
		d, err := time.ParseDuration(y.Value) // "0" needs no unit
		*target = d
		return value.Elem(), err
	case encoding.TextUnmarshaler:
		return value.Elem(), target.UnmarshalText([]byte(y.Value)) // of a list or a mapping: the empty text
	}
	plain, err := toPlain(y, t)
	if err != nil {
		return value.Elem(), err
	}
	text, err := json.Marshal(plain)
	if err == nil {
		err = json.Unmarshal(text, value.Interface())
	}
	return value.Elem(), err
}

// toPlain returns a node as a value whose JSON is that of a type. The tag decides what a scalar is, because yaml decodes a float into an
// integer by truncation, and many values into text. Texts keep their spelling, such as that of a label 007.
func toPlain(y *yaml.Node, t reflect.Type) (any, error) {
	y = resolve(y)
	below := t
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		below = t.Elem()
	}
	switch y.Kind {
	case yaml.SequenceNode:
		items := make([]any, len(y.Content))
		for i, item := range y.Content {
			var err error
			if items[i], err = toPlain(item, below); err != nil {
				return nil, err
			}
		}
		return items, nil
	case yaml.MappingNode:
		items := map[string]any{}
		for i := 0; i < len(y.Content); i += 2 {
			name := resolve(y.Content[i])
			if name.Kind != yaml.ScalarNode || isMerge(name) || items[name.Value] != nil {
				return nil, errors.New("a name twice, or that is no text")
			}
			var err error
			if items[name.Value], err = toPlain(y.Content[i+1], below); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
	if isNull(y) {
		if t.Kind() == reflect.String {
			return nil, errors.New("expected " + wanted(reflect.TypeFor[[]string]()) + `; the word null is "null", in quotes`)
		}
		return nil, errors.New("null")
	}
	var scalar any
	if t.Kind() == reflect.String || y.Decode(&scalar) != nil {
		return y.Value, nil
	}
	switch v := scalar.(type) {
	case int, int64, uint64, bool:
		return v, nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("not finite")
		}
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0" // which is not a whole number in JSON either
		}
		return json.Number(text), nil
	}
	return y.Value, nil
}

// want describes the expected value, given a node that parse rejected, and its error.
func want(y *yaml.Node, t reflect.Type, err error) string {
	_, expected, ok := strings.Cut(err.Error(), "expected ")
	if !ok {
		expected = wanted(t)
	}
	if y.Kind == yaml.ScalarNode && y.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		if _, err := parse(&yaml.Node{Kind: yaml.ScalarNode, Value: y.Value}, t); err == nil {
			expected += ", without quotes"
		}
	}
	return expected
}

// wanted describes the values of a type, in the words of an error message after "expected".
func wanted(t reflect.Type) string {
	if t == reflect.TypeFor[time.Duration]() {
		return "a time such as 7d, 24h, 90m or 30s"
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return "a whole number of at most 18 digits"
	case reflect.Uint64:
		return "a whole number from 0 to 2^64-1"
	case reflect.Float64:
		return "a finite number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		list := map[reflect.Kind]string{reflect.String: "texts, as in [a, b]", reflect.Int: "whole numbers, as in [1, 2]"}[t.Elem().Kind()]
		if list == "" {
			return "lists of texts, as in [[a, b], [c, d]]"
		}
		return "a list of " + list
	case reflect.Map:
		return fmt.Sprintf("%s for each of some names, as in {name: …}", wanted(t.Elem()))
	}
	return "text"
}

// The keys are the fields of Config and of the structs below it. Tags of a field:
//
//   - path:"file" is a file, or a list of files: the configuration file has paths relative to its own folder
//   - single:"split" is a list that needs no brackets around values with commas between them. Other lists of texts need none in
//     variables and settings. A single value never needs brackets.
//   - null:"none" is a text for which null means the empty text, not the default

// behind returns the type that a pointer points to, and any other type unchanged.
func behind(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// isValue reports whether a field of this type is the value of one key: it has no fields, or parses itself.
func isValue(t reflect.Type) bool {
	if t.Kind() == reflect.Slice && !isValue(t.Elem()) {
		return false
	}
	pointer := reflect.PointerTo(t)
	return t.Kind() != reflect.Struct || t == reflect.TypeFor[kafkalog.Secret]() ||
		pointer.Implements(reflect.TypeFor[json.Unmarshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// isPath reports whether the tag of a field says that it is a file, or a list of files.
func isPath(tag reflect.StructTag) bool { return tag.Get("path") == "file" }

// isList reports whether a type is a list of mappings.
func isList(t reflect.Type) bool { return t.Kind() == reflect.Slice && !isValue(t) }

// keysOf returns the fields that are the keys of a mapping; none for a value or a list. Those of an embedded struct are on the same level.
func keysOf(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	if isValue(t) || isList(t) {
		return func(func(string, reflect.StructField) bool) {}
	}
	return option.KeysOf(t)
}

// namesOf returns the names of the keys of a mapping.
func namesOf(t reflect.Type) (names []string) {
	for name := range keysOf(t) {
		names = append(names, name)
	}
	return names
}

// fieldAt returns the field of a key below a type, regardless of the numbers of list elements in it.
func fieldAt(t reflect.Type, key string) (field reflect.StructField, ok bool) {
	for name := range strings.SplitSeq(key, ".") {
		if isList(t) {
			field = reflect.StructField{Type: t.Elem()}
		} else if field, ok = maps.Collect(keysOf(t))[name]; !ok {
			return field, false
		}
		t = behind(field.Type)
	}
	return field, true
}

// walk visits a key of a type and every key below it, in which * stands for the number of an element of a list.
func walk(key string, t reflect.Type, visit func(key string, t reflect.Type)) {
	t = behind(t)
	visit(key, t)
	if isList(t) {
		walk(option.Join(key, "*"), t.Elem(), visit)
	}
	for name, field := range keysOf(t) {
		walk(option.Join(key, name), field.Type, visit)
	}
}

// suggest returns the full key that was probably meant by name in the mapping of a key: the key in it with the nearest
// spelling, or else the only key elsewhere with exactly this name. It returns "" if there is neither.
func suggest(key string, t reflect.Type, name string) string {
	if near := option.Nearest(name, namesOf(t)); near != "" {
		return option.Join(key, near)
	}
	var elsewhere []string
	walk("", reflect.TypeFor[Config](), func(key string, _ reflect.Type) {
		if name != "" && key[strings.LastIndexByte(key, '.')+1:] == strings.ToLower(name) {
			elsewhere = append(elsewhere, key)
		}
	})
	if len(elsewhere) == 1 {
		return elsewhere[0]
	}
	return ""
}
