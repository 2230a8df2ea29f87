package main

import (
	"context"
	"time"

	"github.com/stagewise/stagewise/client"
	"github.com/stagewise/stagewise/pipeline/event"
)

// versionPatience is how long a process that has begun waits for its first version before it says that there is none:
// to read one takes a moment.
const versionPatience = time.Second

// tellVersions says which version predicts, and that there is none, whenever that changes, until ctx ends or stop is called.
func tellVersions(ctx context.Context, follower *client.Follower, recorder event.Recorder) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		changed := follower.Changed()
		if follower.Model() == nil {
			timer := time.NewTimer(versionPatience)
			defer timer.Stop()
			select {
			case <-changed:
			case <-timer.C:
			case <-ctx.Done():
				return
			}
		}
		for {
			changed := follower.Changed()
			recorder.Record(answers(follower))
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-told
	}
}

// answers says which version predicts now.
func answers(follower *client.Follower) event.Answers {
	for {
		if m := follower.Model(); m != nil {
			return event.Answers{Version: m.Manifest.Version}
		}
		if why := follower.Stale(); why != nil { // else a version has come since
			return event.Answers{Why: why}
		}
	}
}
