package schemas

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

func plan() *Plan {
	header := true
	seal := SourceSeal{ID: "source", Attempt: "1", Files: []string{"train.csv"}, Split: "train", Partitions: 2, Messages: 3, Rows: 130,
		Spans: coverage.Spans{{Partition: 0, From: 0, To: 2}, {Partition: 1, From: 0, To: 1}}}
	return &Plan{
		Name: "digits", Spans: coverage.Spans{{Partition: 0, From: 0, To: 2}, {Partition: 1, From: 0, To: 1}},
		Sources: []SourceSeal{seal}, Removed: []string{"removed/1"}, Expiring: coverage.Spans{{Partition: 1, From: 3, To: 6}},
		Topic: "images.examples", Outside: coverage.Spans{{Partition: 1, From: 6, To: 8}},
		Input: Input{
			Format: "csv", Label: "y", Weight: "w", LabelColumns: []string{"l"}, Header: &header, Delimiter: ";", Use: []string{"x", "z"},
			Drop: []string{"id"}, Categorical: []string{"z"},
			MissingValues: []string{"?"},
		},
		Classes: []string{"a", "<b>"}, Targets: []string{"x"}, Labels: LabelsSeveral, ClassWeight: ClassWeight{By: map[string]float64{"a": 2}},
		Threshold: ThresholdRule{At: 0.25},
		Augment:   Augment{Mirror: true, Shift: 1}, Missing: "mean", Holdout: 0.125, OnBadMessage: "quarantine",
		Prepare: Prepare{Scale: "standard", PCA: 2},
		Stages: []Stage{{
			Features: Features{Kind: "rff", Size: 64, BandwidthScale: 2}, Link: "softmax", Passes: 3, Ridge: 1e-7,
			Method: "paper", GramRows: "all", Scores: true, Stop: &Stop{Split: "holdout", Patience: 2},
		}},
		Intercept: true, Seed: 1<<64 - 1, Segment: 64, Arithmetic: Arithmetic{Numerics: "1", Processor: "amd64", BLAS: "blas", Vector: "avx2"},
		Warm: &Warm{Run: "before", Manifest: "digest"}, Trigger: true, Submission: "drawn", Since: Since{Plans: 4, Weights: 5,
			Statistics: []int64{6, 7}},
	}
}

// leaves calls with for every value within v, with its path.
func leaves(v reflect.Value, at string, with func(at string, leaf reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			leaves(v.Field(i), at+"."+v.Type().Field(i).Name, with)
		}
	case reflect.Pointer:
		leaves(v.Elem(), at, with)
	case reflect.Array:
		for i := range v.Len() {
			leaves(v.Index(i), fmt.Sprintf("%s[%d]", at, i), with)
		}
	case reflect.Slice:
		leaves(v.Index(0), at+"[0]", with)
		with(at, v)
	default:
		with(at, v)
	}
}

func change(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint64:
		v.SetUint(v.Uint() - 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Slice:
		v.Set(reflect.Append(v, v.Index(0)))
	case reflect.Map:
		v.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(v.Type().Elem()))
	default:
		panic(v.Kind())
	}
}

func TestRunDependsOnAllButSince(t *testing.T) {
	plan := func() *Plan {
		p := updatePlan()
		p.Chain.Increments, p.Chain.Parent = updatePlan().Chain.Update.Leave, updatePlan().Warm
		p.Input.Vocabulary, p.Input.Times = []string{"word"}, map[string][]string{"at": {"hour"}}
		p.Input.Hash, p.Input.FirstIndex = &Hash{Columns: 8, Cross: [][]string{{"a", "b"}}}, new(int64)
		p.Chain.Had = 9
		for t := range p.Stages {
			p.Stages[t].Basis, p.Stages[t].Drawn = []int{1, 3}, []Draw{{Stage: 0, Size: 4}}
		}
		p.Heeded = &Heeded{Entries: 1, Last: "forget/0123456789ab"}
		return p
	}
	before, seen := plan(), 0
	var paths []string
	leaves(reflect.ValueOf(plan()), "", func(at string, _ reflect.Value) { paths = append(paths, at) })
	for _, path := range paths {
		after := plan()
		leaves(reflect.ValueOf(after), "", func(at string, leaf reflect.Value) {
			if at == path {
				change(leaf)
				seen++
			}
		})
		since, submission := strings.HasPrefix(path, ".Since"), path == ".Submission"
		if same := before.Content() == after.Content(); same != (since || submission) {
			t.Errorf("%s: the same content: %v", path, same)
		}
		if same := before.Run() == after.Run(); same != since {
			t.Errorf("%s: the same run: %v", path, same)
		}
	}
	if seen != len(paths) || seen < 50 {
		t.Errorf("%d of %d fields", seen, len(paths))
	}
}

func TestDigestLeavesThePlanAlone(t *testing.T) {
	p := plan()
	p.Sources[0].Spans = coverage.Spans{}
	p.Digest()
	if p.Sources[0].Spans == nil || p.Submission != "drawn" || p.Since.Weights != 5 {
		t.Error("Digest changes the plan")
	}
	q := plan()
	q.Sources[0].Spans = nil
	if p.Digest() != q.Digest() {
		t.Error("nil and empty spans give different digests")
	}
	p.Sources, p.Spans, p.Stages = nil, nil, nil
	q.Sources, q.Spans, q.Stages = []SourceSeal{}, coverage.Spans{}, []Stage{}
	if p.Run() != q.Run() {
		t.Error("nil and empty lists give different runs")
	}
}

