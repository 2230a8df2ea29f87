package kafkalog

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// claim is what a member sends when it joins its group: its last assignment, and the generation of that assignment. The
// zero claim is that of a new member.
type claim struct {
	Generation int32 `json:"generation"`
	Partitions []int `json:"partitions"`
}

// decodeClaim returns the zero claim for data that it can't decode. At worst, partitions then move unnecessarily.
func decodeClaim(data []byte) claim {
	var c claim
	if json.Unmarshal(data, &c) != nil {
		return claim{}
	}
	return c
}

// assignGroups assigns n partitions as assign does, but in whole groups of size consecutive partitions.
func assignGroups(n int, claims map[string]claim, size int) map[string][]int {
	size = max(size, 1)
	var groups []int
	for first := 0; first < n; first += size {
		groups = append(groups, first)
	}
	shares := assign(groups, claims) // a group is claimed by its first partition
	for m, firsts := range shares {
		all := []int{}
		for _, first := range firsts {
			for p := first; p < min(first+size, n); p++ {
				all = append(all, p)
			}
		}
		shares[m] = all
	}
	return shares
}

// assign assigns partitions to members according to their claims, by member id. The shares differ by at most one
// partition, each list is ascending, and only partitions beyond a member's share move. If two members claim a partition,
// the one with the later generation keeps it: the other missed a rebalance. assign is a pure function, so every leader of
// the group computes the same assignment.
func assign(partitions []int, claims map[string]claim) map[string][]int {
	if len(claims) == 0 {
		return nil
	}
	partitions = slices.Compact(slices.Sorted(slices.Values(partitions)))
	members := slices.Sorted(maps.Keys(claims))
	held := hold(partitions, members, claims)

	// The members with the most partitions get the larger shares, so that the fewest partitions move.
	slices.SortStableFunc(members, func(a, b string) int { return cmp.Compare(len(held[b]), len(held[a])) })
	share := func(i int) int {
		if i < len(partitions)%len(members) {
			return len(partitions)/len(members) + 1
		}
		return len(partitions) / len(members)
	}
	free := held[""]
	shares := make(map[string][]int, len(members))
	for i, m := range members {
		keep := min(len(held[m]), share(i))
		shares[m] = held[m][:keep:keep]
		free = append(free, held[m][keep:]...)
	}
	slices.Sort(free)
	for i, m := range members {
		more := share(i) - len(shares[m])
		shares[m] = append(shares[m], free[:more]...)
		slices.Sort(shares[m])
		free = free[more:]
	}
	return shares
}

// hold returns the partitions of each member whose claim to them has the latest generation, and unclaimed partitions under
// "". All lists keep the order of partitions.
func hold(partitions []int, members []string, claims map[string]claim) map[string][]int {
	holder := make(map[int]string, len(partitions))
	for _, p := range partitions {
		holder[p] = ""
	}
	for _, m := range members {
		for _, p := range claims[m].Partitions {
			if rival, exists := holder[p]; exists && (rival == "" || claims[m].Generation > claims[rival].Generation) {
				holder[p] = m
			}
		}
	}
	held := map[string][]int{}
	for _, p := range partitions {
		held[holder[p]] = append(held[holder[p]], p)
	}
	return held
}
