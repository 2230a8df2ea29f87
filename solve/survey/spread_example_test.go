package survey_test

import (
	"fmt"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/solve/survey"
)

// The median squared distance between prepared rows.
func ExampleSpread() {
	spread, err := survey.Spread(kernel.Dense{Rows: 3, Cols: 2, Data: []float32{0, 0, 3, 4, 3, 3}})
	fmt.Println(spread, err)
	// Output: 18 <nil>
}
