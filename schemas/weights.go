package schemas

import (
	"encoding/json"
	"strconv"

	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindWeights is the kind of a [Weights] record.
const KindWeights wire.Kind = "weights"

// KindStructure is the kind of a [Weights] record with the trees of a stage and no weights. Its visit is the first of the stage.
const KindStructure wire.Kind = "structure"

// Weights has the weights for a visit. Workers begin the visit when the solver has published them.
type Weights struct {
	wire.Identity
	Tensors wire.Tensors[float32] // W, or a calibration, or both
	Final   *Final                // set if the record ends a stage
	Ridge   Ridge                 // ridge of the stage, if chosen by the solver; otherwise 0
	Weight  *Weight               // weight of a class_counts stage, if the record ends it; otherwise nil
	Pass    *PassReport           // result of the pass that the previous visit ended; nil if it ended none
}

// Final identifies the final weights of a stage.
type Final struct {
	Visit  int // visit that measured the loss of these weights
	Passes int // learnt link: number of passes of Algorithm 2 that count; 0 for other links
}

// Notes of weights: for those that end a stage, for stages whose ridge the solver has chosen, and for those that follow a pass.
const (
	noteFinal  = "final"
	notePasses = "links"
	noteRidge  = "ridge"
	notePass   = "pass"
)

// Record makes the record of the weights.
func (w *Weights) Record() *wire.Record[float32] {
	r := &wire.Record[float32]{Identity: w.Identity, Tensors: w.Tensors}
	if w.Final != nil {
		r.Notes = []wire.Header{{Key: noteFinal, Value: strconv.Itoa(w.Final.Visit)}, {Key: notePasses, Value: strconv.Itoa(w.Final.Passes)}}
	}
	if w.Ridge != 0 {
		r.Notes = append(r.Notes, wire.Header{Key: noteRidge, Value: w.Ridge.String()})
	}
	if w.Weight != nil {
		r.Notes = append(r.Notes, wire.Header{Key: statistics.NoteWeight, Value: w.Weight.String()})
	}
	if w.Pass != nil {
		r.Notes = append(r.Notes, wire.Header{Key: notePass, Value: string(wire.JSON(w.Pass))})
	}
	return r
}

// WeightsOf is the inverse of [Weights.Record]. An error wraps [wire.ErrDamaged].
func WeightsOf(r *wire.Record[float32]) (w *Weights, err error) {
	w = &Weights{Identity: r.Identity, Tensors: r.Tensors}
	if ridge := r.Note(noteRidge); ridge != "" {
		if w.Ridge, err = ParseRidge(ridge); err == nil && !(w.Ridge > 0) {
			err = errRidge
		}
		if err != nil {
			return nil, r.Damaged(err)
		}
	}
	if weight := r.Note(statistics.NoteWeight); weight != "" {
		parsed, err := ParseRidge(weight)
		if err == nil && parsed == WeightAuto {
			err = errWeight
		}
		if err != nil {
			return nil, r.Damaged(err)
		}
		w.Weight = &parsed
	}
	if pass := r.Note(notePass); pass != "" {
		if err := json.Unmarshal([]byte(pass), &w.Pass); err != nil {
			return nil, r.Damaged(err)
		}
	}
	if r.Note(noteFinal) == "" {
		return w, nil
	}
	w.Final = &Final{}
	if w.Final.Visit, err = strconv.Atoi(r.Note(noteFinal)); err == nil {
		w.Final.Passes, err = strconv.Atoi(r.Note(notePasses))
	}
	if err != nil {
		return nil, r.Damaged(err)
	}
	return w, nil
}

// EndsStage reports whether a message belongs to a weights record that ends a stage.
func EndsStage(m wire.Message) bool {
	for _, note := range wire.Notes(m) {
		if note.Key == noteFinal {
			return m.Kind() == KindWeights && note.Value != ""
		}
	}
	return false
}
