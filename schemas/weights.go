package schemas

import "strconv"

// KindWeights is the kind of [Weights].
const KindWeights Kind = "weights"

// Weights are what a solver publishes for a visit: the barrier between two visits.
type Weights struct {
	Identity
	Tensors Tensors[float32] // W, or a calibration, or both
	Final   *Final           // set in the record that ends a stage
}

// Final says which weights a stage ends with.
type Final struct {
	Visit  int // the visit whose loss the weights have
	Passes int // of a learnt link: how many passes of Algorithm 2 count; 0 for other links
}

// The notes of weights that end a stage.
const (
	noteFinal  = "final"
	notePasses = "links"
)

// Record encodes the weights.
func (w *Weights) Record() *Record[float32] {
	r := &Record[float32]{Identity: w.Identity, Tensors: w.Tensors}
	if w.Final != nil {
		r.Notes = []Header{{noteFinal, strconv.Itoa(w.Final.Visit)}, {notePasses, strconv.Itoa(w.Final.Passes)}}
	}
	return r
}

// WeightsOf decodes weights. Errors wrap ErrDamaged.
func WeightsOf(r *Record[float32]) (w *Weights, err error) {
	w = &Weights{Identity: r.Identity, Tensors: r.Tensors}
	if r.Note(noteFinal) == "" {
		return w, nil
	}
	w.Final = &Final{}
	if w.Final.Visit, err = strconv.Atoi(r.Note(noteFinal)); err == nil {
		w.Final.Passes, err = strconv.Atoi(r.Note(notePasses))
	}
	if err != nil {
		return nil, r.damaged(err)
	}
	return w, nil
}

// EndsStage reports whether a message is of weights that end a stage.
func EndsStage(m Message) bool {
	for _, note := range notes(m) {
		if note.Key == noteFinal {
			return m.Kind() == KindWeights && note.Value != ""
		}
	}
	return false
}

func weightsLayout() Layout {
	return Layout{
		Kind: KindWeights, Topic: "weights", Writer: "solver", Reader: "worker, subscribers",
		Tensors: []Part{{TensorW, "[p, k]"}, {TensorCalibration, "[3k, k], learnt links: from cubic features to predictions"}},
		Notes: []Part{
			{noteFinal, "in the record that ends a stage: the visit whose loss the weights have"},
			{notePasses, "beside it: how many passes of a stage with a learnt link count"},
		},
	}
}
