package solver

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// temperedReport returns the report of the temperature that predicts the holdout rows best; nil if none was measured.
func temperedReport(sealed *accumulate.Sum) *schemas.TemperedReport {
	temperature, loss, ok := sealed.TemperedOf()
	if !ok {
		return nil
	}
	return &schemas.TemperedReport{Temperature: temperature, HoldoutLoss: wire.Finite(loss)}
}
