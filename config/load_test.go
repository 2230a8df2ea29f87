package config

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

var update = flag.Bool("update", false, "rewrite the golden files, and the table in docs/configuration.md")

// archives returns the files of testdata/bad: wrong configurations. case.yaml is the file of a case, case.env and case.set are its
// variables and settings, one a line, and case.txt is the whole message. A case without a file has one stage. Passwords in them are
// hunter2, which no message shows.
func archives(t testing.TB) map[string]*txtar.Archive {
	t.Helper()
	paths, err := filepath.Glob("testdata/bad/*.txtar")
	assert.Need(t, err == nil && len(paths) != 0, "archives %v: %v", paths, err)
	all := map[string]*txtar.Archive{}
	for _, path := range paths {
		all[path] = assert.Must(txtar.ParseFile(path))(t)
	}
	return all
}

// Every case of the archives in testdata/bad is wrong, with exactly the message that it has there.
func TestWrongConfigurations(t *testing.T) {
	for path, a := range archives(t) {
		parts := map[string]string{"": "name: a\nstages: [{}]\n"}
		for _, file := range a.Files {
			_, twice := parts[file.Name]
			assert.Need(t, !twice, "%s: %s is there twice", path, file.Name)
			parts[file.Name] = string(file.Data)
		}
		for i := range a.Files {
			message := &a.Files[i]
			name, is := strings.CutSuffix(message.Name, ".txt")
			if !is {
				continue
			}
			t.Run(filepath.Base(path)+"/"+name, func(t *testing.T) {
				file := name + ".yaml"
				if _, has := parts[file]; !has {
					file = ""
				}
				c, err := load(name+".yaml", []byte(parts[file]), lines(parts[name+".env"]), lines(parts[name+".set"]))
				wrong := (*Error)(nil)
				assert.Need(t, errors.As(err, &wrong) && c == nil, "configuration %v, error %v: expected an *Error alone", c, err)
				assert.True(t, !strings.Contains(err.Error(), "hunter2"), "the password is in\n%v", err)
				got := err.Error() + "\n"
				want := string(message.Data)
				assert.True(t, *update || got == want, "got\n%s\nexpected\n%s", got, want)
				message.Data = []byte(got)
			})
		}
		if *update {
			golden(t, path, string(txtar.Format(a)))
		}
	}
}

