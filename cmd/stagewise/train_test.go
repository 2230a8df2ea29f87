package main

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// trained trains on good.yaml, writes the model to the file model, and returns the report.
func trained(t *testing.T) schemas.Report {
	t.Helper()
	return reported(t, "-c", "good.yaml", "--model", "model")
}

// reported trains, and returns the report. A quiet command says nothing else.
func reported(t *testing.T, args ...string) (report schemas.Report) {
	t.Helper()
	stdout, stderr := typed(t, exitDone, append([]string{"train", "--quiet", "--report", "-"}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || stderr != "" {
		t.Fatalf("%v in %s%s", err, stdout, stderr)
	}
	return report
}

// reportSchema returns the documented schema of a report.
func reportSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	content := valueOf(os.ReadFile("../../schemas/report.schema.json"))(t)
	schema := &jsonschema.Schema{}
	noError(t, json.Unmarshal(content, schema))
	return schema
}

// checkReport validates a report against the schema.
func checkReport(t *testing.T, schema *jsonschema.Schema, text []byte) {
	t.Helper()
	resolved := valueOf(schema.Resolve(nil))(t)
	var report any
	noError(t, json.Unmarshal(text, &report))
	if err := resolved.Validate(report); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
}

// The schema documents the fields of the Go types, all and no others, and requires those that are always there.
func TestReportSchemaHasAllFields(t *testing.T) {
	schema := reportSchema(t)
	check := func(name string, s *jsonschema.Schema, values ...any) {
		t.Helper()
		var fields, always []string
		for _, v := range values {
			for f := range reflect.TypeOf(v).Fields() {
				tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
				if tag == "" {
					continue // embedded
				}
				if fields = append(fields, tag); !strings.Contains(options, "omitempty") {
					always = append(always, tag)
				}
			}
		}
		slices.Sort(fields)
		if documented := slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(documented, fields) {
			t.Errorf("%s: the schema has the fields %v, Go has %v", name, documented, fields)
		}
		required := slices.Sorted(slices.Values(s.Required))
		if slices.Sort(always); !slices.Equal(required, always) {
			t.Errorf("%s: the schema requires %v, Go always writes %v", name, required, always)
		}
		for field, p := range s.Properties {
			if p.Description == "" && p.Ref == "" {
				t.Errorf("%s: %s has no description", name, field)
			}
		}
	}
	check("report", schema, schemas.Report{}, screen.Report{})
	check("stage", schema.Defs["stage"], schemas.StageReport{}, schemas.Measured{})
	check("split", schema.Defs["split"], schemas.SplitReport{}, statistics.ClassMeasures{})
	check("decided", schema.Defs["split"].Properties["decided"], statistics.Decided{})
	check("pass", schema.Defs["pass"], schemas.PassReport{})
	check("average", schema.Defs["average"], schemas.AverageReport{}, schemas.Measured{})
	check("reliability", schema.Defs["reliability"], schemas.ReliabilityBin{})
	check("retrain", schema.Properties["retrain"], schemas.RetrainReport{})
	check("bin", schema.Defs["bin"], statistics.ErrorBin{})
	check("served", schema.Defs["served"], schemas.ServedReport{})
	check("outcomes", schema.Defs["outcomes"], schemas.OutcomesReport{}, examples.JoinCounts{})
	check("bad messages", schema.Defs["bad_messages"], coverage.BadMessages{})
	check("span", schema.Defs["span"], coverage.Span{})
	var reasons []string
	for _, r := range coverage.PassOverReasons() {
		reasons = append(reasons, string(r.Reason))
		if got := schema.Properties["passed_over"].Properties[string(r.Reason)]; got == nil || got.Description != r.Meaning {
			t.Errorf("passed_over: %s is not described as %q", r.Reason, r.Meaning)
		}
	}
	if got := schema.Properties["passed_over"].Properties; len(got) != len(reasons) {
		t.Errorf("passed_over: the schema has %v, Go has %v", slices.Sorted(maps.Keys(got)), reasons)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	return string(valueOf(os.ReadFile(name))(t))
}

// A report is what its schema says. Its confusion matrix has a line for each true class, and its configuration is one that train can
// be given, for the same weights. A password is not in it.
func TestReportIsAsDocumented(t *testing.T) {
	schema := reportSchema(t)
	test := "red,9,0,0\nred,9,0,0\nred,0,9,0\n" // two rows that are red, and one that looks green
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": test})
	t.Setenv("STAGEWISE_SECURITY_SASL_PASSWORD", "hunter2") // ignored, as there is no mechanism
	args := []string{"--quiet", "--set", "examples.holdout=0.2", "--set", "stages.1.passes=3", "--set", "stages.0.ridge=1e-4", "--report"}
	typed(t, exitDone, append([]string{"train", "-c", "good.yaml"}, append(args, "first.json")...)...)
	text := readFile(t, "first.json")
	checkReport(t, schema, []byte(text))
	var first struct {
		schemas.Report
		Configuration json.RawMessage
	}
	noError(t, json.Unmarshal([]byte(text), &first))
	// blue, green, red: the true classes are the rows
	if got, want := first.Splits["test"].Confusion, [][]int64{{0, 0, 0}, {0, 0, 0}, {0, 1, 2}}; !reflect.DeepEqual(got, want) {
		t.Errorf("confusion %v, expected %v", got, want)
	}
	if strings.Contains(text, "hunter2") || strings.Contains(text, "security") {
		t.Errorf("security is in\n%s", text)
	}
	noError(t, os.WriteFile("again.json", first.Configuration, 0o644))
	typed(t, exitDone, "train", "-c", "again.json", "--quiet", "--report", "second.json", "--set",
		"data_dir=other")
	var second schemas.Report
	noError(t, json.Unmarshal([]byte(readFile(t, "second.json")), &second))
	if second.WeightsDigest != first.WeightsDigest || second.Version != 1 {
		t.Errorf("version %d with weights %s, expected %s", second.Version, second.WeightsDigest.Short(), first.WeightsDigest.Short())
	}
}

// clicked is a configuration of a run on what a topic has in JSON.
const clicked = `name: clicks
examples:
  from_topic: events
  format: json
  label: kind
  columns: {use: [length, width]}
  missing: mean
stages: [{features: {kind: columns}, passes: 3}]
`
