package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// AfterChain returns the options of files whose rows a chain of versions learns after others: they are laid out like those. Without a
// chain, or without files, it returns the options as they are. No row of a chain may be on the topic twice, as a chain learns all of it.
func AfterChain(ctx context.Context, p *topics.Pipeline, o ingest.Options) (ingest.Options, error) {
	if len(o.Train)+len(o.Test) == 0 {
		return o, nil
	}
	m, err := p.Model(ctx, protocol.Latest)
	switch {
	case errors.As(err, new(*protocol.NoVersionError)) || protocol.IsIncomplete(err):
		return o, nil
	case err != nil:
		return o, fmt.Errorf("read what the chain has learnt: %w", err)
	case m.Manifest.Plan.Chain == nil:
		return o, nil
	}
	p.Remember(m) // the next run goes on from it, if it is the newest of the chain
	o = o.CountingOnce()
	o.Options = o.After(&layout.Learnt{Version: m.Manifest.Version, Sparse: m.Sparse(), Width: m.Width(), Columns: m.Columns(),
		First: m.Manifest.Plan.Input.FirstIndex})
	return o, nil
}
