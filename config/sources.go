package config

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"go.yaml.in/yaml/v3"
)

// file takes what the file says. It answers false if there is no sense in going on.
func (s *settings) file(content []byte) bool {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document yaml.Node
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return true
	}
	if err == nil {
		err = sane(&document)
	}
	if err != nil {
		for _, p := range explain(err) {
			s.wrong("YAML", p.text, "a file that can be read", origin{s.path, p.line})
		}
		return false
	}
	var next yaml.Node
	if err := decoder.Decode(&next); !errors.Is(err, io.EOF) {
		s.wrong("YAML", "another document", "one in a file", origin{s.path, next.Line})
		return false
	}
	root := document.Content[0]
	if isNull(root) {
		return true
	}
	at := origin{s.path, root.Line}
	if root.Kind != yaml.MappingNode {
		s.wrong("YAML", written(root), "a mapping with keys such as name and stages", at)
		return false
	}
	s.putMapping("", s.root, root, at)
	return true
}

// sane decodes a document just for yaml's own checks: of keys that are there twice, anchors that contain themselves, and
// aliases that blow up a small document.
func sane(document *yaml.Node) error {
	var whole any
	return document.Decode(&whole)
}

type explanation struct {
	text string
	line int
}

// yamlLine is how yaml begins most of its messages.
var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

func explain(err error) (all []explanation) {
	messages := []string{err.Error()}
	if several := (*yaml.TypeError)(nil); errors.As(err, &several) {
		messages = several.Errors
	}
	for _, message := range messages {
		found := yamlLine.FindStringSubmatch(message)
		line, _ := strconv.Atoi(found[1]) // 0 where there is none
		all = append(all, explanation{message[len(found[0]):], line})
	}
	return all
}

const prefix = "STAGEWISE_"

// elsewhere are the variables of our namespace that are no keys: the choice of a BLAS, and what tests need.
var elsewhere = []string{"STAGEWISE_BLAS", "STAGEWISE_KAFKA", "STAGEWISE_KAFKA_SECURITY", "STAGEWISE_MNIST"}

// environment takes the variables of our namespace. Empty ones count as absent, as is the custom.
func (s *settings) environment(environ []string) {
	type variable struct{ name, key, value string }
	var variables []variable
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, prefix) || value == "" || slices.Contains(elsewhere, name) {
			continue
		}
		key, ok := keyOfVariable(s.root, "", strings.TrimPrefix(name, prefix))
		if !ok {
			s.unknownVariable(name, value)
			continue
		}
		variables = append(variables, variable{name, key, value})
	}
	slices.SortFunc(variables, func(a, b variable) int { return cmp.Compare(a.key, b.key) }) // stages before stages.0
	for _, v := range variables {
		if at := (origin{source: v.name}); s.root.at(v.key).kind == kindSecret {
			s.values[v.key] = setting{kafkalog.NewSecret(v.value), notShown, at} // as it is, not as YAML
		} else {
			s.assign(v.key, v.value, at)
		}
	}
}

// keyOfVariable is the key of the value or list that a variable sets, by its name without the prefix.
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

func (s *settings) unknownVariable(name, value string) {
	var variables []string
	s.root.walk("", func(key string, _ *node) {
		variables = append(variables, strings.ToUpper(strings.ReplaceAll(key, ".", "_")))
	})
	want := "a variable that is named after a key"
	if meant := nearest(strings.TrimPrefix(name, prefix), variables); meant != "" {
		want += "; did you mean " + prefix + meant + "?"
	}
	s.wrong(name, quoted(value), want, origin{source: "environment"})
}

// commandLine takes settings of the form key=value.
func (s *settings) commandLine(set []string) {
	for _, assignment := range set {
		key, value, ok := strings.Cut(assignment, "=")
		if !ok {
			s.wrong(quoted(assignment), "no value", "key=value", origin{source: "--set"})
			continue
		}
		s.assign(key, value, origin{source: "--set"})
	}
}

// assign sets a key to what a line of text says as YAML. A list of texts may do without brackets.
func (s *settings) assign(key, line string, at origin) {
	if n := s.root.at(key); n != nil && n.kind == kindSecret {
		s.wrong(key, notShown, n.kind.String(), at)
		return
	}
	var document yaml.Node
	err := yaml.Unmarshal([]byte(line), &document)
	if err == nil && len(document.Content) > 0 {
		err = sane(&document)
	}
	if err != nil {
		s.wrong(quoted(key), quoted(line), "YAML: "+explain(err)[0].text, at)
		return
	}
	y := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	if len(document.Content) > 0 {
		y = document.Content[0]
	}
	n, path := s.root, ""
	for name := range strings.SplitSeq(key, ".") {
		if n.element != nil {
			i, ok := index(name)
			if length := s.lengths[path]; !ok || i >= length {
				s.wrong(key, written(y), "the number of a stage, from 0; there are "+strconv.Itoa(length), at)
				return
			}
			n, path = n.element, join(path, name)
			continue
		}
		child := n.child(name)
		if child == nil {
			s.unknown(n, path, name, written(y), at)
			return
		}
		n, path = child, join(path, name)
	}
	if n.isValue() && n.kind == kindTexts && y.Kind == yaml.ScalarNode && !isNull(y) {
		y = split(y)
	}
	s.put(path, n, y, at)
}

// index reads the number of an element, which has no sign and no zeros before it.
func index(name string) (int, bool) {
	i, err := strconv.Atoi(name)
	return i, err == nil && i >= 0 && strconv.Itoa(i) == name
}
