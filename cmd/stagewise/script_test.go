package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/serve"
)

var update = flag.Bool("update", false, "write the files of scripts that cmp compares")

// fileSize is the variable with the number of bytes after which the program can write no further into a file.
const fileSize = "RUN_WITH_FILE_SIZE"

// TestMain makes the test binary the program stagewise too, which is the first of its name on the path.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"stagewise": func() {
		if size, err := strconv.ParseUint(os.Getenv(fileSize), 10, 64); err == nil {
			signal.Ignore(syscall.SIGXFSZ) // then the write returns an error
			must(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: size}))
		}
		main()
	}})
}

// TestScripts runs what people type, and checks what they see. Beside the commands of package testscript a script has those of
// [scriptCommands]. Its folder is its own.
func TestScripts(t *testing.T) {
	root := assert.Must(filepath.Abs("../.."))(t)
	testscript.Run(t, testscript.Params{Dir: "testdata/scripts", UpdateScripts: *update, RequireUniqueNames: true, Cmds: scriptCommands(),
		Setup: func(env *testscript.Env) error {
			env.Setenv("STAGEWISE_BLAS", "gonum")
			env.Setenv("ROOT", root)
			return nil
		}})
}

// scriptCommands returns the commands of scripts by their names.
func scriptCommands() map[string]func(s *testscript.TestScript, not bool, args []string) {
	return map[string]func(s *testscript.TestScript, not bool, args []string){
		"answer": answerScript, "blobs": blobsScript, "broker": brokerScript, "compare": compareScript, "data": dataScript, "damage": damageScript, "edit": editScript,
		"json": jsonScript, "lines": linesScript, "mode": modeScript, "refused": refusedScript, "says": saysScript, "table": tableScript, "topic": topicScript,
		"value": valueScript, "wrong": wrongScript,
	}
}

// need ends a script, with the format and its arguments, unless a condition holds.
func need(s *testscript.TestScript, holds bool, format string, args ...any) {
	if !holds {
		s.Fatalf(format, args...)
	}
}

// refused CODE TEXT ARG... runs stagewise, which must end with this exit code and have the text on standard error. With code 2
// nothing is done, so each line of standard error is an error.
func refusedScript(s *testscript.TestScript, _ bool, args []string) {
	err := s.Exec("stagewise", args[2:]...)
	code := 0
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		code = exit.ExitCode()
	}
	stderr := s.ReadFile("stderr")
	need(s, strconv.Itoa(code) == args[0] && strings.Contains(stderr, args[1]), "exit code %d, expected %s and %s", code, args[0], args[1])
	if code == exitWrong {
		for line := range strings.Lines(stderr) {
			need(s, strings.HasPrefix(line, "stagewise: "), "an unexpected line: %s", line)
		}
	}
}

// says TEXT... checks that the last command has written each text, wherever.
func saysScript(s *testscript.TestScript, not bool, args []string) {
	said := s.ReadFile("stdout") + s.ReadFile("stderr")
	for _, text := range args {
		need(s, strings.Contains(said, text) != not, "%q is written: %t", text, not)
	}
}

// data GENERATOR FILE ROWS SEED writes rows of one of [generators].
func dataScript(s *testscript.TestScript, _ bool, args []string) {
	rows, err := strconv.Atoi(args[2])
	s.Check(err)
	seed, err := strconv.ParseUint(args[3], 10, 64)
	s.Check(err)
	s.Check(os.WriteFile(s.MkAbs(args[1]), []byte(generators()[args[0]](rows, seed)), 0o644))
}

// blobs TRAIN TEST writes the configuration good.yaml, and as many rows of train.csv and of test.csv.
func blobsScript(s *testscript.TestScript, _ bool, args []string) {
	s.Check(os.WriteFile(s.MkAbs("good.yaml"), []byte(good), 0o644))
	dataScript(s, false, []string{"blobs", "train.csv", args[0], "1"})
	dataScript(s, false, []string{"blobs", "test.csv", args[1], "2"})
}

var placeholder = regexp.MustCompile(`<([^<>]*)>`)

