package kafkalog

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// claim is what a member sends when it joins its group: its last assignment, and the generation of that assignment. The
// zero claim is that of a new member.
type claim struct {
	generation int32
	partitions []int
}

// encode returns the metadata of a member: of version 1, which kafka-go decodes, and so with the generation in the user data.
func (c claim) encode(topic string) []byte {
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Version, metadata.Topics = 1, []string{topic}
	metadata.UserData = binary.BigEndian.AppendUint32(nil, uint32(c.generation))
	owned := kmsg.NewConsumerMemberMetadataOwnedPartition()
	owned.Topic = topic
	for _, p := range c.partitions {
		owned.Partitions = append(owned.Partitions, int32(p))
	}
	metadata.OwnedPartitions = append(metadata.OwnedPartitions, owned)
	return metadata.AppendTo(nil)
}

// decodeClaim returns the claim in the metadata of a member; the zero claim for metadata that it can't decode. At worst, partitions then
// move unnecessarily.
func decodeClaim(encoded []byte, topic string) (c claim) {
	metadata := kmsg.NewConsumerMemberMetadata()
	if metadata.ReadFrom(encoded) != nil || len(metadata.UserData) != 4 {
		return claim{}
	}
	c.generation = int32(binary.BigEndian.Uint32(metadata.UserData))
	for _, owned := range metadata.OwnedPartitions {
		for _, p := range owned.Partitions {
			if owned.Topic == topic {
				c.partitions = append(c.partitions, int(p))
			}
		}
	}
	return c
}

// assign assigns n partitions to members according to their claims, by member id, in groups of size consecutive partitions. A group is
// claimed by its first partition. The shares differ by at most one group, each list is ascending, and only groups beyond a member's share
// move. If two members claim a group, the one with the later generation keeps it: the other missed a rebalance. assign is a pure
// function, so every leader computes the same assignment.
func assign(n, size int, claims map[string]claim) map[string][]int {
	size = max(size, 1)
	members := slices.Sorted(maps.Keys(claims))
	holders := make([]string, (n+size-1)/size) // by group; "": none
	for _, m := range members {
		for _, p := range claims[m].partitions {
			if p < 0 || p >= n || p%size != 0 {
				continue
			}
			if holder := &holders[p/size]; *holder == "" || claims[m].generation > claims[*holder].generation {
				*holder = m
			}
		}
	}
	held := map[string][]int{}
	for group, m := range holders {
		held[m] = append(held[m], group)
	}
	// The members with the most groups get the larger shares, so that the fewest groups move.
	slices.SortStableFunc(members, func(a, b string) int { return cmp.Compare(len(held[b]), len(held[a])) })
	free := held[""]
	missing := map[string]int{}
	for i, m := range members {
		share := (len(holders) + len(members) - 1 - i) / len(members)
		keep := min(len(held[m]), share)
		missing[m] = share - keep
		free = append(free, held[m][keep:]...)
		held[m] = held[m][:keep:keep]
	}
	slices.Sort(free)
	shares := make(map[string][]int, len(members))
	for _, m := range members {
		groups := append(held[m], free[:missing[m]]...)
		free = free[missing[m]:]
		slices.Sort(groups)
		shares[m] = []int{}
		for _, group := range groups {
			for p := group * size; p < min((group+1)*size, n); p++ {
				shares[m] = append(shares[m], p)
			}
		}
	}
	return shares
}
