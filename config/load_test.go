package config

import (
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

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Each file in testdata/bad is wrong, and the .txt beside it is all that there is to say of it.
func TestWrongFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v: %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := load(filepath.Base(file), content, nil, nil)
			if wrong := (*Error)(nil); !errors.As(err, &wrong) || c != nil {
				t.Fatalf("configuration %v, error %v: expected an *Error alone", c, err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nexpected\n%s", got, want)
	}
}

func TestMissingFile(t *testing.T) {
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func loaded(t *testing.T, file string, environ, set []string) *Config {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata/good", file))
	if err != nil {
		t.Fatal(err)
	}
	c, err := load(file, content, environ, set)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFileThatSaysAll(t *testing.T) {
	c := loaded(t, "design.yaml", nil, nil)
	stage := schemas.Stage{
		Features: schemas.Features{Kind: "rff", Size: 1024, BandwidthScale: 2, Degree: 2},
		Link:     link.Softmax, Passes: 12, Ridge: 1e-4, Method: "auto", GramRows: "auto",
		Stop: &schemas.Stop{Split: "holdout", Patience: 3},
	}
	job := c.Job()
	if len(job.Stages) != 10 {
		t.Fatalf("%d stages", len(job.Stages))
	}
	for i, got := range job.Stages {
		if schemas.DigestJSON(got) != schemas.DigestJSON(stage) {
			t.Errorf("stage %d is %+v, expected %+v", i, got, stage)
		}
	}
	e := job.Examples
	if len(e.Train) != 2 || len(e.Test) != 2 || e.Format != "idx" || e.Label != "0" || e.Missing != "mean" || e.Holdout != 0.1 ||
		e.Partitions != 4 || e.BatchRows != 1024 || !slices.Equal(e.Classes, []string{"0", "1", "2", "Seven"}) {
		t.Errorf("examples %+v", e)
	}
	if c.Name != "mnist" || job.Name != "mnist" || len(c.Brokers) != 0 || c.DataDir != ".stagewise" ||
		job.Prepare != (schemas.Prepare{Scale: "none", PCA: 50}) || job.Seed != 1<<64-1 || job.Intercept ||
		job.OnBadMessage != "stop" || job.Memory != 1<<30 || job.Segment != 8 || job.Warm != "3" {
		t.Errorf("job %+v of %+v", job, c)
	}
}

func TestFileThatSaysNothing(t *testing.T) {
	c := loaded(t, "empty.yaml", nil, nil)
	want := Defaults()
	want.Name, want.path = "a", c.path
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, expected %+v", c, want)
	}
	var wrong *Error
	if err := c.CheckStages(); !errors.As(err, &wrong) {
		t.Errorf("error %v without stages", err)
	}
	if c = loaded(t, "empty.yaml", nil, []string{"stages=[{repeat: 2}]"}); c.CheckStages() != nil || len(c.Job().Stages) != 2 {
		t.Errorf("stages %+v", c.Job().Stages)
	}
}

func TestMergeKeys(t *testing.T) {
	c := loaded(t, "merged.yaml", nil, nil)
	first, second := c.Stages[0], c.Stages[1]
	if first.Features.Kind != "columns" || first.Features.Size != 0 || first.Passes != 3 || *first.Stop != (schemas.Stop{Split: "test", Patience: 2}) {
		t.Errorf("first stage %+v", first)
	}
	if second.Features.Kind != "logits" || second.Features.Size != 10 || second.Passes != 7 || second.Stop == nil {
		t.Errorf("second stage %+v", second)
	}
}

// What is said later replaces what was said before: defaults, file, environment, settings.
func TestPrecedence(t *testing.T) {
	environ := []string{"STAGEWISE_SEED=5", "STAGEWISE_STAGES_0_PASSES=6", "STAGEWISE_STAGES_0_FEATURES_BANDWIDTH_SCALE=3",
		"STAGEWISE_BROKERS=a:1, b:2", "STAGEWISE_BLAS=gonum", "STAGEWISE_KAFKA=x", "STAGEWISE_MNIST=x", "STAGEWISE_NAME=", "PATH=/bin"}
	c := loaded(t, "design.yaml", environ, []string{"seed=7", "stages.0.features.size=64", "prepare.pca="})
	stage := c.Stages[0]
	if c.Name != "mnist" || c.Seed != 7 || stage.Passes != 6 || stage.Features.BandwidthScale != 3 || stage.Features.Size != 64 ||
		c.Prepare.PCA != 0 || !slices.Equal(c.Brokers, []string{"a:1", "b:2"}) {
		t.Errorf("got %+v", c)
	}
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
			return len(c.Stages) == 2 && c.Stages[0].Link == "identity" && c.Stages[0].Stop == nil && c.Stages[1].Passes == 12
		}},
		{"stages.0.link=calibrated", func(c *Config) bool { return len(c.Stages) == 1 && c.Stages[0].Link == "calibrated" }},
		{"stages.0={passes: 2}", func(c *Config) bool { return c.Stages[0].Passes == 2 && c.Stages[0].Repeat == 10 }},
		{"stages=", func(c *Config) bool { return len(c.Stages) == 0 }},
		{"stages.0.stop=", func(c *Config) bool { return c.Stages[0].Stop == nil }},
	} {
		t.Run(test.set, func(t *testing.T) {
			if c := loaded(t, "design.yaml", nil, []string{"examples.format=", test.set}); !test.same(c) {
				t.Errorf("got %+v", c)
			}
		})
	}
}