func TestJSONThatIsRefused(t *testing.T) {
	plans := func(content string) error {
		_, err := DecodeJSON[Plan](wire.Message{Key: "k", Headers: []wire.Header{{Key: "kind", Value: "plan"}}, Value: []byte(content)})
		return err
	}
	seals := func(content string) error {
		_, err := DecodeJSON[SourceSeal](wire.Message{Key: "k", Headers: []wire.Header{{Key: "kind", Value: "source"}}, Value: []byte(content)})
		return err
	}
	manifests := func(content string) error {
		_, err := DecodeJSON[Manifest](wire.Message{Key: "k", Headers: []wire.Header{{Key: "kind", Value: "manifest"}}, Value: []byte(content)})
		return err
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{plans(``), `plan "k": unexpected end of JSON input`},
		{plans(`{"segment":"x"}`), `plan "k": json: cannot unmarshal string into Go struct field Plan.segment of type int64`},
		{plans(`{"segment":1} x`), `plan "k": invalid character 'x' after top-level value`},
		{plans(`null`), `plan "k": segment is 0, expected at least 1`},
		{plans(`{"segment":-1}`), `plan "k": segment is -1, expected at least 1`},
		{plans(`{"segment":1,"spans":[{"from":0,"to":2},{"from":1,"to":2}]}`), `plan "k": spans [0]@0–2 and [0]@1–2 overlap`},
		{plans(`{"segment":1,"spans":[{"from":-1,"to":2}]}`), `plan "k": span [0]@-1–2: expected a partition below 1048576, and offsets of at least 0`},
		{plans(`{"segment":1,"sources":[{}]}`), `plan "k": partitions is 0, expected at least 1`},
		{plans(`{"segment":1,"classes":["a","b","a"]}`), `plan "k": label "a" occurs twice`},
		{plans(`{"segment":1,"spans":[{"to":1152921504606846976}]}`), `plan "k": more than 2097152 segments of 1 messages: make segments longer`},
		{plans(`{"segment":9,"spans":[{"to":18874368},{"partition":1,"to":1}]}`), `plan "k": more than 2097152 segments of 9 messages: make segments longer`},
		{plans(`{"segment":1,"seed":` + strings.Repeat("9", 300) + `}`), `plan "k": json: cannot unmarshal number ` + strings.Repeat("9", 300) + ` into Go struct field Plan.seed of type uint64`},
		{plans(strings.Repeat("[", 100_000)), `plan "k": invalid character '[' exceeded max depth`},
		{seals(`{"spans":[` + strings.Repeat(`{},`, 300_000) + `{}]}`), `source "k": 900014 bytes, expected at most 900000`},
		{plans(strings.Repeat(" ", wire.MaxDocument+1)), `plan "k": 67108865 bytes, expected at most 67108864`},
		{seals(`{}`), `source "k": partitions is 0, expected at least 1`},
		{seals(`{"partitions":1,"spans":[{"partition":-1}]}`), `source "k": span [-1]@0–0: expected a partition below 1048576, and offsets of at least 0`},
		{manifests(`{}`), `manifest "k": the manifest has no plan`},
		{manifests(`{"plan":{}}`), `manifest "k": segment is 0, expected at least 1`},
	} {
		if !errors.Is(c.err, wire.ErrDamaged) || c.err.Error() != "damaged or foreign bytes: decode "+c.want {
			t.Errorf("%v, expected %s", c.err, c.want)
		}
	}
}

// A process works on a run of its own arithmetic, and of any other if the plan says so and the numeric code is the same.
func TestArithmeticAdmits(t *testing.T) {
	here := Arithmetic{Numerics: "1", Processor: "amd64", BLAS: "OpenBLAS", Vector: "avx2"}
	for _, test := range []struct {
		change func(*Arithmetic)
		want   bool
	}{
		{func(*Arithmetic) {}, true},
		{func(a *Arithmetic) { a.BLAS = "gonum" }, false},
		{func(a *Arithmetic) { a.Processor = "arm64" }, false},
		{func(a *Arithmetic) { a.Any, a.BLAS, a.Vector, a.Processor = true, "gonum", "", "arm64" }, true},
		{func(a *Arithmetic) { a.Any, a.Numerics = true, "2" }, false},
	} {
		plan := here
		test.change(&plan)
		if got := plan.Admits(here); got != test.want {
			t.Errorf("%+v admits %+v: %v", plan, here, got)
		}
	}
}

// A plan has as many stages of each member, one member after the other.
func TestMembers(t *testing.T) {
	p := plan()
	p.Stages = slices.Repeat(p.Stages, 6)
	for _, average := range []int{-1, 1, 4, 7} {
		if p.Average = average; p.Check() == nil {
			t.Errorf("six stages of %d members are a plan", average)
		}
	}
	for average, want := range map[int][3][]int{ // where members begin, where they end, and after which stages some have voted
		0: {{0}, {5}, nil},
		2: {{0, 3}, {2, 5}, {2, 3, 4, 5}},
		6: {{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5}},
	} {
		if p.Average = average; p.Check() != nil {
			t.Errorf("six stages of %d members are no plan", average)
		}
		var got [3][]int
		for s := range p.Stages {
			for i, holds := range []bool{p.BeginsMember(s), p.EndsMember(s), p.Votes(s)} {
				if holds {
					got[i] = append(got[i], s)
				}
			}
			if first := want[0][p.Member(s)]; s < first || s >= first+p.MemberStages() {
				t.Errorf("average %d: stage %d is of member %d", average, s, p.Member(s))
			}
		}
		for i := range got {
			if !slices.Equal(got[i], want[i]) {
				t.Errorf("average %d: %v, expected %v", average, got, want)
			}
		}
	}
}
