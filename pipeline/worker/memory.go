package worker

import (
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// Rows and blocks can be read or computed again, the matrices that a stage is fitted with can't. So the worker sets
// memory for them aside. The numbers are of a process with both roles on the embedded broker, given `memory: 1MB`: its
// peak without what it takes for small matrices.
const (
	// factors is how many p × p matrices of float64 are in memory as long as a stage is fitted: its factor, that of the
	// stage before, which the next factor takes the memory of, and what the factor is made of. All are the solver's.
	factors = 3
	// gramMatrices is how many more there are in a stage's first visit: tiles and sums of both cores, records, messages.
	gramMatrices = 3
	// crossMoments is how many p × k matrices of float64 the gradient and the weights of sparse rows take, as sums, records and messages.
	crossMoments = 6
	// solverMoments is how many more the solver takes: of conjugate gradients the minimum, its gradient, the step before
	// and its product, of L-BFGS at least a pair of steps.
	solverMoments = 8
	// termMatrices is how many p × k matrices of float64 take the terms of increments in a full run of a chain: two in
	// each outcome that waits for its turn, the tiles of both cores, and those of the increment that is summed and of the
	// one that is written.
	termMatrices = 16
)

// matrices is how many bytes those of a run take, of the stage that has the largest.
type matrices struct {
	always int64
	first  int64 // what the first visit to a stage takes besides
}

// measured returns the size of the run's matrices, once the survey has found how many columns and classes there are.
func (w *Worker) measured() (m matrices, err error) {
	cross, solver := int64(crossMoments), int64(0)
	if w.options.Solves {
		cross, solver = crossMoments+solverMoments, factors
	}
	terms, kept := w.matricesOfTerms()
	all := int64(0) // that the solver keeps of all stages
	for t := range w.plan.Stages {
		stage, err := w.chain.Stage(t)
		if err != nil {
			return m, err
		}
		p, k := int64(stage.Features.Size()), int64(stage.Classes)
		if stage.Features.Sparse() {
			m.always = max(m.always, 8*cross*p*k)
			continue
		}
		m.always, m.first = max(m.always, 8*(solver*p*p+terms*p*k)), max(m.first, 8*gramMatrices*p*p)
		all += 8 * kept * p * k
	}
	m.always += all
	return m, nil
}

// matricesOfTerms returns how many p × k matrices of float64 the terms of increments take in a run of a chain: at a
// stage, and after it until the run has ended.
func (w *Worker) matricesOfTerms() (stage, kept int64) {
	u := w.plan.Update()
	switch {
	case w.plan.Chain == nil:
		return 0, 0
	case u == nil:
		places := w.plan.Chain.TermsPlaces()
		slices.Sort(places)
		stage, kept = termMatrices, 2*int64(len(slices.Compact(places)))
	default: // a worker has them as sums and as a record, the solver as they were and as they are
		visited := int64(1 + len(u.Refresh))
		stage, kept = 4*visited, 4*visited+2*int64(len(u.Leave))
	}
	if !w.options.Solves {
		kept = 0
	}
	return stage, kept
}

// reserve sets aside what the matrices of a visit take. If the budget has less, blocks of the stage before and messages
// that are not decoded yet go.
func (w *Worker) reserve(v protocol.Visit) error {
	known := w.matrices != nil
	if !known {
		m, err := w.measured()
		if err != nil {
			return err
		}
		w.matrices = &m
	}
	need := w.matrices.always
	if v.Number == 0 || w.plan.Update() != nil {
		need += w.matrices.first
	}
	if need == w.reserved {
		return nil
	}
	w.budget.Give(w.reserved)
	w.reserved = need
	if w.budget.Reserve(need) {
		return nil
	}
	for _, p := range w.partitions {
		p.DropBlocks(w.budget)
		p.DropMessages(w.budget)
	}
	if !known && !w.budget.Has(0) {
		event.Notice(w.rec, "memory: the matrices of this run take about %s, so no rows stay in memory: each pass reads them again",
			humanize.IBytes(uint64(need)))
	}
	return nil
}
