package replay

import (
	"math"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
)

// heldOutLoss is the loss of held-out rows after a stage, with scores divided by a temperature.
type heldOutLoss struct{ loss, temperature float64 }

// lossesOf returns the loss after each stage of a list, from the report of a run, whose first member has these stages; NaN
// without held-out rows. With temper it is the lowest over all temperatures after stages that have measured it, unless the
// list sets a temperature. Blocks of trees become overconfident long before their errors rise: without temperatures, few
// blocks have the lowest loss.
func lossesOf(report *schemas.Report, list []schemas.Stage, temper bool) []heldOutLoss {
	losses := make([]heldOutLoss, len(list))
	for t := range losses {
		losses[t] = heldOutLoss{math.NaN(), 1}
		if t >= len(report.Stages) {
			continue
		}
		switch r := report.Stages[t]; {
		case temper && r.Tempered != nil && list[t].Temperature == 0:
			losses[t] = heldOutLoss{r.Tempered.HoldoutLoss, r.Tempered.Temperature}
		case r.HoldoutLoss != nil:
			losses[t].loss = *r.HoldoutLoss
		}
	}
	return losses
}

// lowest returns the stage with the lowest loss, from stage least on; −1 if no stage has a loss.
func lowest(losses []heldOutLoss, least int) int {
	at, lowest := -1, math.Inf(1)
	for t, l := range losses {
		if t+1 >= least && l.loss < lowest {
			at, lowest = t, l.loss
		}
	}
	return at
}

// lastNear returns the last tree stage after which the loss is nearly the lowest, which it is after stage at; at, if that
// has no trees.
func lastNear(losses []heldOutLoss, list []schemas.Stage, at int) int {
	most := nearlyLowest * losses[at].loss
	for last := len(losses) - 1; last > at && stages.Grown(list[at].Features); last-- {
		if losses[last].loss <= most && stages.Grown(list[last].Features) {
			return last
		}
	}
	return at
}
