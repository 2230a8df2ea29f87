//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

func TestCheckVersions(t *testing.T) {
	const titles = "version  run  stages  test error  digest\n"
	for _, test := range []struct {
		list    string
		version int
		run     string
		wrong   string
	}{
		{"1  aaa  7  2 %  x\n", 1, "aaa", ""},
		{"1  aaa  7  2 %  x\n2  bbb  7  2 %  x\n", 2, "bbb", ""},
		{"1  aaa  7  2 %  x\n2  aaa  7  2 %  x\n", 2, "aaa", "version 2"},
		{"1  aaa  7  2 %  x\n1  bbb  7  2 %  x\n", 2, "bbb", "version 2"},
		{"1  aaa  7  2 %  x\n3  bbb  7  2 %  x\n", 3, "bbb", "version 2"},
		{"2  aaa  7  2 %  x\n3  bbb  7  2 %  x\n", 3, "bbb", ""}, // two stay
		{"1  aaa  7  2 %  x\n2  bbb  7  2 %  x\n3  ccc  7  2 %  x\n", 3, "ccc", ""},
		{"3  bbb  7  2 %  x\n", 3, "bbb", "1 versions"},
		{"1  aaa  7  2 %  x\n", 2, "bbb", "version 2"},
		{"1  aaa  7  2 %  x\n", 1, "bbb", "1 versions"},
		{"", 1, "aaa", "0 versions"},
	} {
		err := checkVersions(titles+test.list, test.version, test.run, 2)
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%q: %v, expected %q", test.list, err, test.wrong)
		}
	}
}

func TestSameVersions(t *testing.T) {
	want := []version{{1, false, "[0]", "a"}, {2, true, "[1]", "b"}}
	if err := sameVersions(want, []version{want[0], want[1]}); err != nil {
		t.Error(err)
	}
	for name, got := range map[string][]version{
		"missing": want[:1], "more": {want[0], want[1], {3, true, "[2]", "c"}}, "digest": {want[0], {2, true, "[1]", "c"}},
		"spans": {want[0], {2, true, "[2]", "b"}}, "kind": {want[0], {2, false, "[1]", "b"}}, "none": nil,
	} {
		if sameVersions(want, got) == nil {
			t.Errorf("%s: not seen", name)
		}
	}
}

func TestCompare(t *testing.T) {
	of := func(change func(*schemas.Report)) *schemas.Report {
		r := &schemas.Report{
			Version: 1, Run: "a", Rows: 10, Seconds: 3, WeightsDigest: "d", Stages: []schemas.StageReport{{Seconds: 1, TrainLoss: 0.5}},
			Splits: map[string]schemas.SplitReport{"train": {Rows: 10, Confusion: [][]int64{{5, 0}, {1, 4}}}},
		}
		change(r)
		return r
	}
	base := of(func(*schemas.Report) {})
	if err := compare(base, of(func(r *schemas.Report) {
		r.Version, r.Run, r.Seconds, r.IngestSeconds, r.Stages[0].Seconds = 2, "b", 4, 1, 2
	})); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*schemas.Report){
		"digest":    func(r *schemas.Report) { r.WeightsDigest = "e" },
		"rows":      func(r *schemas.Report) { r.Rows = 11 },
		"loss":      func(r *schemas.Report) { r.Stages[0].TrainLoss = 0.51 },
		"confusion": func(r *schemas.Report) { r.Splits["train"].Confusion[0][1] = 1 },
	} {
		if compare(base, of(change)) == nil {
			t.Errorf("compare does not see another %s", name)
		}
	}
}
