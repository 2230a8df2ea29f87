package heed

import (
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// SaidAfter returns from where to read what may change which of the examples count: seals and removals of sources, and
// rows to forget. sealed and f say what does now.
func SaidAfter(p *topics.Pipeline, sealed *protocol.Ledger, f *Forgotten) (positions []protocol.Position) {
	switch {
	case p.Archive == nil:
		positions = append(positions, protocol.Position{Topic: p.Topics.Plans, Offset: sealed.Next, Compacted: true})
	case p.Archive.Owner != nil && sealed.Next > 0: // else there may be no such topic
		positions = append(positions, protocol.Position{Topic: p.Archive.Owner.Topics.Plans, Offset: sealed.Next, Compacted: true})
	}
	if f.exists {
		positions = append(positions, protocol.Position{Topic: topics.ForgetTopic(p), Offset: f.next, Compacted: true})
	}
	return positions
}
