package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Run is a run to compare.
type Run struct {
	Title string // how the reader knows it, such as "wide version 3"
	State string // done, failed, running, …
	Date  string // when it was submitted; "": the page has one date for all runs
	// Settings are the keys in which the runs of a search differ. Without any, the plans are compared.
	Settings []Setting
	Plan     *schemas.Plan
	// Report has the results. nil means that the run has made no version, or that an earlier release made it.
	Report *schemas.Report
	// Galleries are pictures of filters and mistakes of a run on images.
	Galleries []Gallery
	// Bars are tables of the importance of columns and of errors by slices, of a run on a table.
	Bars []Table
}

// Setting is a key of the configuration and its value.
type Setting struct{ Key, Value string }

// Row is a row of a table: a name, and a value for each run, or None.
type Row struct {
	Name   string
	Values []string
}

// None stands for a value that a run does not have.
const None = "-"

// same reports whether all runs have the same value.
func (r Row) same() bool {
	return !slices.ContainsFunc(r.Values, func(v string) bool { return v != r.Values[0] })
}

// Differences returns the fields in which the plans of runs differ, by their keys in JSON, in alphabetical order, but stages by their
// numbers. If all stages of a run have the same value, and those of the others too, the field is one row, as stages.*.ridge. What tells one
// submission from another is left out.
func Differences(runs []Run) []Row {
	return slices.DeleteFunc(fields(runs), Row.same)
}

// Fields returns the fields of the plan of a run, as [Differences] has them.
func Fields(r Run) []Row { return fields([]Run{r}) }

// fields returns the fields of the plans of runs.
func fields(runs []Run) (rows []Row) {
	plans, all := make([]map[string]string, len(runs)), map[string]bool{}
	for i, r := range runs {
		plans[i] = map[string]string{}
		if r.Plan != nil {
			plans[i] = fieldsOf(r.Plan)
			plans[i]["stages"] = strconv.Itoa(len(r.Plan.Stages))
		}
	}
	foldStages(plans)
	for _, of := range plans {
		for key := range of {
			all[key] = true
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(all), byStage) {
		row := Row{Name: key}
		for _, of := range plans {
			value, ok := of[key]
			if !ok {
				value = None
			}
			row.Values = append(row.Values, value)
		}
		rows = append(rows, row)
	}
	return rows
}

// fieldsOf returns the values of a plan by their keys.
func fieldsOf(plan *schemas.Plan) map[string]string {
	p := *plan
	p.Submission, p.Since, p.Trigger = "", schemas.Since{}, false
	text, err := json.Marshal(p)
	if err != nil {
		return nil // a plan came from JSON
	}
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil
	}
	root := tree.(map[string]any)
	for _, key := range []string{"submission", "since", "trigger", "spans", "sources", "expiring", "outside", "forgotten"} {
		delete(root, key)
	}
	fields := map[string]string{}
	flatten("", root, fields)
	spans := func(key string, list coverage.Spans) {
		var texts []string
		for _, s := range list {
			texts = append(texts, s.String())
		}
		if len(texts) > 0 {
			fields[key] = strings.Join(texts, " ")
		}
	}
	spans("spans", plan.Spans)
	spans("expiring", plan.Expiring)
	spans("outside", plan.Outside)
	var sources []string
	for i := range plan.Sources {
		sources = append(sources, wire.Digest(plan.Sources[i].ID).Short())
	}
	if len(sources) > 0 {
		fields["sources"] = strings.Join(sources, " ")
	}
	if len(plan.Forgotten) > 0 {
		fields["forgotten"] = wire.DigestJSON(plan.Forgotten).Short()
	}
	return fields
}

// flatten adds the values below a key. A list of plain values is one value.
func flatten(key string, value any, fields map[string]string) {
	below := func(name string) string {
		if key == "" {
			return name
		}
		return key + "." + name
	}
	switch v := value.(type) {
	case map[string]any:
		for name, of := range v {
			flatten(below(name), of, fields)
		}
		return
	case []any:
		plain := !slices.ContainsFunc(v, func(of any) bool {
			switch of.(type) {
			case map[string]any, []any:
				return true
			}
			return false
		})
		if plain {
			fields[key] = strings.Trim(fmt.Sprint(v), "[]")
			return
		}
		for i, of := range v {
			flatten(below(strconv.Itoa(i)), of, fields)
		}
		return
	case nil:
		return
	}
	fields[key] = fmt.Sprint(value)
}

// foldStages makes one field of those of all stages, where each of the plans has one value.
func foldStages(plans []map[string]string) {
	apart := map[string]bool{} // fields that have other values in another stage of their plan
	for _, of := range plans {
		values := map[string]string{}
		for key, value := range of {
			if _, name, ok := stageOf(key); ok {
				before, any := values[name]
				apart[name] = apart[name] || any && before != value
				values[name] = value
			}
		}
	}
	for _, of := range plans {
		for key, value := range maps.Clone(of) {
			if _, name, ok := stageOf(key); ok && !apart[name] {
				delete(of, key)
				of["stages.*."+name] = value
			}
		}
	}
}

// stageOf returns the number and the field of a key under stages; −1 if it is of every stage.
func stageOf(key string) (number int, field string, ok bool) {
	rest, ok := strings.CutPrefix(key, "stages.")
	if !ok {
		return 0, "", false
	}
	text, field, ok := strings.Cut(rest, ".")
	if text == "*" {
		return -1, field, ok
	}
	number, err := strconv.Atoi(text)
	return number, field, ok && err == nil
}

// byStage compares keys: alphabetically, but by the numbers of stages.
func byStage(a, b string) int {
	n, _, isA := stageOf(a)
	m, _, isB := stageOf(b)
	if isA && isB && n != m {
		return n - m
	}
	return strings.Compare(a, b)
}