// lines returns the lines of text without their ends.
func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// An archive cannot hold bytes that an editor does not show, or changes.
func TestWrongBytes(t *testing.T) {
	for content, want := range map[string]string{
		"name: a\nseed: \xff\n":            "a.yaml:2: YAML: invalid UTF-8: expected text in UTF-8",
		"name: a\ndata_dir: gr\xf6\xdfe\n": "a.yaml:2: YAML: invalid UTF-8: expected text in UTF-8",
		"name: a\xed\xa0\x80\n":            "a.yaml:1: YAML: invalid UTF-8: expected text in UTF-8",
		"name: a\x00\n":                    "a.yaml:1: YAML: a control character: expected text without control characters",
		"name: a\n# \x07\n":                "a.yaml:2: YAML: a control character: expected text without control characters",
		"name: a\nseed: \"\x1b[31m1\"\n":   "a.yaml:2: YAML: a control character: expected text without control characters",
		"\ufeffsed: 1\nname: a\n":          "a.yaml:1: sed: 1: expected a known key; did you mean seed?",
		"name: a\r\nsed: 1\r\n":            "a.yaml:2: sed: 1: expected a known key; did you mean seed?",
		"name: a\rsed: 1\r":                "a.yaml:2: sed: 1: expected a known key; did you mean seed?",
		"\xff\xfen\x00:\x00 \x00[\x00": "a.yaml: YAML: a missing value: expected a value, brackets in pairs, and " +
			"quotes around a text that begins with : or a bracket",
		`name: "a\u0007"`: `a.yaml:1: name: "a\a": expected at most 200 letters, digits, dots, hyphens and underscores, but not . or ..`,
		`name: "a\n"`:     `a.yaml:1: name: "a\n": expected at most 200 letters, digits, dots, hyphens and underscores, but not . or ..`,
	} {
		_, err := load("a.yaml", []byte(content), nil, nil)
		assert.True(t, err != nil && err.Error() == want, "%q: got\n%v\nexpected\n%s", content, err, want)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		assert.NoError(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want := assert.Must(os.ReadFile(name))(t)
	assert.True(t, got == string(want), "got\n%s\nexpected\n%s", got, want)
}

func TestMissingFile(t *testing.T) {
	assert.MustFail(Load(filepath.Join(t.TempDir(), "none.yaml"), nil))(t, fs.ErrNotExist)
}

func loaded(t *testing.T, file string, environ, set []string) *Config {
	t.Helper()
	return assert.Must(load(file, assert.Must(os.ReadFile(filepath.Join("testdata/good", file)))(t), environ, set))(t)
}

func TestFileWithEveryKey(t *testing.T) {
	c := loaded(t, "design.yaml", nil, nil)
	stage := schemas.Stage{
		Features: schemas.Features{Kind: "rff", Size: 1024, BandwidthScale: 2, Degree: 2},
		Link:     link.Softmax, Passes: 12, Ridge: 1e-4, Method: "auto", GramRows: "auto",
		Stop: &schemas.Stop{Split: "holdout", Patience: 3},
	}
	job := c.Job()
	assert.Need(t, len(job.Stages) == 10, "%d stages", len(job.Stages))
	for i, got := range job.Stages {
		assert.Equal(t, wire.DigestJSON(got), wire.DigestJSON(stage), "stage %d", i)
	}
	e := job.Examples
	assert.True(t, len(e.Train) == 2 && len(e.Test) == 2 && e.Format == "idx" && e.Label == "0" && e.Missing.Mode == "mean" &&
		e.Holdout == 0.1 && e.Partitions == 4 && e.BatchRows == 1024 && slices.Equal(e.Classes, []string{"0", "1", "2", "Seven"}),
		"examples %+v", e)
	assert.True(t, c.Name == "mnist" && job.Name == "mnist" && len(c.Brokers) == 0 && c.DataDir == ".stagewise" &&
		job.Prepare == (schemas.Prepare{Scale: "none", PCA: 50}) && job.Seed == 1<<64-1 && !job.Intercept &&
		job.OnBadMessage == "stop" && job.Memory == 1<<30 && job.Segment == 8 && job.Warm == "3", "job %+v of %+v", job, c)
}

func TestFileWithOnlyAName(t *testing.T) {
	c := loaded(t, "empty.yaml", nil, nil)
	want := Defaults()
	want.Name, want.Untuned, want.Unlinked = "a", true, true
	assert.Equal(t, c, want, "got")
	c = loaded(t, "empty.yaml", nil, []string{"stages=[{repeat: 2}]"})
	assert.Equal(t, len(c.Job().Stages), 2, "stages")
}

func TestMergeKeys(t *testing.T) {
	c := loaded(t, "merged.yaml", nil, nil)
	first, second := c.Stages[0], c.Stages[1]
	assert.True(t, first.Features.Kind == "columns" && first.Features.Size == 0 && first.Passes == 3 &&
		*first.Stop == (schemas.Stop{Split: "test", Patience: 2}), "first stage %+v", first)
	assert.True(t, second.Features.Kind == "logits" && second.Features.Size == 10 && second.Passes == 7 && second.Stop != nil,
		"second stage %+v", second)
}

// Later sources replace earlier ones: defaults, file, environment, settings.
func TestPrecedence(t *testing.T) {
	environ := []string{"STAGEWISE_SEED=5", "STAGEWISE_STAGES_0_PASSES=6", "STAGEWISE_STAGES_0_FEATURES_BANDWIDTH_SCALE=3",
		"STAGEWISE_BROKERS=a:1, b:2", "STAGEWISE_BLAS=gonum", "STAGEWISE_VECTOR=avx2", "STAGEWISE_KAFKA=x", "STAGEWISE_MNIST=x",
		"STAGEWISE_PYTHON=x", "STAGEWISE_NAME=", "PATH=/bin"}
	c := loaded(t, "design.yaml", environ, []string{"seed=7", "stages.0.features.size=64", "prepare.pca="})
	stage := c.Stages[0]
	assert.True(t, c.Name == "mnist" && c.Seed == 7 && stage.Passes == 6 && stage.Features.BandwidthScale == 3 && stage.Features.Size == 64 &&
		c.Prepare.PCA == 0 && slices.Equal(c.Brokers, []string{"a:1", "b:2"}), "got %+v", c)
}

func TestSettings(t *testing.T) {
	for _, test := range []struct {
		set  string
		same func(c *Config) bool
	}{
		{"brokers=[a:1,b:2]", func(c *Config) bool { return slices.Equal(c.Brokers, []string{"a:1", "b:2"}) }},
		{"brokers=a:1,b:2", func(c *Config) bool { return slices.Equal(c.Brokers, []string{"a:1", "b:2"}) }},
		{"brokers=", func(c *Config) bool { return len(c.Brokers) == 0 }},
		{"name=123", func(c *Config) bool { return c.Name == "123" }},
		{"memory=512MB", func(c *Config) bool { return c.Memory == 512e6 }},
		{"memory=1024", func(c *Config) bool { return c.Memory == 1024 }},
		{"examples.classes=[A, b]", func(c *Config) bool { return slices.Equal(c.Examples.Classes, []string{"A", "b"}) }},
		{"examples.label=Species", func(c *Config) bool { return c.Examples.Label == "Species" }},
		{"examples.header=true", func(c *Config) bool { return *c.Examples.Header }},
		{"examples={train: [b.csv], test: null}", func(c *Config) bool {
			return slices.Equal(c.Examples.Train, []string{"b.csv"}) && c.Examples.Test == nil && c.Examples.Format == ""
		}},
		{"stages=[{link: identity}, {}]", func(c *Config) bool {
			return len(c.Stages) == 2 && c.Stages[0].Link == "identity" && c.Stages[0].Stop == nil && c.Stages[0].Passes == 12
		}},
		{"stages.0.link=calibrated", func(c *Config) bool { return len(c.Stages) == 1 && c.Stages[0].Link == "calibrated" }},
		{"stages.0={passes: 2}", func(c *Config) bool { return c.Stages[0].Passes == 2 && c.Stages[0].Repeat == 10 }},
		{"stages=", func(c *Config) bool { return len(c.Stages) == 0 }},
		{`metrics.listen=""`, func(c *Config) bool { return c.Metrics.Listen == "" }},
		{"stages.0.ridge=auto", func(c *Config) bool { return c.Stages[0].Ridge == schemas.RidgeAuto }},
		{"stages.0.ridge=0", func(c *Config) bool { return c.Stages[0].Ridge == 0 }},
		{"stages=[{}]", func(c *Config) bool { return c.Stages[0].Ridge == schemas.RidgeAuto }},
		{"metrics.listen=null", func(c *Config) bool { return c.Metrics.Listen == "" }},
		{"metrics.listen=", func(c *Config) bool { return c.Metrics.Listen == "" }},
		{"metrics=null", func(c *Config) bool { return c.Metrics.Listen == DefaultListen }},
		{"stages.0.stop=", func(c *Config) bool { return c.Stages[0].Stop == nil }},
	} {
		t.Run(test.set, func(t *testing.T) {
			c := loaded(t, "design.yaml", nil, []string{"examples.format=", test.set})
			assert.True(t, test.same(c), "got %+v", c)
		})
	}
}

// The file takes what --set takes: one value of a list without brackets, several brokers with commas, and sizes with and without units.
func TestFileTakesWhatSetTakes(t *testing.T) {
	for content, same := range map[string]func(c *Config) bool{
		"brokers: a:1":                       func(c *Config) bool { return slices.Equal(c.Brokers, []string{"a:1"}) },
		"brokers: a:1, b:2":                  func(c *Config) bool { return slices.Equal(c.Brokers, []string{"a:1", "b:2"}) },
		"brokers:\n- a:1\n- b:2":             func(c *Config) bool { return slices.Equal(c.Brokers, []string{"a:1", "b:2"}) },
		"brokers:":                           func(c *Config) bool { return len(c.Brokers) == 0 },
		"examples: {categorical: c}":         func(c *Config) bool { return slices.Equal(c.Examples.Categorical, []string{"c"}) },
		"examples: {missing_values: 'a, b'}": func(c *Config) bool { return slices.Equal(c.Examples.MissingValues, []string{"a, b"}) },
		"serve: {memory: 32MiB}":             func(c *Config) bool { return c.Serve.Memory == 32<<20 },
		"serve: {memory: 33554432}":          func(c *Config) bool { return c.Serve.Memory == 32<<20 },
		"serve: {max_body: 1MB}":             func(c *Config) bool { return c.Serve.MaxBody == 1e6 },
		"topics: {state: 4MiB}":              func(c *Config) bool { return c.Topics.State == 4<<20 },
		"memory: 1GiB":                       func(c *Config) bool { return c.Memory == 1<<30 },
	} {
		c, err := load("c.yaml", []byte("name: c\n"+content+"\n"), nil, nil)
		assert.True(t, err == nil && same(c), "%s: %v", content, err)
	}
}

// A path in the file is relative to the file's folder. In a variable or a setting it is relative to the working directory, and that
// of the embedded broker always is.
func TestPaths(t *testing.T) {
	const file = `
name: a
data_dir: data
examples:
  train: [train.csv, /absolute.csv, ../up.csv, "-", "of *.csv", "s3://of/**"]
  test: test.csv
security:
  tls: {ca: ca.pem}
`
	read := func(environ, set []string) *Config {
		t.Helper()
		s := newSettings("some/folder/a.yaml")
		assert.Need(t, s.file([]byte(file)), "%v", s.failure())
		s.environment(environ)
		s.commandLine("--set", set)
		c, err := s.config()
		assert.NoError(t, errors.Join(err, s.failure()))
		return c
	}
	c := read(nil, nil)
	want := []string{"some/folder/train.csv", "/absolute.csv", "some/up.csv", "-", "some/folder/of *.csv", "s3://of/**"}
	assert.True(t, slices.Equal(c.Examples.Train, want), "train %q, expected %q", c.Examples.Train, want)
	assert.True(t, slices.Equal(c.Examples.Test, []string{"some/folder/test.csv"}) && c.Security.TLS.CA == "some/folder/ca.pem" &&
		c.DataDir == "data", "test %q, CA %s, data_dir %s", c.Examples.Test, c.Security.TLS.CA, c.DataDir)
	c = read([]string{"STAGEWISE_EXAMPLES_TEST=other.csv", "STAGEWISE_SECURITY_TLS_CA=other.pem"}, []string{"examples.train=-"})
	assert.True(t, slices.Equal(c.Examples.Train, []string{"-"}) && slices.Equal(c.Examples.Test, []string{"other.csv"}) &&
		c.Security.TLS.CA == "other.pem", "train %q, test %q, CA %s", c.Examples.Train, c.Examples.Test, c.Security.TLS.CA)
}

// The last stage has a default of passes of its own, if its method makes use of them.
func TestPassesOfTheLastStage(t *testing.T) {
	for set, want := range map[string][]int{
		"stages=[{}]":                                         {200},
		"stages=[{repeat: 3}]":                                {12, 12, 200},
		"stages=[{}, {repeat: 2}]":                            {12, 12, 200},
		"stages=[{repeat: 2}, {}]":                            {12, 12, 200},
		"stages=[{passes: 12, repeat: 2}]":                    {12, 12},
		"stages=[{passes: 5}, {passes: null}]":                {5, 200},
		"stages=[{link: calibrated, repeat: 2}]":              {12, 12},
		"stages=[{link: identity}, {method: lbfgs}]":          {12, 12},
		"stages=[{method: paper}, {features: {kind: sorf}}]":  {12, 200},
		"stages=[{passes: 4, repeat: 2}, {link: calibrated}]": {4, 4, 12},
	} {
		c := loaded(t, "empty.yaml", nil, []string{set})
		var got []int
		for _, s := range c.Job().Stages {
			got = append(got, s.Passes)
		}
		assert.Equal(t, got, want, "%s: passes", set)
	}
	// an entry that is equal for all its stages stays one
	assert.Equal(t, len(loaded(t, "empty.yaml", nil, []string{"stages=[{repeat: 3, link: calibrated}]"}).Stages), 1, "entries")
}

// A stage that is fitted in blocks ends after rounds, unless its passes are set.
func TestRoundsOfBlocks(t *testing.T) {
	for set, want := range map[string][2]int{ // passes and rounds
		"{features: {kind: gradient}, link: identity}":                        {10_000, 2},
		"{features: {kind: gradient}, link: identity, repeat: 2}":             {10_000, 2},
		"{features: {kind: gradient, size: 50}}":                              {10_000, 12},
		"{features: {kind: gradient}, passes: 30}":                            {30, 0},
		"{features: {kind: gradient, rounds: 3}}":                             {10_000, 3},
		"{features: {kind: gradient, rounds: 0}, link: identity}":             {10_000, 0},
		"{features: {kind: gradient, rounds: 3}, passes: 30, link: identity}": {30, 3},
		"{features: {kind: columns}, link: identity}":                         {12, 0},
	} {
		for _, s := range loaded(t, "empty.yaml", nil, []string{"stages=[" + set + "]"}).Job().Stages {
			got := [2]int{s.Passes, s.Features.Rounds}
			assert.True(t, got == want, "%s: %d passes and %d rounds, expected %d", set, got[0], got[1], want)
		}
	}
}

// A password is the value of the variable, byte by byte and not as YAML. Printing the configuration does not show it.
func TestPassword(t *testing.T) {
	for _, password := range []string{"hunter2", "1234567890", "*hunter2", "{hunter2", `"hunter2"`, " ~", "a: hunter2", "# hunter2"} {
		c := loaded(t, "secured.yaml", []string{"STAGEWISE_SECURITY_SASL_PASSWORD=" + password}, nil)
		want := kafkalog.Security{
			TLS:  secure.TLS{Enabled: true, ServerName: "kafka.example"},
			SASL: secure.SASL{Mechanism: "SCRAM-SHA-512", Username: "alice", Password: kafkalog.NewSecret(password)},
		}
		assert.True(t, reflect.DeepEqual(c.Security, want) && reflect.DeepEqual(c.Log().Security, want), "%s: got another", password)
		text := fmt.Sprintf("%v %+v %#v", c, *c, c)
		assert.True(t, !strings.Contains(text, password), "%s is in %s", password, text)
	}
}

// No two keys share the name of a variable.
func TestEveryKeyHasItsVariable(t *testing.T) {
	seen := map[string]string{}
	walk("", reflect.TypeFor[Config](), func(key string, _ reflect.Type) {
		variable := strings.ReplaceAll(key, ".", "_")
		other, twice := seen[variable]
		assert.True(t, !twice, "%s is %s and %s", variable, other, key)
		seen[variable] = key
	})
}

// Variables that Kubernetes sets for a Service whose name begins with stagewise are not keys, and are named in a notice. Variables that
// only resemble them are errors.
func TestKubernetesServiceVariables(t *testing.T) {
	for _, v := range []string{"SERVICE_HOST=10.96.0.17", "SERVICE_HOST=fd00::11", "SERVICE_PORT=80", "SERVICE_PORT_HTTP=80", "SERVICE_PORT_GRPC_WEB=81",
		"PORT=tcp://10.96.0.17:80", "PORT=udp://[fd00::11]:53", "PORT_80_TCP=tcp://10.96.0.17:80", "PORT_80_TCP_PROTO=tcp", "PORT_80_TCP_PORT=80",
		"PORT_80_TCP_ADDR=10.96.0.17", "PORT_132_SCTP_ADDR=fd00::11"} {
		for _, service := range []string{"STAGEWISE_", "STAGEWISE_SERVE_", "STAGEWISE_NAME_2_", "STAGEWISE_STAGES_0_"} {
			c := loaded(t, "design.yaml", []string{service + v, "STAGEWISE_SEED=7"}, nil)
			name, _, _ := strings.Cut(service+v, "=")
			assert.True(t, strings.Contains(c.Notice(), name) && strings.Contains(c.Notice(), "enableServiceLinks: false") && c.Seed == 7,
				"%s: seed %d, notice %q", service+v, c.Seed, c.Notice())
		}
	}
	for _, v := range []string{"STAGEWISE_PORT=9092", "STAGEWISE_SERVICE_HOST=kafka", "STAGEWISE_SERVICE=10.96.0.17", "STAGEWISE_PORT_80=80",
		"STAGEWISE_LISTEN_PORT=9092", "STAGEWISESERVICE_HOST"} {
		_, err := load("a.yaml", []byte("name: a"), []string{v}, nil)
		assert.True(t, (err == nil) == !strings.HasPrefix(v, prefix), "%s: %v", v, err)
	}
	assert.Equal(t, loaded(t, "design.yaml", nil, nil).Notice(), "", "notice")
}

// Any bytes are either a valid configuration, whose job can be made, or a list of problems of one line each.
func FuzzLoad(f *testing.F) {
	add := func(content []byte) { f.Add(content, "stages.0.features.size", "7", "STAGEWISE_SEED=1") }
	files := assert.Must(filepath.Glob("testdata/good/*.yaml"))(f)
	for _, file := range files {
		content := assert.Must(os.ReadFile(file))(f)
		add(content)
	}
	for _, a := range archives(f) {
		for _, file := range a.Files {
			if strings.HasSuffix(file.Name, ".yaml") {
				add(file.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, content []byte, key, value, variable string) {
		c, err := load("fuzz.yaml", content, []string{variable}, []string{key + "=" + value})
		if err == nil {
			c.Job()
			return
		}
		wrong := (*Error)(nil)
		assert.Need(t, errors.As(err, &wrong) && len(wrong.Problems) != 0, "error %v", err)
		lines := strings.Count(err.Error(), "\n") + 1
		assert.True(t, lines == len(wrong.Problems), "%d lines of %d problems:\n%v", lines, len(wrong.Problems), err)
	})
}

// What a configuration resolves to is a configuration: loaded again, it says the same. It has every key but those of security.
func TestResolvedIsTheSameConfiguration(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	assert.Need(t, err == nil && len(files) != 0, "files %v: %v", files, err)
	for _, file := range files {
		content := assert.Must(os.ReadFile(file))(t)
		var environ []string
		if strings.Contains(string(content), "sasl") {
			environ = []string{"STAGEWISE_SECURITY_SASL_PASSWORD=hunter2"}
		}
		var set []string
		if filepath.Base(file) == "empty.yaml" { // all that parses itself
			set = []string{"examples={times: {t: [hour], u: {parts: [age], unit: ms}}, offsets: {v: 1}, class_weight: {a: 2}}",
				"prepare.hash={columns: 2^10, cross: [[c, d]]}", "examples.categorical=c,d", "threshold={cost: {fp: 1, fn: 20}}", "memory=1GiB",
				"examples.missing_values=[]"}
		}
		text := assert.Must(json.Marshal(assert.Must(load(file, content, environ, set))(t)))(t)
		assert.True(t, !strings.Contains(string(text), "hunter2") && !strings.Contains(string(text), "security"),
			"%s: security is in %s", file, text)
		again, err := load(file, text, nil, nil)
		assert.Need(t, err == nil, "%s: %v in %s", file, err, text)
		more := assert.Must(json.Marshal(again))(t)
		assert.True(t, string(more) == string(text), "%s: %s resolves to %s", file, text, more)
		assert.Equal(t, lacking(t, text), "", "%s resolves to no key", file)
	}
}

// lacking returns a documented key that a resolved configuration lacks, or nothing. There may be no stages, and whether a file has a
// header has no default.
func lacking(t *testing.T, text []byte) string {
	t.Helper()
	var root any
	assert.NoError(t, json.Unmarshal(text, &root))
	for _, k := range Keys() {
		if strings.HasPrefix(k.Name, withheld) || strings.HasPrefix(k.Name, "stages.") || k.Name == "examples.header" {
			continue
		}
		at := root
		for name := range strings.SplitSeq(k.Name, ".") {
			keys, _ := at.(map[string]any)
			below, ok := keys[name]
			if !ok {
				return k.Name
			}
			at = below
		}
	}
	return ""
}

// An archive without a topic stays one: what its files say is not written.
func TestResolvedArchiveHasNoTopic(t *testing.T) {
	folder := t.TempDir()
	assert.NoError(t, os.WriteFile(filepath.Join(folder, "clicks+0+0000000000.json"), []byte("{\"a\": 1, \"label\": 0}\n"), 0o600))
	content := []byte("name: a\nexamples: {columns: {use: [a]}, archive: {files: \"" + folder + "\", layout: confluent}}\n")
	for range 2 {
		c := assert.Must(load("archive.yaml", content, nil, nil))(t)
		assert.True(t, c.Examples.Archive.Alone, "%s: the archive is not alone", content)
		content = assert.Must(json.Marshal(c))(t)
	}
}
