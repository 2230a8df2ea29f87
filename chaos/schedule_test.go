//go:build unix

package main

import (
	"reflect"
	"testing"

	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// trained returns the stages of the runs of `make chaos`.
func trained(t *testing.T) []schemas.Stage {
	t.Helper()
	c := arrowtest.Must(config.Load("digits.yaml", nil))(t)
	return c.Job().Stages
}

const seeds = 2000

// A schedule is a function of its seed. It has enough faults, in order, at moments that exist, and brokers fail at most once.
func TestScheduleLaws(t *testing.T) {
	stages := trained(t)
	for seed := range uint64(seeds) {
		faults, early, brokers := schedule(seed, kinds(), visitsOf(stages)), 0, 0
		if again := schedule(seed, kinds(), visitsOf(stages)); !reflect.DeepEqual(faults, again) {
			t.Fatalf("seed %d: %v and %v", seed, faults, again)
		}
		for i, f := range faults {
			if i > 0 && f.at.before(faults[i-1].at) {
				t.Errorf("seed %d: %v comes after %v", seed, f, faults[i-1])
			}
			switch s := f.at.stage; {
			case s == len(stages):
				if f.at.visit != 0 {
					t.Errorf("seed %d: %v", seed, f)
				}
			case s == wire.Survey:
				early++
			default:
				early++
				if f.at.visit >= visits(stages[s]) {
					t.Errorf("seed %d: %v: the stage has %d visits", seed, f, visits(stages[s]))
				}
			}
			if f.kind.ofBrokers() {
				brokers++
			}
			if f.again && f.at.stage > 0 {
				t.Errorf("seed %d: %v: repeats the command when the run may have ended", seed, f)
			}
			if f.after < 0 || f.after > maxAfter || f.lasts < 0 || f.lasts > maxLongStop || f.target < 0 || f.amount < 1 {
				t.Errorf("seed %d: %v", seed, f)
			}
		}
		if early < minFaults || len(faults) > maxFaults+1 {
			t.Errorf("seed %d: %d faults, %d before the end of the last stage", seed, len(faults), early)
		}
		if brokers > 1 {
			t.Errorf("seed %d: brokers fail %d times", seed, brokers)
		}
	}
}

// In a long campaign each kind of fault comes in the survey, in each stage and at the end.
func TestSchedulesReachEverything(t *testing.T) {
	stages := trained(t)
	type where struct {
		kind  kind
		stage int
	}
	seen, longStops := map[where]int{}, 0
	for seed := range uint64(seeds) {
		for _, f := range schedule(seed, kinds(), visitsOf(stages)) {
			seen[where{f.kind, f.at.stage}]++
			if f.lasts >= minLongStop {
				longStops++
			}
		}
	}
	for _, k := range kinds() {
		for stage := wire.Survey; stage <= len(stages); stage++ {
			if stage == len(stages) && k.kind.ofBrokers() {
				continue // the run would end before the broker's failure has an effect
			}
			if seen[where{k.kind, stage}] == 0 {
				t.Errorf("%s never comes in stage %d", k.kind, stage)
			}
		}
	}
	if longStops < seeds/10 {
		t.Errorf("%d of %d schedules stop a process for longer than its session", longStops, seeds)
	}
}

// In a campaign of chains the processes that retrain are killed, and stopped for longer than their sessions.
func TestSchedulesOfChainsReachRunners(t *testing.T) {
	killed, stopped := 0, 0
	for seed := range uint64(seeds) {
		for _, f := range schedule(seed, chainKinds(), []int{6, 6, 6}) {
			switch {
			case f.kind == killSubmitter:
				killed++
			case f.kind == stopSubmitter && f.lasts >= minLongStop:
				stopped++
			}
		}
	}
	if killed < seeds/2 || stopped < seeds/10 {
		t.Errorf("%d kills and %d long stops in %d schedules", killed, stopped, seeds)
	}
}
