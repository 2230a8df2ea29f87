package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
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

// The examples in the help of search run as they are typed. Here their runs are made smaller.
func TestExamplesOfSearch(t *testing.T) {
	digits, err := filepath.Abs("../../examples/digits")
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := os.ReadFile("../../examples/digits.yaml")
	if err != nil {
		t.Fatal(err)
	}
	inFolder(t, map[string]string{"digits.yaml": strings.ReplaceAll(string(configuration), "[digits/", "["+digits+"/")})
	for _, line := range examplesOf(newSearch()) {
		small := append(line, "--quiet", "--set", "stages.0.features.size=16", "--set", "stages.0.passes=2", "--set", "stages.0.repeat=1")
		if code, _, stderr := stagewise(small...); code != exitDone {
			t.Errorf("stagewise %s: exit code %d: %s", strings.Join(line, " "), code, stderr)
		}
	}
}
