package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Contributions are those of columns of the table to a score of a row. The score is that of a label, from which the link of the
// stages computes the probability, after the temperature; for a model of numbers it is the number.
type Contributions struct {
	Label   string         `json:"label"` // or the name of the number
	Score   float64        `json:"score"`
	Base    float64        `json:"base"`    // Base and the contributions of all columns are the score
	Columns []Contribution `json:"columns"` // the largest ones by absolute value, the largest first
}

// Contribution is the contribution of a column to a score, with its one-hot words, parts of times and indicator of missing values.
type Contribution struct {
	Column string  `json:"column"`
	Value  float64 `json:"value"`
}

// contributor has the data that contributions of a model need in addition to its weights.
type contributor struct {
	base     []float64 // k
	names    []string  // of the columns
	columns  []int     // of each raw feature, or of each leading number of sparse rows
	trees    []*tree.Contributions
	scale    []float64 // of each score
	features []int32   // of each input of sparse rows
}

// CheckContributions returns an error with the reason if scores of the model have no contributions of columns.
func (m *Model) CheckContributions() error {
	_, err := m.contributor()
	return err
}

func (m *Model) newContributor() (*contributor, error) {
	plan, k := m.Manifest.Plan, len(m.Labels())
	if plan.Members() > 1 {
		return nil, fmt.Errorf("the version averages %d models, whose mean has no score: contributions need average: 1", plan.Members())
	}
	c := &contributor{base: make([]float64, k), scale: slices.Repeat([]float64{1 / plan.Temperature(len(m.stages)-1)}, k)}
	c.nameColumns(m)
	if m.Sparse() {
		c.features = m.prepared.Factors.Kept()
	}
	blas := kernel.Gonum()
	var workspace Workspace
	for t, s := range m.stages {
		switch {
		case s.Link.Learnt:
			return nil, fmt.Errorf("stage %d: predictions of the link %s are no sums of features: contributions need another link", t, s.Link.Name)
		case s.Link.Name != m.stages[0].Link.Name:
			return nil, fmt.Errorf("stage %d has the link %s, stage 0 the link %s: contributions need one link", t, s.Link.Name,
				m.stages[0].Link.Name)
		case s.Features.Scores() > 0:
			return nil, fmt.Errorf("stage %d has the scores of earlier stages as features: contributions need scores: false", t)
		case s.Features.Leaves() > 0:
			trees, err := tree.NewContributions(s.Features.Forest(), c.ofCodes(m), s.fitted.W.Data, k)
			if err != nil {
				return nil, fmt.Errorf("stage %d: %w: train the version again", t, err)
			}
			c.trees = append(c.trees, trees)
			for out, v := range trees.Base() {
				c.base[out] += v
			}
			c.addIntercept(s)
		case s.Features.Sparse():
			c.addIntercept(s)
		case !s.Features.Sloped():
			return nil, fmt.Errorf("stage %d: features of kind %s are of pixels that no column names: contributions need another kind", t,
				plan.Stages[t].Features.Kind)
		default:
			c.trees = append(c.trees, nil)
			var block kernel.Dense
			score := kernel.NewDense(1, k)
			s.Expand(blas, &workspace, &block, kernel.NewDense(1, m.Inputs()), score)
			s.fitted.Scores(blas, score, kernel.NewDense(1, k), block)
			for out, v := range score.Data {
				c.base[out] += float64(v)
			}
		}
	}
	for out := range c.base {
		if m.Task() == examples.Numbers {
			c.scale[out] *= float64(m.prepared.TargetScale[out])
		}
		if c.base[out] *= c.scale[out]; m.Task() == examples.Numbers {
			c.base[out] += m.prepared.TargetCenter[out]
		}
		if most := c.base[out] + math.MaxFloat32*math.Abs(c.scale[out]); most-most != 0 {
			return nil, fmt.Errorf("scores of %.40q may be infinite: contributions need finite ones", m.Labels()[out])
		}
	}
	return c, nil
}

// addIntercept adds the weights of the intercept, if the stage has one: the last ones.
func (c *contributor) addIntercept(s fittedStage) {
	if w := s.fitted.W.Dense; s.Features.Size() > s.Features.Penalised() {
		for out, v := range w.Row(w.Rows - 1) {
			c.base[out] += float64(v)
		}
	}
}

// nameColumns sets the columns of the raw features, or numbers the features. Parts of times belong to the column of the
// times.
func (c *contributor) nameColumns(m *Model) {
	table := m.Columns()
	if table == nil && !m.Sparse() {
		for j := range m.Width() {
			c.names, c.columns = append(c.names, strconv.Itoa(j)), append(c.columns, j)
		}
	}
	for _, column := range table {
		at := slices.Index(c.names, column.Source())
		if at < 0 {
			at, c.names = len(c.names), append(c.names, column.Source())
		}
		c.columns = append(c.columns, slices.Repeat([]int{at}, column.Features())...)
	}
}

// ofCodes returns the column of each code of a row.
func (c *contributor) ofCodes(m *Model) (places []int) {
	feature := 0
	for _, features := range m.prepared.Coder.Features() {
		places = append(places, c.columns[feature])
		feature += features
	}
	return places
}

