package worker

import (
	"runtime"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Rows and blocks can be read or computed again; the matrices of a fit can't. So the worker reserves memory for them. The
// numbers were measured in a process with both roles on the embedded broker and `memory: 1MB`: its peak minus that with
// small matrices.
const (
	// factors is the number of p × p matrices of float64 during the fit of a stage: its factor, that of the previous stage,
	// whose memory the next factor reuses, and the matrix to factor. All belong to the solver.
	factors = 3
	// gramMatrices is the number while the matrix of a stage is summed: tiles and sums of both cores, records, messages.
	gramMatrices = 3
	// termMatrices is the number of p × k matrices of float64 for the terms of increments in a full run of a chain: two in
	// each outcome that waits for its turn, and the tiles of both cores.
	termMatrices = 16
	// segmentScores is the number of n × k matrices of float32 for the n rows of a segment whose residuals are published: scores
	// after the stage, and the message with scores and residuals, whose buffer grows.
	segmentScores = 5
	// minSegmentScores is the minimum size in bytes of the scores of a segment for which memory is reserved.
	minSegmentScores = 16 << 20
)

// matrices returns the memory of the run's matrices in bytes, for its largest stage, once the survey has determined the numbers of columns
// and classes.
func (w *Worker) matrices() (most int64, err error) {
	grams := int64(gramMatrices)
	if w.options.Solves {
		grams += factors
	}
	terms, kept := w.matricesOfTerms()
	all := int64(0) // kept by the solver for all stages
	for t := range w.Plan.Stages {
		stage, err := w.chain.Stage(t)
		if err != nil {
			return 0, err
		}
		p, k := int64(stage.Features.Size()), int64(stage.Classes)
		if stage.Features.Sparse() {
			if err := protocol.CheckSparse(w.MatrixBytes, p, k, w.options.Solves); err != nil {
				return 0, err
			}
			most = max(most, protocol.SparseBytes(p, k, w.options.Solves))
			continue
		}
		most = max(most, 8*(grams*p*p+terms*p*k))
		all += 8 * kept * p * k
	}
	if scores := w.scoresOfSegment(); scores >= minSegmentScores {
		all += scores * int64(runtime.GOMAXPROCS(0)+w.publications())
	}
	return most + all, nil
}

// scoresOfSegment returns the memory in bytes for the scores of a segment whose residuals are published.
func (w *Worker) scoresOfSegment() (bytes int64) {
	if w.Plan.Update() != nil { // it publishes none
		return 0
	}
	rows := int64(0)
	for _, c := range w.chain.Survey.Covered {
		if c.Messages > 0 {
			rows = max(rows, (c.Rows*min(w.Plan.Segment, c.Messages)+c.Messages-1)/c.Messages)
		}
	}
	matrices := int64(segmentScores)
	if w.Plan.Members() > 1 {
		matrices += 2 // votes
	}
	return 4 * matrices * rows * int64(w.Plan.Augment.Rows()) * int64(w.chain.Prepared.Labels.Len())
}

// publications returns the number of shares whose residuals are written concurrently.
func (w *Worker) publications() int {
	return int(min(max(maxPublicationBytes/max(w.scoresOfSegment(), 1), 1), maxPublications))
}

// reserveFound reserves the memory for the matrices of the columns and labels that the survey has found in a share so
// far, if the cache lacks it.
func (w *Worker) reserveFound(columns, labels int) {
	need := protocol.SparseBytes(int64(columns), int64(labels), w.options.Solves)
	if need <= w.reserved || w.Cache.Has(need-w.reserved) {
		return
	}
	w.Cache.Give(w.reserved)
	w.reserved = need
	w.Cache.Reserve(need)
}

// matricesOfTerms returns the number of p × k matrices for the terms of increments in a run of a chain: during a stage,
// and after it until the end of the run.
func (w *Worker) matricesOfTerms() (stage, kept int64) {
	u := w.Plan.Update()
	switch {
	case w.Plan.Chain == nil:
		return 0, 0
	case u == nil:
		increments := int64(max(len(w.Plan.Chain.Increments), 1)) // of a share that is summed, and of one that is written
		stage, kept = termMatrices+2*2*increments, 2*increments
	default: // a worker has them as sums and as a record, the solver as before and after the run
		visited := int64(1 + len(u.Refresh))
		stage, kept = 4*visited, 4*visited+2*int64(len(u.Leave))
	}
	if !w.options.Solves {
		kept = 0
	}
	return stage, kept
}

// reserve reserves the memory for the matrices of the run, before its first visit to a stage. If the budget is too small, it drops blocks
// of earlier runs.
func (w *Worker) reserve() error {
	if w.measured {
		return nil
	}
	need, err := w.matrices()
	if err != nil {
		return err
	}
	w.measured = true
	w.Cache.Give(w.reserved)
	w.reserved = need
	if w.Cache.Reserve(need) {
		return nil
	}
	for _, p := range w.shares {
		p.DropBlocks(w.Cache)
	}
	if w.Cache.Has(0) {
		return nil
	}
	if scores := w.scoresOfSegment(); scores >= minSegmentScores && 2*scores*int64(runtime.GOMAXPROCS(0)) > need {
		event.Notice(w.rec, "memory: this run needs about %s, of which the scores of a segment take %s for each core: set segment or "+
			"examples.batch_rows to a smaller number", humanize.IBytes(uint64(need)), humanize.IBytes(uint64(scores)))
	} else {
		event.Notice(w.rec, "memory: the matrices of this run take about %s, so no rows stay in memory: each pass reads them again",
			humanize.IBytes(uint64(need)))
	}
	return nil
}

// made returns the dependencies of the run's batches other than their messages. The survey's result must be accepted.
func (w *Worker) made() visit.Made {
	type block struct {
		Features          schemas.Features
		Scores, Intercept bool
		Structure         wire.Digest
	}
	blocks := make([]block, len(w.Plan.Stages))
	for t, stage := range w.Plan.Stages {
		blocks[t] = block{stage.Features, stage.Scores, w.Plan.Intercept && w.Plan.BeginsMember(t), w.chain.Trees(t)}
	}
	var weights []float64 // of increments
	if w.Plan.Chain != nil {
		for i := range w.Plan.Chain.Increments {
			weights = append(weights, w.Plan.Chain.Increments[i].Weight)
		}
	}
	if !slices.ContainsFunc(weights, func(w float64) bool { return w != 1 }) {
		weights = nil
	}
	preparation := wire.Record[float32]{Tensors: w.chain.Survey.Preparation}
	return visit.Made{
		Rows: wire.DigestJSON([]any{preparation.Digest(), w.Plan.Prepare, w.Plan.Holdout, w.Plan.Seed, w.Plan.Arithmetic, weights,
			w.Plan.Forgotten, w.Plan.Augment, w.Plan.Members() > 1, w.Plan.Fold}),
		Blocks: wire.DigestJSON(blocks),
	}
}

// reuse restores the batches of an earlier run to shares.
func (w *Worker) reuse(shares []*visit.Share) {
	made := w.made()
	for _, p := range shares {
		w.Cache.Return(p, made, w.Plan.Chain != nil)
	}
}

// leave stores the batches for the next run. The block of a stage with scores among its features is valid only in this
// run.
func (w *Worker) leave() {
	if w.chain.Survey == nil {
		return
	}
	made := w.made()
	for _, p := range w.shares {
		w.Cache.Leave(p, made, func(stage int) bool { return !w.Plan.Stages[stage].Scores })
	}
}
