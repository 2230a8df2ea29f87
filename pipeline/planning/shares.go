package planning

import "github.com/stagewise/stagewise/schemas"

// A share has at least so many rows, or so many products of its rows in Gram matrices, which take a few seconds of a core. To send
// and to add the matrix of 1,024 columns takes as long as to sum 1,000 rows, and longer than to count the pairs of leaves of all rows.
const (
	shareRows     = 1 << 16
	shareProducts = 1 << 37
)

// sharesOf returns the maximum number of shares of a plan, which is that of its work. It is [schemas.DefaultShares] if the plan does not
// say how many rows there are, or how many columns.
func sharesOf(plan *schemas.Plan) int {
	if plan.Foreign {
		return schemas.DefaultShares
	}
	rows, products := 0.0, 0.0
	for _, source := range plan.Sources {
		rows += float64(source.Rows)
	}
	rows *= float64(plan.Augment.Rows())
	for _, stage := range plan.Stages {
		columns := float64(stage.Features.Size) // of a row that are not 0
		if stage.Features.Leaves > 0 {
			columns /= float64(stage.Features.Leaves)
		}
		if columns == 0 {
			return schemas.DefaultShares
		}
		products += rows * columns * columns / 2
	}
	return int(max(1, min(schemas.DefaultShares, max(rows/shareRows, products/shareProducts))))
}
