package source

import (
	"context"
	"errors"
	"time"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// Ingested is the job's files on the examples topic.
type Ingested struct {
	Seals      []schemas.SourceSeal
	Vocabulary []string                 // of text columns, if words are counted
	Sparse     bool                     // the rows are sparse
	Extent     layout.Extent            // of sparse rows that were converted to dense ones
	Retention  topics.ExamplesRetention // of the examples topic
	Took       time.Duration
}

// Reading returns the options with the properties detected in the files.
func (i *Ingested) Reading(o ingest.Options) ingest.Options {
	o.Words = o.Words.Counting(i.Vocabulary)
	o.Found.Extent = i.Extent
	return o
}

// IngestExamples ingests the job's files, or the current messages of its source topic. If the topic no longer has the last
// message that was read, it notifies the operator and ingests nothing more: a run trains on the rows read before.
func IngestExamples(ctx context.Context, p *topics.Pipeline, job topics.Job, rec event.Recorder) (*Ingested, error) {
	began := time.Now()
	files, err := IngestFiles(ctx, p, job, rec)
	if err != nil || job.Examples.FromTopic == "" {
		return files, err
	}
	err = FollowTopic(ctx, p, job, true, rec)
	if changed, ok := errors.AsType[*ChangedTopicError](err); ok {
		event.Notice(rec, "%v", changed)
	} else if err != nil {
		return nil, err
	}
	files.Took = time.Since(began)
	return files, nil
}

// IngestFiles ingests the job's files.
func IngestFiles(ctx context.Context, p *topics.Pipeline, job topics.Job, rec event.Recorder) (*Ingested, error) {
	began := p.Clock.Now()
	r, err := topics.CheckRetention(ctx, p, rec)
	if err != nil {
		return nil, err
	}
	files, err := Files(ctx, p, job, r, rec)
	if err != nil {
		return nil, err
	}
	files.Took = p.Clock.Since(began)
	return files, nil
}
