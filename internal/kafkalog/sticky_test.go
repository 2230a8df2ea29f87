package kafkalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// checkShares checks the properties of every assignment: complete, disjoint, sorted, even.
func checkShares(t *testing.T, partitions []int, claims map[string]claim, shares map[string][]int) {
	t.Helper()
	var all []int
	smallest, largest := len(partitions), 0
	for m, share := range shares {
		if _, member := claims[m]; !member {
			t.Errorf("%s is not a member", m)
		}
		if !slices.IsSorted(share) {
			t.Errorf("%s has %v", m, share)
		}
		smallest, largest = min(smallest, len(share)), max(largest, len(share))
		all = append(all, share...)
	}
	slices.Sort(all)
	if len(shares) != len(claims) || !slices.Equal(all, partitions) || largest-smallest > 1 {
		t.Errorf("%d partitions among %d: %v", len(partitions), len(claims), shares)
	}
}

// kept counts the partitions that stay with their member.
func kept(held, shares map[string][]int) (n int) {
	for m, share := range shares {
		for _, p := range held[m] {
			if slices.Contains(share, p) {
				n++
			}
		}
	}
	return n
}

// maxKept returns the maximum number of partitions that can stay in an even assignment: for each member up to the smaller
// share, and one more for as many members as get the larger share.
func maxKept(partitions int, members []string, held map[string][]int) (n int) {
	larger := partitions % len(members)
	for _, m := range members {
		n += min(len(held[m]), partitions/len(members))
		if len(held[m]) > partitions/len(members) && larger > 0 {
			n++
			larger--
		}
	}
	return n
}

// Members join, leave, and miss generations, and partitions are added: every assignment is even and moves as few
// partitions as an even one can.
func TestAssignOverGenerations(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		partitions := upTo(random.IntN(60))
		claims := map[string]claim{}
		for generation := range int32(20) {
			for range random.IntN(4) {
				m := fmt.Sprint("m", random.IntN(25))
				if _, member := claims[m]; member {
					delete(claims, m)
				} else {
					claims[m] = claim{}
				}
			}
			if random.IntN(5) == 0 {
				partitions = upTo(len(partitions) + random.IntN(5))
			}
			if len(claims) == 0 {
				continue
			}
			members := slices.Sorted(maps.Keys(claims))
			held := hold(partitions, members, claims)
			shares := assign(partitions, claims)
			checkShares(t, partitions, claims, shares)
			if got, want := kept(held, shares), maxKept(len(partitions), members, held); got != want {
				t.Fatalf("seed %d: %v to %v: %d partitions stay of %d that could", seed, held, shares, got, want)
			}
			random.Shuffle(len(partitions), func(i, j int) { partitions[i], partitions[j] = partitions[j], partitions[i] })
			if again := assign(partitions, claims); !maps.EqualFunc(shares, again, slices.Equal) {
				t.Fatalf("seed %d: %v, then %v", seed, shares, again)
			}
			slices.Sort(partitions)
			for m, share := range shares {
				if random.IntN(10) > 0 { // otherwise the member misses this generation
					claims[m] = claim{Generation: generation, Partitions: share}
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// Members have whole groups, in one range if nobody had any before, and keep them.
func TestAssignGroups(t *testing.T) {
	for _, c := range []struct{ partitions, members, size int }{{1000, 4, 32}, {1000, 7, 32}, {128, 1, 32}, {97, 3, 8}, {1000, 4, 62}} {
		claims := map[string]claim{}
		for i := range c.members {
			claims[fmt.Sprint("m", i)] = claim{}
		}
		shares := assignGroups(c.partitions, claims, c.size)
		var all []int
		for m, share := range shares {
			all = append(all, share...)
			claims[m] = claim{Generation: 1, Partitions: share}
			if share[0]%c.size != 0 || share[len(share)-1]-share[0] != len(share)-1 {
				t.Errorf("%+v: %s has %v", c, m, share)
			}
			if most := c.partitions/c.members + c.size; len(share) > most {
				t.Errorf("%+v: %s has %d partitions, expected at most %d", c, m, len(share), most)
			}
		}
		if slices.Sort(all); !slices.Equal(all, upTo(c.partitions)) {
			t.Errorf("%+v: %v", c, shares)
		}
		if again := assignGroups(c.partitions, claims, c.size); !maps.EqualFunc(again, shares, slices.Equal) {
			t.Errorf("%+v: %v, then %v", c, shares, again)
		}
		delete(claims, "m0")
		for m, share := range assignGroups(c.partitions, claims, c.size) {
			for _, p := range claims[m].Partitions {
				if !slices.Contains(share, p) {
					t.Fatalf("%+v: %s loses partition %d when another leaves", c, m, p)
				}
			}
		}
	}
}

// No claim can make an assignment uneven, or take partitions from a valid claim of a later generation.
func FuzzClaim(f *testing.F) {
	valid := must(json.Marshal(claim{Generation: 3, Partitions: []int{0, 5}}))(f)
	for _, seed := range [][]byte{valid, nil, []byte("null"), []byte("[]"), valid[:len(valid)-3],
		[]byte(`{"generation":1e99,"partitions":[1]}`), []byte(`{"generation":2,"partitions":[-1,1,1,9999999999]}`)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const latest = 1<<31 - 1
		claims := map[string]claim{"valid": {Generation: latest, Partitions: []int{1, 2, 3}}, "fuzz": decodeClaim(data), "other": {}}
		shares := assign(upTo(9), claims)
		checkShares(t, upTo(9), claims, shares)
		if claims["fuzz"].Generation < latest && !slices.Equal(shares["valid"], []int{1, 2, 3}) {
			t.Errorf("the valid claim became %v", shares["valid"])
		}
	})
}
