package config

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
)

// file applies the file. It returns false if the file cannot be read, and nothing else is worth checking.
func (s *settings) file(content []byte) bool {
	root, f := parse(content)
	if f != nil {
		s.wrong("YAML", f.value, f.want, origin{s.path, f.line})
		return false
	}
	if root == nil || isNull(root) {
		return true
	}
	at := origin{s.path, root.Line}
	if root.Kind != yaml.MappingNode {
		s.wrong("YAML", written(root), "key: value on each line, as in name: mnist", at)
		return false
	}
	s.putMapping("", s.root, root, at)
	return true
}

const prefix = "STAGEWISE_"

// isNoKey reports whether a variable with our prefix has another purpose than a key: the choice of a BLAS and of vector instructions, and
// what tests need.
func isNoKey(name string) bool {
	switch name {
	case "STAGEWISE_BLAS", "STAGEWISE_VECTOR", "STAGEWISE_KAFKA", "STAGEWISE_KAFKA_SECURITY", "STAGEWISE_MNIST", "STAGEWISE_PYTHON":
		return true
	}
	return false
}

// environment applies the variables with our prefix. It ignores empty ones, as is usual, and those of Services of Kubernetes.
func (s *settings) environment(environ []string) {
	type variable struct{ name, key, value string }
	var variables []variable
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, prefix) || value == "" || isNoKey(name) {
			continue
		}
		key, ok := keyOfVariable(s.root, "", strings.TrimPrefix(name, prefix))
		switch {
		case ok:
		case serviceVariable.MatchString(e):
			s.ignored = append(s.ignored, name)
			continue
		default:
			s.unknownVariable(name, value)
			continue
		}
		variables = append(variables, variable{name, key, value})
	}
	// The list stages comes before stages.0, which changes it.
	slices.SortFunc(variables, func(a, b variable) int { return cmp.Compare(a.key, b.key) })
	for _, v := range variables {
		if at := (origin{source: v.name}); s.root.at(v.key).kind == kindSecret {
			s.values[v.key] = setting{kafkalog.NewSecret(v.value), notShown, at} // as it is, not as YAML
		} else {
			s.assign(v.key, v.value, at)
		}
	}
}

// keyOfVariable returns the key of the value or list that a variable sets. rest is what follows in the name of the variable
// after the part that stands for key.
func keyOfVariable(n *node, key, rest string) (string, bool) {
	if rest == "" {
		return key, n.children == nil
	}
	rest = strings.TrimPrefix(rest, "_")
	if n.element != nil {
		number, below, _ := strings.Cut(rest, "_")
		if _, ok := index(number); !ok || below == "" {
			return "", false
		}
		return keyOfVariable(n.element, join(key, number), below)
	}
	for _, c := range n.children {
		below, ok := strings.CutPrefix(rest, strings.ToUpper(c.name))
		if !ok || below != "" && below[0] != '_' || below == "_" {
			continue
		}
		if found, ok := keyOfVariable(c, join(key, c.name), below); ok {
			return found, true
		}
	}
	return "", false
}

// serviceVariable matches the variables that Kubernetes sets in each pod for each Service of its namespace, unless the pod has
// enableServiceLinks: false (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables). Those of a Service
// whose name begins with stagewise, such as that of deploy/kubernetes, have our prefix.
var serviceVariable = regexp.MustCompile(`_(SERVICE_HOST=[0-9a-f.:]+|SERVICE_PORT(_[A-Z0-9_]+)?=[0-9]+|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://\S+|PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO=(tcp|udp|sctp)|PORT=[0-9]+|ADDR=[0-9a-f.:]+))$`)

// stageNumber finds the number of a stage in the name of a variable.
var stageNumber = regexp.MustCompile(`_(\d+)_`)

func (s *settings) unknownVariable(name, value string) {
	number := "0"
	if found := stageNumber.FindStringSubmatch(name); found != nil {
		number = found[1]
	}
	word := strings.TrimPrefix(name, prefix)
	var section string
	var variables []string
	s.root.walk("", func(key string, n *node) {
		variable := strings.ToUpper(strings.ReplaceAll(strings.ReplaceAll(key, "*", number), ".", "_"))
		switch {
		case n.children == nil:
			variables = append(variables, variable)
		case variable == word && word != "":
			section = "a variable for one key below " + key + ", such as " + name + "_" + strings.ToUpper(n.names()[0])
		}
	})
	want := "the name of a key after " + prefix + ", such as STAGEWISE_DATA_DIR"
	if section != "" {
		want = section
	} else if meant := option.Nearest(word, variables); meant != "" {
		want = "a known variable; did you mean " + prefix + meant + "?"
	}
	s.wrong(quoted(name), quoted(value), want, origin{source: "environment"})
}

// commandLine applies settings of the form key=value, which a flag has.
func (s *settings) commandLine(flag string, set []string) {
	for _, assignment := range set {
		key, value, ok := strings.Cut(assignment, "=")
		if !ok {
			s.wrong(quoted(assignment), "no value", "key=value", origin{source: flag})
			continue
		}
		s.assign(key, value, origin{source: flag})
	}
}

// assign sets a key to a line of text, which is YAML. A list of texts may lack its brackets.
func (s *settings) assign(key, line string, at origin) {
	known := s.root.at(key)
	if known != nil && known.kind == kindSecret {
		s.wrong(key, notShown, known.kind.String(), at)
		return
	}
	if known != nil && known.isPath && (line == ingest.StandardInput || strings.HasPrefix(line, "*")) {
		line = strconv.Quote(line) // in YAML - is a list with a null, and * the begin of an alias
	}
	y, f := parse([]byte(line))
	if f != nil {
		s.wrong(quoted(key), quoted(line), "YAML; "+f.value+" needs "+f.want, at)
		return
	}
	if y == nil {
		y = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	shown := written(resolve(y))
	if secretive.MatchString(key) { // any part of it, as one part may be misspelled
		shown = notShown
	}
	n, path := s.root, ""
	for name := range strings.SplitSeq(key, ".") {
		if n.element != nil {
			i, ok := index(name)
			if length := s.lengths[path]; !ok || i >= length {
				s.wrong(quoted(key), shown, "the number of a stage: "+numbered(length), at)
				return
			}
			n, path = n.element, join(path, name)
			continue
		}
		child := n.child(name)
		if child == nil {
			s.unknown(n, path, name, shown, at)
			return
		}
		n, path = child, join(path, name)
	}
	if n.isValue() && n.kind == kindTexts && y.Kind == yaml.ScalarNode && !isNull(y) {
		y = split(y)
	}
	s.put(path, n, y, at)
}

// numbered says how many stages there are.
func numbered(stages int) string {
	switch stages {
	case 0:
		return "the list has none"
	case 1:
		return "the list has one, number 0"
	}
	return "the list has 0 to " + strconv.Itoa(stages-1)
}

// index parses the number of an element, which has no sign and no leading zeros.
func index(name string) (int, bool) {
	i, err := strconv.Atoi(name)
	return i, err == nil && i >= 0 && strconv.Itoa(i) == name
}