// A password is what the variable says, letter by letter, and no YAML; nothing that prints the configuration prints it.
func TestPassword(t *testing.T) {
	for _, password := range []string{"hunter2", "1234567890", "*hunter2", "{hunter2", `"hunter2"`, " null", "a: hunter2", "# hunter2"} {
		environ := []string{"STAGEWISE_SECURITY_SASL_PASSWORD=" + password}
		c := loaded(t, "secured.yaml", environ, nil)
		want := kafkalog.Security{
			TLS:  kafkalog.TLS{Enabled: true, ServerName: "kafka.example"},
			SASL: kafkalog.SASL{Mechanism: "SCRAM-SHA-512", Username: "alice", Password: kafkalog.NewSecret(password)},
		}
		if !reflect.DeepEqual(c.Security, want) || !reflect.DeepEqual(c.Log().Security, want) {
			t.Errorf("%s: got another", password)
		}
		if text := fmt.Sprintf("%v %+v %#v", c, *c, c); strings.Contains(text, password) {
			t.Errorf("%s is in %s", password, text)
		}
	}
}

func TestWrongSettings(t *testing.T) {
	for _, test := range []struct{ environ, set, want string }{
		{"", "seed", "--set: seed: no value: expected key=value"},
		{"", "seeed=1", "--set: seeed: 1: expected a known key; did you mean seed?"},
		{"", "seed=x", "--set: seed: x: expected a whole number from 0 to 2^64-1"},
		{"", "=x", `--set: "": x: expected one of the keys name, brokers, security, data_dir, examples, prepare, stages, seed, intercept, on_bad_message, memory, segment, warm or metrics`},
		{"", "security.sasl.password=hunter2", "--set: security.sasl.password: (not shown): expected it in the environment (STAGEWISE_SECURITY_SASL_PASSWORD) or in a file of its own (security.sasl.password_file)"},
		{"", "security.sasl.password=*hunter2", "--set: security.sasl.password: (not shown): expected it in the environment (STAGEWISE_SECURITY_SASL_PASSWORD) or in a file of its own (security.sasl.password_file)"},
		{"", "security.sasl={password: hunter2}", "--set: security.sasl.password: (not shown): expected it in the environment (STAGEWISE_SECURITY_SASL_PASSWORD) or in a file of its own (security.sasl.password_file)"},
		{"", "security.sasl=hunter2", "--set: security.sasl: (not shown): expected a mapping with mechanism, username, password or password_file"},
		{"", "security.sasl.pwd=hunter2", "--set: security.sasl.pwd: (not shown): expected one of the keys mechanism, username, password or password_file"},
		{"", "stages.1.passes=1", "--set: stages.1.passes: 1: expected the number of a stage, from 0; there are 1"},
		{"", "stages.first.passes=1", "--set: stages.first.passes: 1: expected the number of a stage, from 0; there are 1"},
		{"", "stages.-1.passes=1", "--set: stages.-1.passes: 1: expected the number of a stage, from 0; there are 1"},
		{"", "stages.00.passes=1", "--set: stages.00.passes: 1: expected the number of a stage, from 0; there are 1"},
		{"", "stages.0.passes.x=1", "--set: stages.0.passes.x: 1: expected no key below stages.0.passes"},
		{"", "stages.0.passes=0", "--set: stages.0.passes: 0: expected a whole number from 1 to 10000"},
		{"", "brokers=[a", "--set: brokers: [a: expected YAML: did not find expected ',' or ']'"},
		{"", "seed={a: 1}", "--set: seed: a mapping: expected a whole number from 0 to 2^64-1"},
		{"STAGEWISE_SED=1", "", "environment: STAGEWISE_SED: 1: expected a variable that is named after a key; did you mean STAGEWISE_SEED?"},
		{"STAGEWISE_seed=1", "", "environment: STAGEWISE_seed: 1: expected a variable that is named after a key; did you mean STAGEWISE_SEED?"},
		{"STAGEWISE_SASL_PASSWORD=hunter2", "", "environment: STAGEWISE_SASL_PASSWORD: (not shown): expected a variable that is named after a key"},
		{"STAGEWISE_=1", "", "environment: STAGEWISE_: 1: expected a variable that is named after a key"},
		{"STAGEWISE_EXAMPLES=1", "", "environment: STAGEWISE_EXAMPLES: 1: expected a variable that is named after a key"},
		{"STAGEWISE_SEED=x", "", "STAGEWISE_SEED: seed: x: expected a whole number from 0 to 2^64-1"},
		{"STAGEWISE_STAGES_5_PASSES=1", "", "STAGEWISE_STAGES_5_PASSES: stages.5.passes: 1: expected the number of a stage, from 0; there are 1"},
	} {
		t.Run(test.environ+test.set, func(t *testing.T) {
			var environ, set []string
			if test.environ != "" {
				environ = []string{test.environ}
			} else {
				set = []string{test.set}
			}
			_, err := load("a.yaml", []byte("name: a\nstages: [{}]\n"), environ, set)
			if err == nil || err.Error() != test.want {
				t.Errorf("got\n%v\nexpected\n%s", err, test.want)
			}
		})
	}
}

