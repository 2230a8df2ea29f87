package report

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Tempered returns the report of the temperature that predicts the holdout rows best; nil if none was measured.
func Tempered(sealed *accumulate.Sum) *schemas.TemperedReport {
	temperature, loss, ok := sealed.TemperedOf()
	if !ok {
		return nil
	}
	return &schemas.TemperedReport{Temperature: temperature, HoldoutLoss: wire.Finite(loss)}
}