// lines FILE ROWS PATTERN... appends rows, each of them all patterns. <i> is the number of the row, <i%7> its remainder, and
// <a|b|c> takes turns.
func linesScript(s *testscript.TestScript, _ bool, args []string) {
	rows, err := strconv.Atoi(args[1])
	s.Check(err)
	file, err := os.OpenFile(s.MkAbs(args[0]), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	s.Check(err)
	for i := range rows {
		for _, pattern := range args[2:] {
			_, err := fmt.Fprintln(file, placeholder.ReplaceAllStringFunc(pattern, func(p string) string {
				p = p[1 : len(p)-1]
				if remainder, ok := strings.CutPrefix(p, "i%"); ok {
					n, err := strconv.Atoi(remainder)
					s.Check(err)
					return strconv.Itoa(i % n)
				}
				if p == "i" {
					return strconv.Itoa(i)
				}
				turns := strings.Split(p, "|")
				return turns[i%len(turns)]
			}))
			s.Check(err)
		}
	}
	s.Check(file.Close())
}

// edit FILE OLD NEW replaces a text, which the file must have.
func editScript(s *testscript.TestScript, _ bool, args []string) {
	content := s.ReadFile(args[0])
	need(s, strings.Contains(content, args[1]), "%s lacks %s", args[0], args[1])
	s.Check(os.WriteFile(s.MkAbs(args[0]), []byte(strings.ReplaceAll(content, args[1], args[2])), 0o644))
}

// damage FILE changes a bit in the middle of a file.
func damageScript(s *testscript.TestScript, _ bool, args []string) {
	content := []byte(s.ReadFile(args[0]))
	content[len(content)/2] ^= 4
	s.Check(os.WriteFile(s.MkAbs(args[0]), content, 0o644))
}

// mode FILE OCTAL checks the permissions of a file.
func modeScript(s *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(s.MkAbs(args[0]))
	s.Check(err)
	got := fmt.Sprintf("%o", info.Mode().Perm())
	need(s, got == args[1], "%s has mode %s, expected %s", args[0], got, args[1])
}

// table CSV FILE COLUMN... writes a CSV with a header as Arrow or Parquet, as the extension of the file says. The columns that are
// given are text; the others are numbers. An empty field is a missing value.
func tableScript(s *testscript.TestScript, _ bool, args []string) {
	rows, err := csv.NewReader(strings.NewReader(s.ReadFile(args[0]))).ReadAll()
	s.Check(err)
	write, text := parquetOf, []arrow.DataType{arrow.BinaryTypes.String}
	if filepath.Ext(args[1]) == ".arrow" { // text has a dictionary, as data frames do for categories, or is large_utf8
		category := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
		write, text = streamOf, []arrow.DataType{category, arrow.BinaryTypes.LargeString}
	}
	var table []tableColumn
	for c, name := range rows[0] {
		column := tableColumn{name: name, of: arrow.PrimitiveTypes.Float64}
		if slices.Contains(args[2:], name) {
			column.of = text[c%len(text)]
		}
		for _, row := range rows[1:] {
			column.values = append(column.values, cmp.Or(row[c], array.NullValueStr))
		}
		table = append(table, column)
	}
	record, err := recordOf(table)
	s.Check(err)
	written, err := write(record)
	s.Check(err)
	s.Check(os.WriteFile(s.MkAbs(args[1]), written, 0o644))
}

// topic NAME [FILE] writes the lines of a file as messages to a topic of the embedded broker in .stagewise, which it creates if it
// does not exist. topic -d NAME deletes one.
func topicScript(s *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	log, err := kafkalog.Open(ctx, kafkalog.Options{DataDir: s.MkAbs(".stagewise")})
	s.Check(err)
	defer func() { s.Check(log.Close()) }()
	if args[0] == "-d" {
		s.Check(log.Delete(ctx, args[1]))
		return
	}
	s.Check(log.Create(ctx, kafkalog.Topic{Name: args[0], Partitions: 1}))
	if len(args) == 1 {
		return
	}
	var messages []kafkalog.Message
	for i, line := range strings.Split(strings.TrimSuffix(s.ReadFile(args[1]), "\n"), "\n") {
		messages = append(messages, kafkalog.Message{Key: fmt.Append(nil, "u", i%10), Value: []byte(line)})
	}
	_, err = log.Append(ctx, args[0], 0, messages...)
	s.Check(err)
}

// broker starts an embedded broker that other processes reach, and sets BROKERS to its address.
func brokerScript(s *testscript.TestScript, _ bool, _ []string) {
	log, err := kafkalog.Open(context.Background(), kafkalog.Options{DataDir: s.MkAbs("broker"), Listen: "127.0.0.1:0"})
	s.Check(err)
	s.Defer(func() { _ = log.Close() }) // its folder goes too
	s.Setenv("BROKERS", log.Addr()[0])
}

// jsonAt returns a member of a JSON file by its path: "" if there is none, and its length for a path that ends with #.
func jsonAt(s *testscript.TestScript, file, path string) string {
	decoder := json.NewDecoder(strings.NewReader(s.ReadFile(file)))
	decoder.UseNumber()
	var value any
	s.Check(decoder.Decode(&value))
	for step := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			if step == "#" {
				return strconv.Itoa(len(v))
			}
			i, err := strconv.Atoi(step)
			s.Check(err)
			need(s, i < len(v), "%s: %s has %d values", file, path, len(v))
			value = v[i]
		default:
			return ""
		}
	}
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	text, err := json.Marshal(value)
	s.Check(err)
	return string(text)
}

