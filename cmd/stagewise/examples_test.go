package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// shellWords are the words of a line of a shell, whose texts may be in single quotes; a comment after two spaces is none of it.
func shellWords(line string) (words []string) {
	line, _, _ = strings.Cut(strings.TrimSpace(line), "  ")
	for _, word := range regexp.MustCompile(`(?:'[^']*'|[^\s'])+`).FindAllString(line, -1) {
		words = append(words, strings.ReplaceAll(word, "'", ""))
	}
	return words
}

// examplesOf returns the command lines in the help of a command and of those below it, without the name of the program.
func examplesOf(command *cobra.Command) (lines [][]string) {
	for line := range strings.SplitSeq(regexp.MustCompile(`\\\n +`).ReplaceAllString(command.Example, ""), "\n") {
		if words := shellWords(line); len(words) > 0 && words[0] == "stagewise" {
			lines = append(lines, words[1:])
		}
	}
	for _, below := range command.Commands() {
		lines = append(lines, examplesOf(below)...)
	}
	return lines
}

// The examples in the help have flags that there are, and all that must be there.
func TestExamplesOfHelp(t *testing.T) {
	lines := examplesOf(newRoot(io.Discard, io.Discard))
	if len(lines) < 10 {
		t.Fatalf("the help has %d examples", len(lines))
	}
	for _, line := range lines {
		root := newRoot(io.Discard, io.Discard) // flags keep their values
		command, rest, err := root.Find(line)
		if err == nil {
			err = command.ParseFlags(rest)
		}
		if err == nil {
			err = command.ValidateRequiredFlags()
		}
		if err == nil && command.Args != nil {
			err = command.Args(command, command.Flags().Args())
		}
		if err != nil {
			t.Errorf("stagewise %s: %v", strings.Join(line, " "), err)
		}
	}
}

// digitsConfiguration returns examples/digits.yaml for any folder.
func digitsConfiguration(t *testing.T) string {
	t.Helper()
	digits := valueOf(filepath.Abs("../../examples/digits"))(t)
	configuration := valueOf(os.ReadFile("../../examples/digits.yaml"))(t)
	return strings.ReplaceAll(string(configuration), "[digits/", "["+digits+"/")
}

// The examples in the help of search run as they are typed. Here their runs are made smaller.
func TestExamplesOfSearch(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"digits.yaml": digitsConfiguration(t)})
	for _, line := range examplesOf(newSearch()) {
		small := append(line, "--quiet", "--set", "stages.0.features.size=16", "--set", "stages.0.passes=2", "--set", "stages.0.repeat=1")
		if code, _, stderr := stagewise(small...); code != exitDone {
			t.Errorf("stagewise %s: exit code %d: %s", strings.Join(line, " "), code, stderr)
		}
	}
}

// Every command has an example in its help. The examples of commands that end, and need no cluster, run as they are typed.
func TestExamplesRun(t *testing.T) {
	long(t)
	text := digitsConfiguration(t)
	inFolder(t, map[string]string{
		"digits.yaml": text, "clicks.yaml": strings.Replace(text, "name: digits", "name: clicks", 1),
		"rows.csv": strings.Repeat("1"+strings.Repeat(",1", 64)+"\n", 3), "flowers.csv": "length,width,kind\n" + strings.Repeat("1,2,rose\n3,1,iris\n", 40),
	})
	for variable, value := range map[string]string{"STAGEWISE_STAGES_0_FEATURES_SIZE": "16", "STAGEWISE_STAGES_0_PASSES": "2",
		"STAGEWISE_STAGES_0_REPEAT": "1"} {
		t.Setenv(variable, value) // the examples train as they are, but less
	}
	ran := map[string]bool{}
	known := examplesOf(newRoot(io.Discard, io.Discard))
	for _, line := range []string{
		"version", "man man1", "check -c digits.yaml", "topics create -c digits.yaml", "topics list -c digits.yaml",
		"topics apply -c digits.yaml --dry-run", "ingest -c digits.yaml", "sources list -c digits.yaml", "quarantine list -c digits.yaml",
		"train -c digits.yaml --model digits.model", "train -c digits.yaml --set stages.0.passes=3 --report -",
		"predict --model digits.model -i rows.csv -o predicted.csv", "runs list -c digits.yaml", "runs show -c digits.yaml 1",
		"runs compare -c digits.yaml 1 2", "runs cancel -c digits.yaml --all", "weights list -c digits.yaml",
		"weights export -c digits.yaml -o digits.model", "weights pin -c digits.yaml 1", "weights pin -c digits.yaml --off",
		"weights remove -c digits.yaml 1", "repair -c digits.yaml", "topics delete -c digits.yaml --yes",
		"run -c clicks.yaml --until end --report report.json", "verify -c clicks.yaml latest", "score -c clicks.yaml --until end",
		"init flowers.csv --label kind",
	} {
		words := strings.Fields(line)
		if !slices.ContainsFunc(known, func(k []string) bool { return slices.Equal(k, words) }) {
			t.Errorf("no command has the example %s", line)
		}
		typed(t, exitDone, words...)
		command, _, err := newRoot(io.Discard, io.Discard).Find(words)
		noError(t, err)
		ran[command.CommandPath()] = true
	}
	elsewhere := map[string]string{
		"explain": "explain.txtar", "forget": "forget.txtar", "health": "TestHealth", "page": "a service", "search": "TestExamplesOfSearch",
		"serve": "a service", "solve": "a service of a cluster", "sources remove": "sources.txtar: its id is that of a file",
		"work": "a service of a cluster",
	}
	var each func(*cobra.Command)
	each = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			each(below)
		}
		name := strings.TrimPrefix(c.CommandPath(), "stagewise ")
		switch {
		case c.HasSubCommands() || name == "help":
		case c.Short == "":
			t.Errorf("%s: the help does not say what it does", name)
		case c.Example == "":
			t.Errorf("%s: no example in its help", name)
		case !ran["stagewise "+name] && elsewhere[name] == "":
			t.Errorf("%s: no test runs its example", name)
		}
	}
	each(newRoot(io.Discard, io.Discard))
}
