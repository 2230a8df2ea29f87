package source

import (
	"context"
	"errors"
	"time"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// errGrown means that partitions were added to the topic.
var errGrown = errors.New("partitions were added to the followed topic: reading them too")

// watchEvery is the interval at which the lag of the topic is measured.
const watchEvery = 5 * time.Second

// watch reports the lag of the topic, until ctx ends or partitions are added to the topic.
func (f *Following) watch(ctx context.Context) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		messages, partitions, err := f.waiting.Count(ctx, func(partition int) int64 {
			if partition < len(f.next) {
				return f.next[partition].Load()
			}
			return 0
		})
		if err != nil {
			return err
		}
		f.Recorder.Record(event.SourceLag{Topic: f.Topic, Messages: messages})
		if partitions > len(f.Bounds) {
			return errGrown
		}
		if f.outcomes != nil {
			if partitions, err = f.Log.Partitions(ctx, f.Job.Examples.Outcome.Topic); err != nil {
				return err
			}
			if partitions > len(f.outcomes) {
				return errGrown
			}
		}
		select {
		case <-ticker.C:
		case <-f.caughtUp:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// errOtherIngests means that another process ingests the topic.
var errOtherIngests = errors.New("another process ingests the topic")

// FollowInTurn follows the job's topic while this process is the active member of the consumer group. If the brokers deny
// access to the group, it follows concurrently with others: messages written by several processes count once.
func FollowInTurn(ctx context.Context, p *topics.Pipeline, job topics.Job, rec event.Recorder) error {
	if p.Admin.Embedded() {
		return FollowTopic(ctx, p, job, false, rec)
	}
	group := p.Admin.Join(p.Topics.Ingesters(), p.Topics.Plans)
	defer func() {
		if err := group.Leave(); err != nil {
			event.Notice(rec, "leave the group of ingesters: %v", err)
		}
	}()
	for {
		err := topics.AwaitTurn(ctx, p, group, protocol.RoleIngest, errOtherIngests, nil, rec)
		if err == nil {
			err = followAsOwner(ctx, p, job, group, rec)
		}
		if denied, ok := errors.AsType[*protocol.MembershipError](err); ok {
			event.Notice(rec, "can't find out whether other processes ingest %s, ingesting it anyway: %v", job.Examples.FromTopic, denied)
			return FollowTopic(ctx, p, job, false, rec)
		}
		if !errors.Is(err, errOtherIngests) {
			return err
		}
	}
}

// followAsOwner follows the job's topic until this process is no longer the active one. The error is then errOtherIngests.
func followAsOwner(ctx context.Context, p *topics.Pipeline, job topics.Job, owner protocol.Owner, rec event.Recorder) error {
	following, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() { ended <- FollowTopic(following, p, job, false, rec) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-owner.Changed():
		}
		active, err := protocol.Owns(owner, 0)
		if err == nil && active {
			continue
		}
		if err == nil {
			err = errOtherIngests
		}
		stop(err)
		<-ended
		return err
	}
}
