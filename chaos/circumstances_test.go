//go:build unix

package main

import (
	"reflect"
	"testing"
)

// Circumstances are a function of the seed, each comes often, and brokers lose messages once in a chain where nothing else happens to them.
func TestCircumstances(t *testing.T) {
	visits := []int{6, 6, 6}
	counts := map[kind]int{}
	for seed := range uint64(seeds) {
		in := circumstancesOf(seed)
		faults := in.schedule(seed, visits)
		if again := circumstancesOf(seed); !reflect.DeepEqual(faults, again.schedule(seed, visits)) {
			t.Fatalf("seed %d: another schedule the second time", seed)
		}
		for k, of := range map[kind]bool{brokerDown: in.down, skewClocks: in.skewed, electBehind: in.behind} {
			if of {
				counts[k]++
			}
		}
		if in.down && in.behind {
			t.Errorf("seed %d: %+v", seed, in)
		}
		elected, brokers := 0, 0
		for i, f := range faults {
			if i > 0 && f.at.before(faults[i-1].at) {
				t.Errorf("seed %d: %v comes after %v", seed, f, faults[i-1])
			}
			if f.kind == electBehind {
				elected++
				if f.lasts < minBehind || f.lasts > maxBehind || f.at.stage >= len(visits)-1 {
					t.Errorf("seed %d: %v", seed, f)
				}
			}
			if f.kind.ofBrokers() {
				brokers++
			}
		}
		if elected > 0 != in.behind || brokers > 1 || in.down && brokers > 0 {
			t.Errorf("seed %d: %+v with %v", seed, in, faults)
		}
	}
	for _, k := range []kind{brokerDown, skewClocks, electBehind} {
		if counts[k] < seeds/10 {
			t.Errorf("%s comes in %d of %d chains", k, counts[k], seeds)
		}
	}
}
