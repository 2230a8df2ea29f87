package source

import (
	"context"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/pipeline/event"
)

const (
	firstWait = time.Second      // first wait before a request to an unavailable schema registry is retried; doubled each time
	maxWait   = 30 * time.Second // maximum wait
	saidAfter = 20               // number of waits after which the operator is notified again
)

// whileAway calls read, and retries it while the schema registry is unavailable, since no message is at fault. before is
// called before the first wait.
func (f *Following) whileAway(ctx context.Context, before func() error, read func() error) error {
	err := read()
	if _, away := ingest.Unusable(err); !away {
		return err
	}
	if err := before(); err != nil {
		return err
	}
	said := f.away.Add(1) == 1 // only the first of all waiting feeds reports it
	defer f.away.Add(-1)
	for pause, waits := firstWait, 0; ; pause, waits = min(2*pause, maxWait), waits+1 {
		if said && waits%saidAfter == 0 {
			event.Notice(f.Recorder, "%s waits for the schema registry; no message is skipped: %v", f.Topic, err)
		}
		if err := f.Pause(ctx, pause); err != nil {
			return err
		}
		err = read()
		if _, away := ingest.Unusable(err); away && ctx.Err() == nil {
			continue
		}
		if said && ctx.Err() == nil {
			event.Notice(f.Recorder, "the schema registry answers again: continuing with %s", f.Topic)
		}
		return err
	}
}