// No two keys share a variable, and each is found by its own.
func TestEveryKeyHasItsVariable(t *testing.T) {
	seen := map[string]string{}
	tree().walk("", func(key string, _ *node) {
		key = strings.ReplaceAll(key, "*", "12")
		name := strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
		if other, twice := seen[name]; twice {
			t.Errorf("%s is %s and %s", name, other, key)
		}
		seen[name] = key
		if got, ok := keyOfVariable(tree(), "", name); !ok || got != key {
			t.Errorf("%s is %q, %t, expected %s", name, got, ok, key)
		}
	})
}

// Any bytes are either a configuration whose stages can be resolved, or a list of problems in one line each.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/bad/*.yaml", "testdata/good/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(content, "stages.0.features.size", "7", "STAGEWISE_SEED=1")
		}
	}
	f.Fuzz(func(t *testing.T, content []byte, key, value, variable string) {
		c, err := load("fuzz.yaml", content, []string{variable}, []string{key + "=" + value})
		if err == nil {
			c.Job()
			return
		}
		wrong := (*Error)(nil)
		if !errors.As(err, &wrong) || len(wrong.Problems) == 0 {
			t.Fatalf("error %v", err)
		}
		if lines := strings.Count(err.Error(), "\n") + 1; lines != len(wrong.Problems) {
			t.Errorf("%d lines of %d problems:\n%v", lines, len(wrong.Problems), err)
		}
	})
}
