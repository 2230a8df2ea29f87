// Package trial lists the candidates of a search:
//
//	configuration, keys with values ──List──▶ a candidate for each combination
package trial

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stagewise/stagewise/cmd/stagewise/screen"
	"github.com/stagewise/stagewise/config"
)

// maxCandidates is more runs than anybody waits for.
const maxCandidates = 10_000

// List returns the configurations of a search over keys of a file, which set overrides: all combinations of the values, the last key
// first, or, if random > 0, as many that are drawn without repetition, in the same order.
func List(file string, set, over []string, random int, seed uint64) (list []screen.Candidate, err error) {
	combinations := 1
	keys := make([]config.Over, len(over))
	for i, text := range over {
		if keys[i], err = config.ParseOver(text); err != nil {
			return nil, err
		}
		if combinations *= len(keys[i].Values); combinations > maxCandidates {
			return nil, fmt.Errorf("--over: more than %d combinations: expected fewer keys or values", maxCandidates)
		}
	}
	if random < 0 {
		return nil, fmt.Errorf("--random: %d: expected a number of combinations, or 0 for all", random)
	}
	chosen := rand.New(rand.NewPCG(seed, 0)).Perm(combinations)
	if random > 0 && random < combinations {
		chosen = chosen[:random]
	}
	slices.Sort(chosen)
	for _, n := range chosen {
		var tried []string
		for _, key := range slices.Backward(keys) {
			tried = append(tried, key.Key+"="+key.Values[n%len(key.Values)])
			n /= len(key.Values)
		}
		slices.Reverse(tried)
		c, err := config.Load(file, set, tried...)
		if err != nil {
			return nil, err
		}
		list = append(list, screen.Candidate{Config: c, Set: tried})
	}
	return list, nil
}
