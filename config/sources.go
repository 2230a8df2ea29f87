package config

import (
	"cmp"
	"reflect"
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
	root, f := parseYAML(content)
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

// notKeys are the variables with our prefix that are no keys: the choice of a BLAS and of vector instructions, and what
// tests need.
const notKeys = " STAGEWISE_BLAS STAGEWISE_VECTOR STAGEWISE_KAFKA STAGEWISE_KAFKA_SECURITY STAGEWISE_MNIST STAGEWISE_PYTHON "

// serviceVariable matches the variables that Kubernetes sets in each pod for each Service of its namespace, unless the pod has
// enableServiceLinks: false (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables). Those of a Service
// whose name begins with stagewise, such as that of deploy/kubernetes, have our prefix.
var serviceVariable = regexp.MustCompile(`_(SERVICE_HOST=[0-9a-f.:]+|SERVICE_PORT(_[A-Z0-9_]+)?=[0-9]+|` +
	`PORT(_[0-9]+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://\S+|PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO=(tcp|udp|sctp)|PORT=[0-9]+|ADDR=[0-9a-f.:]+))$`)

// stageNumber finds the number of a stage in the name of a variable.
var stageNumber = regexp.MustCompile(`^STAGES_(\d+)(_|$)`)

// environment applies the variables with our prefix. It ignores empty ones, as is usual, and those of Services of Kubernetes.
func (s *settings) environment(environ []string) {
	keys := map[string]string{} // by variable
	s.root.walk("", func(key string, n *node) { keys[strings.ToUpper(strings.ReplaceAll(key, ".", "_"))] = key })
	type variable struct{ name, key, value string }
	var variables []variable
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		rest, ours := strings.CutPrefix(name, prefix)
		if !ours || value == "" || strings.Contains(notKeys, " "+name+" ") {
			continue
		}
		number := "0"
		if found := stageNumber.FindStringSubmatch(rest); found != nil {
			number = found[1]
			rest = strings.TrimSuffix("STAGES_*_"+strings.TrimPrefix(rest, found[0]), "_")
		}
		key, known := keys[rest]
		switch {
		case known && rest != "" && s.root.at(key).children == nil:
			variables = append(variables, variable{name, strings.Replace(key, "*", number, 1), value})
		case serviceVariable.MatchString(e):
			s.ignored = append(s.ignored, name)
		default:
			s.wrong(quoted(name), quoted(value), s.wantVariable(keys, name, rest, number), origin{source: "environment"})
		}
	}
	// The list stages comes before stages.0, which changes it.
	slices.SortFunc(variables, func(a, b variable) int { return cmp.Compare(a.key, b.key) })
	for _, v := range variables {
		at := origin{source: v.name}
		if s.root.at(v.key).typ == reflect.TypeFor[kafkalog.Secret]() {
			s.set[v.key] = setting{value: kafkalog.NewSecret(v.value), written: notShown, origin: at} // as it is, not as YAML
			continue
		}
		s.assign(v.key, v.value, at)
	}
}

// wantVariable returns what was expected in place of a variable that is no key. rest follows the prefix, with * for the
// number of a stage.
func (s *settings) wantVariable(keys map[string]string, name, rest, number string) string {
	if key, ok := keys[rest]; ok && rest != "" {
		return "a variable for one key below " + key + ", such as " + name + "_" + strings.ToUpper(s.root.at(key).names()[0])
	}
	var variables []string
	for variable, key := range keys {
		if s.root.at(key) != nil && s.root.at(key).children == nil {
			variables = append(variables, strings.Replace(variable, "*", number, 1))
		}
	}
	slices.Sort(variables)
	if meant := option.Nearest(strings.Replace(rest, "*", number, 1), variables); meant != "" {
		return "a known variable; did you mean " + prefix + meant + "?"
	}
	return "the name of a key after " + prefix + ", such as STAGEWISE_DATA_DIR"
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
	switch {
	case known == nil:
	case known.typ == reflect.TypeFor[kafkalog.Secret]():
		s.wrong(key, notShown, want(&yaml.Node{}, known.typ, errSecret), at)
		return
	case known.isPath && (line == ingest.StandardInput || strings.HasPrefix(line, "*")):
		line = strconv.Quote(line) // in YAML - is a list with a null, and * the begin of an alias
	}
	y, f := parseYAML([]byte(line))
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
			i, err := strconv.Atoi(name)
			if length := s.set[path].length; err != nil || strconv.Itoa(i) != name || i < 0 || i >= length {
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
	if n.typ == reflect.TypeFor[[]string]() && y.Kind == yaml.ScalarNode && !isNull(y) {
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
