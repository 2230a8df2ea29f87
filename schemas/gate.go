package schemas

import (
	"github.com/stagewise/stagewise/schemas/wire"
)

// Gate withholds a version from subscribers if its loss on rows of a split exceeds that of the newest offered version,
// regardless of pins, by more than a margin and more than chance. Both versions predict the same rows, the gate rows:
// those of the newest increment and, if both versions have the same preparation, those of the increments that an update
// revisits. The newest increment alone must not contradict the result. Without rows in the newest increment, the gate
// offers the version.
type Gate struct {
	Split   string  `json:"split"`   // holdout or test
	Margin  float64 `json:"margin"`  // maximum excess of the mean loss over that of the offered version
	Offered Warm    `json:"offered"` // newest offered version
}

// Margin returns the margin of the gate; 0 without one.
func (c *Chain) Margin() float64 {
	if c.Gate == nil {
		return 0
	}
	return c.Gate.Margin
}

// GateReport compares a version with the previously offered version on the gate rows.
type GateReport struct {
	Weight        float64  `json:"weight"`                   // Σw of the rows, with the weights of their classes
	Revisited     float64  `json:"revisited,omitempty"`      // Σw of the rows in increments that the update revisited
	Loss          float64  `json:"loss"`                     // mean loss of the version
	OfferedLoss   float64  `json:"offered_loss"`             // mean loss of the offered version
	StandardError *float64 `json:"standard_error,omitempty"` // standard error of the difference, from random groups of the rows
}

// GateGroups is the number of random groups of the gate rows. The losses of both versions are summed by group: the
// differences between groups determine the standard error.
const GateGroups = 64

// GateGroup returns the group of a row of a message.
func GateGroup(offset int64, row int) int {
	return int(wire.Hash(uint64(offset), uint64(row)) % GateGroups)
}

// Names of the tensors that a gate compares.
const (
	// FieldOfferedGroups has the losses of the offered version. With class weights, which the survey determines, "offered_groups/LABEL" has
	// those on the rows of each label.
	FieldOfferedGroups = "offered_groups" // [64, 2], survey of a chain: offered, for each group
	// FieldJudgedGroups has the losses of the version that a run makes.
	FieldJudgedGroups = "judged_groups" // [64, 2], last stage: for each group Σw and Σw·loss
	// FieldRevisitedGroups has the losses of both versions on rows of revisited increments.
	// [64, 3], last stage of an update: for each group Σw, Σw·loss of the offered version, and of the other
	FieldRevisitedGroups = "revisited_groups"
)
