package source

import (
	"context"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/pipeline/event"
)

const (
	firstWait = time.Second      // before a schema registry that did not answer is asked again; each time after that waits twice as long
	maxWait   = 30 * time.Second // but no longer than this
	saidAfter = 20               // so many waits after an operator was told, it is told again
)

// whileAway calls read, again and again as long as a schema registry does not answer: no message is to blame for that. before is called
// before the first wait.
func (f *Following) whileAway(ctx context.Context, before func() error, read func() error) error {
	err := read()
	if _, away := ingest.Unusable(err); err == nil || !away {
		return err
	}
	if err := before(); err != nil {
		return err
	}
	said := f.away.Add(1) == 1 // of all that wait, one says so
	defer f.away.Add(-1)
	for pause, waits := firstWait, 0; ; pause, waits = min(2*pause, maxWait), waits+1 {
		_, away := ingest.Unusable(err)
		switch {
		case err != nil && away && ctx.Err() == nil:
		case said && ctx.Err() == nil:
			event.Notice(f.Recorder, "the schema registry answers again: continuing with %s", f.Topic)
			return err
		default:
			return err
		}
		if said && waits%saidAfter == 0 {
			event.Notice(f.Recorder, "%s waits for the schema registry; no message is skipped: %v", f.Topic, err)
		}
		if err := f.Pause(ctx, pause); err != nil {
			return err
		}
		err = read()
	}
}

// pause waits until a time has passed, or the context ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
