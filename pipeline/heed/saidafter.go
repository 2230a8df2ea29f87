package heed

import (
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// SaidAfter returns the positions from which to follow changes to the set of training examples: seals and removals of
// sources, and forgotten rows. sealed and f are the state so far.
func SaidAfter(p *topics.Pipeline, sealed *protocol.Ledger, f *Forgotten) (positions []protocol.Position) {
	switch {
	case p.Foreign == nil:
		positions = append(positions, protocol.Position{Topic: p.Topics.Plans, Offset: sealed.Next, Compacted: true})
	case p.Foreign.Owner != nil && sealed.Next > 0: // otherwise the topic may not exist
		positions = append(positions, protocol.Position{Topic: p.Foreign.Owner.Topics.Plans, Offset: sealed.Next, Compacted: true})
	}
	if f.exists {
		positions = append(positions, protocol.Position{Topic: topics.ForgetTopic(p), Offset: f.next, Compacted: true})
	}
	return positions
}
