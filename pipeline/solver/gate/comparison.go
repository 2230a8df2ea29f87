package gate

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// chance is how often the gate withholds a version by chance that is worse than the offered one by just the margin. Of
// versions that are worse by a tenth of a log loss of 0.38, it then withholds 95 % by 1,000 rows, and 36 % by 200.
const chance = 0.02

// disagreement is how many standard errors better a version must be by the newest rows alone, so that the rows of older
// increments have no say: the stream may have changed, and the version has learnt that. Where it has not, one of 100
// versions that are worse by a tenth passes for this reason by 200 new rows and 800 older ones; with 0 it would be
// three.
const disagreement = 0.5

// group is how two versions have predicted some rows.
// Σw, and Σw·loss of the version that subscribers have, and of the one that the run makes
type group struct{ weight, offered, made float64 }

// NewestGroups returns the groups of rows of the newest increment, given of each Σw and Σw·loss as either version has
// measured them. It leaves out groups of which one version has measured other rows than the other version, as they are
// of a class that only one version has.
func NewestGroups(offered, made []float64) (groups []group) {
	for ; len(offered) > 0; offered, made = offered[2:], made[2:] {
		if w := offered[0]; w > 0 && math.Abs(w-made[0]) <= 1e-9*w {
			groups = append(groups, group{w, offered[1], made[1]})
		}
	}
	return groups
}

// RevisitedGroups returns the groups of rows in increments that are visited again, given of each Σw, and Σw·loss of both versions.
func RevisitedGroups(sums []float64) (groups []group) {
	for ; len(sums) > 0; sums = sums[3:] {
		if sums[0] > 0 {
			groups = append(groups, group{sums[0], sums[1], sums[2]})
		}
	}
	return groups
}

// Comparison is how two versions have predicted the same rows.
type Comparison struct {
	weight, revisited float64 // Σw of the rows, and of those that are in increments which are visited again
	offered, made     float64 // mean losses of the version that subscribers have, and of the one that the run makes
	// deviation is the standard error of made − offered, by the random groups of the rows (Wolter, Introduction to
	// Variance Estimation, 2007, chapter 2); infinite with rows in one group only.
	deviation float64
	// groups is how many groups of rows were compared.
	groups int
	// newest is the comparison by the rows of the newest increment alone; nil: there are no others.
	newest *Comparison
}

// Compare compares losses by group: of the newest increment, and of those that are visited again. It returns nil if
// there are none of the newest.
func Compare(newest, revisited []group) *Comparison {
	if len(newest) == 0 {
		return nil
	}
	c := compareAll(slices.Concat(newest, revisited))
	if len(revisited) > 0 {
		c.newest = compareAll(newest)
		c.revisited = c.weight - c.newest.weight
	}
	return c
}

// compareAll compares losses by group. There must be a group.
func compareAll(groups []group) *Comparison {
	c := &Comparison{deviation: math.Inf(1), groups: len(groups)}
	for _, g := range groups {
		c.weight += g.weight
		c.offered += g.offered
		c.made += g.made
	}
	c.offered, c.made = c.offered/c.weight, c.made/c.weight
	if c.groups > 1 {
		sum := 0.0
		for _, g := range groups {
			d := g.made - g.offered - g.weight*(c.made-c.offered)
			sum += d * d
		}
		c.deviation = math.Sqrt(sum*float64(c.groups)/float64(c.groups-1)) / c.weight
	}
	return c
}

// Worse reports whether the version is worse than the offered one by more than a margin, beyond chance: by a one-sided
// test of the paired losses, which the newest rows alone don't contradict.
func (c *Comparison) Worse(margin float64) bool {
	if c == nil || math.IsNaN(c.offered) {
		return false
	}
	if math.IsNaN(c.made) {
		return true
	}
	if c.groups == 1 || c.newest.better() {
		return false
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(c.groups - 1)}.Quantile(1 - chance)
	return c.made-c.offered-t*c.deviation > margin
}

// better reports whether the version seems better than the offered one.
func (c *Comparison) better() bool { return c != nil && c.offered-c.made > disagreement*c.deviation }

// Good reports whether the loss of the version is at most that of the offered one and a margin.
func (c *Comparison) Good(margin float64) bool { return c != nil && c.made-c.offered <= margin }

// Report returns what the report of the run says of the comparison; nil if there is none.
func (c *Comparison) Report() *schemas.GateReport {
	if c == nil {
		return nil
	}
	r := &schemas.GateReport{Weight: c.weight, Revisited: c.revisited, Loss: wire.Finite(c.made), OfferedLoss: wire.Finite(c.offered)}
	if c.groups > 1 {
		deviation := wire.Finite(c.deviation)
		r.StandardError = &deviation
	}
	return r
}

// CompareSums compares two versions by what a survey has summed of the offered one, and a visit of the one that the run makes. scale is
// of the numbers that are predicted; nil: labels are. Without sums it returns nil.
func CompareSums(survey, visit wire.Tensors[float64], scale []float32) *Comparison {
	fields := 1 + max(len(scale), 1)
	offered, err := survey.Shaped(schemas.FieldOfferedGroups, schemas.GateGroups, fields)
	if err != nil {
		return nil
	}
	made, err := visit.Shaped(schemas.FieldJudgedGroups, schemas.GateGroups, 2)
	if err != nil {
		return nil
	}
	losses := make([]float64, 0, len(made))
	for at := range len(offered) / fields {
		sums := offered[at*fields:][:fields]
		loss := sums[1]
		if scale != nil { // in the units of the run
			loss = 0
			for i, unit := range scale {
				loss += sums[1+i] / (float64(unit) * float64(unit))
			}
		}
		losses = append(losses, sums[0], loss)
	}
	again, err := visit.Shaped(schemas.FieldRevisitedGroups, schemas.GateGroups, 3)
	if err != nil {
		again = nil // no such rows
	}
	return Compare(NewestGroups(losses, made), RevisitedGroups(again))
}