// json FILE PATH OPERATOR VALUE compares a member of a JSON file as compare does. One that does not exist is an empty text.
func jsonScript(s *testscript.TestScript, _ bool, args []string) {
	compareScript(s, false, []string{jsonAt(s, args[0], args[1]), args[2], args[3]})
}

// compare VALUE OPERATOR VALUE compares two numbers or texts: = != < <= > >=.
func compareScript(s *testscript.TestScript, _ bool, args []string) {
	a, errA := strconv.ParseFloat(args[0], 64)
	b, errB := strconv.ParseFloat(args[2], 64)
	order := strings.Compare(args[0], args[2])
	if errA == nil && errB == nil {
		if order = cmp.Compare(a, b); math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) {
			order = 0
		}
	} else if strings.ContainsAny(args[1], "<>") {
		s.Fatalf("%q %s %q: expected numbers", args[0], args[1], args[2])
	}
	holds := map[string]bool{"=": order == 0, "!=": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}
	need(s, holds[args[1]], "%s, expected %s %s", args[0], args[1], args[2])
}

// value NAME FILE PATH sets a variable to a member of a JSON file. value NAME FILE /PATTERN/ sets it to the first group of a pattern.
func valueScript(s *testscript.TestScript, _ bool, args []string) {
	if pattern := args[2]; strings.HasPrefix(pattern, "/") {
		found := regexp.MustCompile("(?m)" + strings.Trim(pattern, "/")).FindStringSubmatch(s.ReadFile(args[1]))
		need(s, found != nil, "%s has nothing like %s", args[1], pattern)
		s.Setenv(args[0], found[1])
		return
	}
	s.Setenv(args[0], jsonAt(s, args[1], args[2]))
}

// wrong TRUTH [COLUMN] sets wrong to how many labels in percent of a CSV on the standard output, which predict has written, are not
// those in a column of a file, which may have a header.
func wrongScript(s *testscript.TestScript, _ bool, args []string) {
	rows, err := csv.NewReader(strings.NewReader(s.ReadFile("stdout"))).ReadAll()
	s.Check(err)
	truth, column := strings.Split(strings.TrimSpace(s.ReadFile(args[0])), "\n"), 0
	if len(args) > 1 {
		column, err = strconv.Atoi(args[1])
		s.Check(err)
	}
	rows = rows[1:]
	need(s, len(rows) > 0 && len(truth) >= len(rows) && len(truth) <= len(rows)+1, "%d predictions for %d lines", len(rows), len(truth))
	wrong := 0
	for i, line := range truth[len(truth)-len(rows):] {
		separator := ","
		if !strings.Contains(line, separator) {
			separator = " " // a LIBSVM file
		}
		if strings.Split(line, separator)[column] != rows[i][0] {
			wrong++
		}
	}
	s.Setenv("wrong", strconv.FormatFloat(100*float64(wrong)/float64(len(rows)), 'g', -1, 64))
}

