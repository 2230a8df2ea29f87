package kafkalog

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// claim is what a member says of itself when it joins its group: the partitions that it was given last, and by which
// generation of the group. The zero claim is that of a newcomer.
type claim struct {
	Generation int32 `json:"generation"`
	Partitions []int `json:"partitions"`
}

func (c claim) encode() ([]byte, error) { return json.Marshal(c) }

// decodeClaim takes what it can't read for a newcomer's: at worst partitions move that could have stayed.
func decodeClaim(data []byte) claim {
	var c claim
	if json.Unmarshal(data, &c) != nil {
		return claim{}
	}
	return c
}

// assign divides partitions among the members that claim some of them, by member id. The shares differ by one at most, each
// list ascends, and no partition moves that need not: a member gives up only what is over its share. Of two members that
// claim a partition the one of the later generation has it, as the other missed a generation that gave it away. It is a
// pure function, so whoever leads the group finds the same.
func assign(partitions []int, claims map[string]claim) map[string][]int {
	if len(claims) == 0 {
		return nil
	}
	partitions = slices.Compact(slices.Sorted(slices.Values(partitions)))
	members := slices.Sorted(maps.Keys(claims))
	held := hold(partitions, members, claims)

	// The larger shares go to those that hold most, which moves least.
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

// hold returns the partitions by the member whose claim to them is the best, and under "" those that nobody claims. Both
// lists are in order.
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
