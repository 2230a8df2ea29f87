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

// Ingested is what a job's files are on the examples topic.
type Ingested struct {
	Seals      []schemas.SourceSeal
	Vocabulary []string                 // of their texts, if it is counted
	Sparse     bool                     // their rows are sparse
	Extent     layout.Extent            // of their sparse rows, if they were made dense
	Retention  topics.ExamplesRetention // of the examples topic
	Took       time.Duration
}

// Reading returns the options with what the files say of how they were read.
func (i *Ingested) Reading(o ingest.Options) ingest.Options {
	o.Words = o.Words.Counting(i.Vocabulary)
	o.Options = o.WithExtent(i.Extent)
	return o
}

// IngestExamples ingests the job's files, or what the topic has now that its examples come from. If the topic no longer
// has what was read last, the operator is told the choice, and nothing more is ingested: a run learns what was read
// before.
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
