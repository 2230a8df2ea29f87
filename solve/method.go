package solve

import "slices"

// method is an algorithm that minimises J for a known link with a non-quadratic loss. Each method is one value in a
// file of its own, with one line in [methods].
type method struct {
	// name is the value of the key `method`.
	name string
	// doc describes the method in a few words of Markdown, for the documentation of the configuration; empty if the
	// name is sufficient.
	doc string
	// wholeGram means that the method needs the Gram matrix of all rows: its step has a fixed length, and a matrix of a
	// sample may not bound the curvature of J.
	wholeGram bool
	// quadratic means that the method is for a quadratic loss, which has a single algorithm: quadratic.go.
	quadratic bool
	// start returns the state of one fit of a shape.
	start func(Shape) descent
	// worthwhile reports whether another pass pays after an accepted one (2, 3, …), given J at all accepted points so
	// far. Nil: it always pays.
	worthwhile func(at position, pass int, objectives []float64) bool
	// lastPasses is the default of the key `passes` in the last stage of a run; 0: that of other stages.
	lastPasses int
}

// position is the position of a stage in its run.
type position struct {
	last bool // no stage follows
	only bool // and none precedes
}

// descent chooses the trials of one fit. It sees the accepted points in order, and they determine its state.
type descent interface {
	// accept returns the step of the first trial from a point: the trial is W − step. before is the previously accepted
	// point, nil for the first. It is not used again, so accept may reuse its memory.
	accept(before, at *point) (step []float64)
	// reject returns the step of another trial from a point, after a rejected one: the trial is W − size · step. It
	// returns nil if no step is worth a pass.
	reject(at *point) (size float64, step []float64)
	// sufficient reports whether a trial from a point lowers J enough to be accepted, given its objective.
	sufficient(from *point, objective float64) bool
}

// methods returns the methods in the order of the documentation.
func methods() []method {
	return []method{autoMethod(), paperMethod(), acceleratedMethod(), lbfgsMethod(), cgMethod()}
}

// methodNamed returns the method with the given name. It panics for a name that [Check] does not accept.
func methodNamed(name string) method {
	all := methods()
	i := slices.IndexFunc(all, func(m method) bool { return m.name == name })
	if i < 0 {
		panic("solve: unknown method " + name)
	}
	return all[i]
}

// minStep is the shortest step that is tried, as a fraction of the method's own step.
const minStep = 1.0 / (1 << 20)
