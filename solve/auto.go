package solve

// MethodAuto is L-BFGS that stops a stage when a pass gains little, but fits the last stage of a run to its minimum.
const MethodAuto = "auto"

const (
	// auto ends a stage when a pass lowers J by less than the fraction minGain: a pass of a later stage then gains
	// more, and fits less noise.
	minGain = 0.04
	// firstPasses are exempt from this rule, as they learn the step length.
	firstPasses = 3

	// No later stage recovers what the last one leaves. So the last one continues until settledPasses together lower J
	// by less than the fraction minLastGain. Over raw features J is then 1 % above that of 250 passes; stopping at a gain
	// of less than 4 % per pass leaves it up to twice as large.
	minLastGain   = 0.001
	settledPasses = 3
	// After other stages, a J below smallObjective counts as smallObjective: the remaining loss is then mostly noise. A
	// last stage with more to learn is unaffected.
	smallObjective = 0.5

	// mostLastPasses exceeds the passes of nearly all last stages. Of 22 measured runs of one stage, over the raw
	// features of MNIST, digits and optdigits and over 256 to 4000 random features of them, 4 reach it.
	mostLastPasses = 200
)

func autoMethod() method {
	return method{
		name: MethodAuto,
		doc: "`lbfgs`; a stage ends when a pass lowers the loss by less than 4 %, the last one when three passes lower it by " +
			"less than 0.1 %",
		start:      newLBFGS,
		worthwhile: autoWorthwhile,
		lastPasses: mostLastPasses,
	}
}

// autoWorthwhile is the stop rule of auto: see method.worthwhile.
func autoWorthwhile(at position, pass int, objectives []float64) bool {
	accepted := len(objectives) - 1
	now, before := objectives[accepted], objectives[accepted-1]
	switch {
	case pass <= firstPasses || before-now >= minGain*before:
		return true
	case !at.last:
		return false
	case accepted < settledPasses:
		return true
	}
	before = objectives[accepted-settledPasses]
	if at.only {
		return before-now >= minLastGain*before
	}
	return before-now >= minLastGain*max(before, smallObjective)
}
