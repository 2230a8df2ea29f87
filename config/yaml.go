package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
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