// answer MODEL METHOD PATH FILE writes what a server with this model file answers to a request with the JSON of a file.
func answerScript(s *testscript.TestScript, _ bool, args []string) {
	m, err := readModel(s.MkAbs(args[0]))
	s.Check(err)
	server, err := serve.New(serve.Defaults(), serve.Fixed(m), prometheus.NewRegistry(), "p", func(string) {})
	s.Check(err)
	request := httptest.NewRequest(args[1], args[2], strings.NewReader(s.ReadFile(args[3])))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	server.ServeHTTP(answer, request)
	need(s, answer.Code == http.StatusOK, "%d: %s", answer.Code, answer.Body)
	_, err = answer.Body.WriteTo(s.Stdout())
	s.Check(err)
}

// inFolder makes a new folder with these files the working directory of the test, and selects the BLAS that is always there.
func inFolder(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("STAGEWISE_BLAS", "gonum")
	for name, content := range files {
		assert.NoError(t, os.WriteFile(name, []byte(content), 0o644))
	}
}

// write600 writes a file of the working directory.
func write600(t *testing.T, name string, content []byte) {
	t.Helper()
	assert.NoError(t, os.WriteFile(name, content, 0o600))
}

// long skips a test in short mode: one that trains a while, or that waits for processes.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a long test")
	}
}

// stagewise runs a command line.
func stagewise(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = execute(context.Background(), args, &out, &err)
	return code, out.String(), err.String()
}

// typed types a command line, and expects this exit code. It returns what the command has written.
func typed(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	got, stdout, stderr := stagewise(args...)
	assert.Need(t, got == code, "%v: exit code %d, expected %d: %s", args, got, code, stderr)
	return stdout, stderr
}

// refuses types a command line, which must end with this exit code and have the text on standard error.
func refuses(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	got, stdout, stderr := stagewise(args...)
	assert.True(t, got == code && strings.Contains(stderr, want),
		"%v: exit code %d, expected %d and %q: %s%s", args, got, code, want, stdout, stderr)
}

// free returns an address of this machine on which nothing listens.
func free(t *testing.T) (address string) {
	t.Helper()
	listener := assert.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	assert.NoError(t, listener.Close())
	return listener.Addr().String()
}

// good is a configuration of three stages for the files of [blobs].
const good = `name: blobs
examples: {train: [train.csv], test: [test.csv]}
stages:
  - features: {kind: rff, size: 40}
    passes: 4
    repeat: 2
  - features: {kind: columns}
    link: calibrated
    stop: {split: test}
`

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
	assert.Need(t, len(lines) >= 10, "the help has %d examples", len(lines))
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
		assert.True(t, err == nil, "stagewise %s: %v", strings.Join(line, " "), err)
	}
}

// digitsConfiguration returns examples/digits.yaml for any folder.
func digitsConfiguration(t *testing.T) string {
	t.Helper()
	digits := assert.Must(filepath.Abs("../../examples/digits"))(t)
	return strings.ReplaceAll(string(assert.Must(os.ReadFile("../../examples/digits.yaml"))(t)), "[digits/", "["+digits+"/")
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
	search, _, err := newRoot(io.Discard, io.Discard).Find([]string{"search"})
	assert.NoError(t, err)
	var lines [][]string
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
		lines = append(lines, strings.Fields(line))
	}
	for _, words := range append(lines, examplesOf(search)...) {
		assert.True(t, slices.ContainsFunc(known, func(k []string) bool { return slices.Equal(k, words) }),
			"no command has the example %s", words)
		typed(t, exitDone, words...)
		command, _, err := newRoot(io.Discard, io.Discard).Find(words)
		assert.NoError(t, err)
		ran[command.CommandPath()] = true
	}
	elsewhere := map[string]string{
		"explain": "explain.txtar", "forget": "forget.txtar", "health": "TestHealth", "page": "a service",
		"serve": "a service", "solve": "a service of a cluster", "sources remove": "sources.txtar: its id is that of a file",
		"work": "a service of a cluster",
	}
	var each func(*cobra.Command)
	each = func(c *cobra.Command) {
		for _, below := range c.Commands() {
			each(below)
		}
		name := strings.TrimPrefix(c.CommandPath(), "stagewise ")
		if !c.HasSubCommands() && name != "help" {
			assert.True(t, c.Example != "", "%s: no example in its help", name)
			assert.True(t, ran["stagewise "+name] || elsewhere[name] != "", "%s: no test runs its example", name)
		}
	}
	each(newRoot(io.Discard, io.Discard))
}
