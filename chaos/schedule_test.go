//go:build unix

package main

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas"
)

const seeds = 2000

// A schedule is a function of its seed. It has enough faults, in order, at moments that exist, and brokers fail at most once.
func TestScheduleLaws(t *testing.T) {
	const records = 30
	for seed := range uint64(seeds) {
		faults, early, brokers := schedule(seed, records), 0, 0
		if again := schedule(seed, records); !reflect.DeepEqual(faults, again) {
			t.Fatalf("seed %d: %v and %v", seed, faults, again)
		}
		for i, f := range faults {
			if i > 0 && f.at < faults[i-1].at {
				t.Errorf("seed %d: %v comes after %v", seed, f, faults[i-1])
			}
			if f.at < records {
				early++
			}
			if f.kind.ofBrokers() {
				brokers++
			}
			if f.again && f.at > records/4 {
				t.Errorf("seed %d: %v: repeats the command when the run may have ended", seed, f)
			}
			if f.at < 0 || f.at > records || f.after < 0 || f.after > maxAfter || f.lasts < 0 || f.lasts > maxLongStop || f.target < 0 ||
				f.amount < 1 {
				t.Errorf("seed %d: %v", seed, f)
			}
		}
		if early < minFaults || len(faults) > maxFaults+1 {
			t.Errorf("seed %d: %d faults, %d before the last record", seed, len(faults), early)
		}
		if brokers > 1 {
			t.Errorf("seed %d: brokers fail %d times", seed, brokers)
		}
	}
}

// In a long campaign each kind of fault comes in the survey, in each part of a run and at the end.
func TestSchedulesReachEverything(t *testing.T) {
	const records, part = 30, 5
	type where struct {
		kind kind
		part int
	}
	seen, longStops, killed := map[where]int{}, 0, 0
	for seed := range uint64(seeds) {
		for _, f := range schedule(seed, records) {
			seen[where{f.kind, (f.at + part - 1) / part}]++
			if f.lasts >= minLongStop {
				longStops++
			}
			if f.kind == killFront {
				killed++
			}
			if f.at == records {
				seen[where{f.kind, records}]++
			}
		}
	}
	for _, k := range kinds() {
		for _, at := range []int{0, 1, 2, 3, 4, 5, 6, records} {
			if k.weight == 0 || at == records && k.kind.ofBrokers() { // the run would end before the broker's failure has an effect
				continue
			}
			if seen[where{k.kind, at}] == 0 {
				t.Errorf("%s never comes in part %d", k.kind, at)
			}
		}
	}
	if longStops < seeds/10 || killed < seeds/2 {
		t.Errorf("%d schedules stop %d processes for longer than their sessions, and kill %d that submit or retrain", seeds, longStops, killed)
	}
}

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
			Version: 1, Run: "a", Rows: 10, Seconds: 3, WeightsDigest: "d",
			Stages: []schemas.StageReport{{Seconds: 1, Measured: schemas.Measured{TrainLoss: 0.5}}},
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

// Circumstances are a function of the seed, each comes often, and brokers lose messages once in a chain where nothing else happens to them.
func TestCircumstances(t *testing.T) {
	const records = 18
	counts := map[kind]int{}
	for seed := range uint64(seeds) {
		in := circumstancesOf(seed)
		faults := in.schedule(seed, records)
		if again := circumstancesOf(seed); !reflect.DeepEqual(faults, again.schedule(seed, records)) {
			t.Fatalf("seed %d: another schedule the second time", seed)
		}
		for k, of := range map[kind]bool{skewClocks: in.skewed, electBehind: in.behind} {
			if of {
				counts[k]++
			}
		}
		elected, brokers := 0, 0
		for i, f := range faults {
			if i > 0 && f.at < faults[i-1].at {
				t.Errorf("seed %d: %v comes after %v", seed, f, faults[i-1])
			}
			if f.kind == electBehind {
				elected++
				if f.lasts < minBehind || f.lasts > maxBehind || f.at >= records*2/3 {
					t.Errorf("seed %d: %v", seed, f)
				}
			}
			if f.kind.ofBrokers() {
				brokers++
			}
		}
		if elected > 0 != in.behind || brokers > 1 {
			t.Errorf("seed %d: %+v with %v", seed, in, faults)
		}
	}
	for _, k := range []kind{skewClocks, electBehind} {
		if counts[k] < seeds/10 {
			t.Errorf("%s comes in %d of %d chains", k, counts[k], seeds)
		}
	}
}

// shell returns a fleet whose processes run a shell script.
func shell(t *testing.T, script string) *fleet {
	t.Helper()
	folder := t.TempDir()
	program := folder + "/program"
	arrowtest.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	f := newFleet(folder, program, "", nil)
	t.Cleanup(f.close)
	return f
}

func started(t *testing.T, f *fleet) *process {
	t.Helper()
	arrowtest.NoError(t, f.start(worker))
	all := f.all(worker)
	return all[len(all)-1]
}

func TestProcessesThatEndOnTheirOwnAreReported(t *testing.T) {
	f := shell(t, "exit 3")
	arrowtest.NoError(t, f.start(worker))
	if p := <-f.unexpected; p.err == nil || len(f.all(worker)) != 0 {
		t.Errorf("%v, %d are left", p.err, len(f.all(worker)))
	}
}

// A held process is not taken as a target, can be released, and can be killed while it is held.
func TestHeldProcesses(t *testing.T) {
	f := shell(t, "while :; do :; done")
	p := started(t, f)
	p.hold()
	if f.take(worker, 0) != nil {
		t.Error("take returns a held process")
	}
	p.release()
	if f.take(worker, 0) != p {
		t.Error("take does not return a released process")
	}
	p.hold()
	f.kill(p)
	p.release() // the process has ended
	if len(f.unexpected) != 0 {
		t.Error("a killed process is reported")
	}
}

func TestLeaving(t *testing.T) {
	for script, wrong := range map[string]string{
		"trap 'exit 0' TERM; echo ready; while :; do :; done": "",
		"trap 'exit 4' TERM; echo ready; while :; do :; done": "exit status 4",
	} {
		f := shell(t, script)
		p := started(t, f)
		for ready := false; !ready; {
			content := arrowtest.Must(os.ReadFile(p.log))(t)
			ready = len(content) > 0
		}
		err := f.leave(p)
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v, expected %q", script, err, wrong)
		}
	}
}