// contributedRows is the number of rows whose contributions are computed together.
const contributedRows = 1024

// Contributions calls do for each row with the contributions of at most n columns to each score (k), valid during the call. It does not
// modify the rows. Trees contribute path-dependent Shapley values, other features integrated gradients from the mean row; of sparse
// rows from a row without values. A row that overflows only has the base. The error is that of [Model.CheckContributions].
func (p *Predictor) Contributions(rows *examples.Rows, n int, do func(row int, scores []Contributions)) error {
	c, err := p.model.contributor()
	if err != nil {
		return err
	}
	scores := make([]Contributions, len(c.base))
	for from := 0; from < rows.Rows; from += contributedRows {
		p.scores(rows.Slice(from, min(from+contributedRows, rows.Rows)))
		if p.model.Sparse() {
			p.sparseContributions(c, from, n, scores, do)
		} else {
			p.denseContributions(c, from, n, scores, do)
		}
	}
	return nil
}

// denseContributions is Contributions for the rows whose scores, inputs and codes the predictor has.
func (p *Predictor) denseContributions(c *contributor, first, most int, scores []Contributions, do func(int, []Contributions)) {
	m, k := p.model, len(c.base)
	n, sloped := p.score.Rows, false
	result := make([]float64, len(c.names)*k)
	results := make([]float64, len(result)*n) // of all rows
	for t := range m.stages {
		if c.trees[t] != nil {
			c.trees[t].Add(results, p.codes)
		} else {
			sloped = true
		}
	}
	overflowed := p.Overflowed()
	for i := range n {
		for at := range result {
			result[at] = results[at*n+i]
		}
		if _, over := slices.BinarySearch(overflowed, i); over {
			clear(result)
		} else if sloped {
			p.addSlopes(c, i, result)
		}
		for out := range scores {
			p.contributed = p.contributed[:0]
			for column := range c.names {
				p.contributed = append(p.contributed, contribution{column, result[column*k+out]})
			}
			p.finish(c, &scores[out], i, out, most)
		}
		do(first+i, scores)
	}
}

// addSlopes adds what the stages without trees contribute to a row's scores to its result (columns × k).
func (p *Predictor) addSlopes(c *contributor, i int, result []float64) {
	m, k := p.model, len(c.base)
	slopes, x := kernel.NewDense(m.Inputs(), k), p.inputs.Row(i)
	for t, s := range m.stages {
		if c.trees[t] == nil {
			s.Features.AddSlopes(p.blas, slopes, x, s.fitted.W.Dense)
		}
	}
	if basis := m.prepared.Basis; basis.Cols > 0 {
		ofRaw := kernel.NewDense(m.Width(), k)
		p.blas.Mul(ofRaw, basis, slopes, false)
		slopes, x = ofRaw, p.raw.Row(i)
	}
	for j, v := range x {
		column := c.columns[m.prepared.Feature(j)]
		for out, slope := range slopes.Row(j) {
			result[column*k+out] += float64(v) * float64(slope)
		}
	}
}

// sparseContributions is Contributions for the rows whose scores and sparse inputs the predictor has.
func (p *Predictor) sparseContributions(c *contributor, first, n int, scores []Contributions, do func(int, []Contributions)) {
	for i := range p.sparse.Rows {
		inputs, values := p.sparse.Row(i)
		for out := range scores {
			p.contributed = p.contributed[:0]
			for column := range c.names {
				p.contributed = append(p.contributed, contribution{column: column})
			}
			for at, input := range inputs {
				value := 0.0
				for _, s := range p.model.stages {
					value += float64(values[at]) * float64(s.fitted.W.Row(int(input))[out])
				}
				if feature := int(c.features[input]); feature < len(c.columns) {
					p.contributed[c.columns[feature]].value += value
				} else {
					p.contributed = append(p.contributed, contribution{len(c.names) + feature, value})
				}
			}
			p.finish(c, &scores[out], i, out, n)
		}
		do(first+i, scores)
	}
}

// contribution is that of a column, which is an index in names, or, after their number, a feature of sparse rows.
type contribution struct {
	column int
	value  float64
}

// finish writes the contributions to a score of a row, the largest ones of p.contributed first. Equal ones are in the order of the columns.
func (p *Predictor) finish(c *contributor, score *Contributions, row, out, n int) {
	scale := c.scale[out]
	*score = Contributions{p.model.Labels()[out], float64(p.score.Row(row)[out]) * scale, c.base[out], score.Columns[:0]}
	if p.model.Task() == examples.Numbers {
		score.Score += p.model.prepared.TargetCenter[out]
	}
	slices.SortFunc(p.contributed, func(a, b contribution) int {
		return cmp.Or(cmp.Compare(math.Abs(b.value), math.Abs(a.value)), cmp.Compare(a.column, b.column))
	})
	for _, of := range p.contributed[:min(n, len(p.contributed))] {
		name := strconv.Itoa(of.column - len(c.names))
		if of.column < len(c.names) {
			name = c.names[of.column]
		}
		score.Columns = append(score.Columns, Contribution{name, of.value * scale})
	}
}
