package statistics

import (
	"reflect"
	"testing"

	"github.com/stagewise/stagewise/schemas/wire"
)

// Terms have a record in single precision only if it has every bit of them.
func TestTermsInSinglePrecision(t *testing.T) {
	terms := func(column int32, value float64) *OccurringTerms {
		return &OccurringTerms{Occurring: Occurring{Columns: []int32{1, column}, Values: []float64{1.5, -0.25, 0, value}}, Classes: 2}
	}
	for _, exact := range []*OccurringTerms{terms(5, 0.125), terms(1<<26, -1.0/(1<<40)), terms(1<<24-1, 3)} {
		r := exact.SingleRecord()
		if r == nil {
			t.Errorf("%+v has no record in single precision", exact)
			continue
		}
		again, err := OccurringTermsOf(wire.Widened(r), 1<<26+1, 2)
		if err != nil || !reflect.DeepEqual(again, exact) {
			t.Errorf("%+v became %+v, %v", exact, again, err)
		}
	}
	for _, inexact := range []*OccurringTerms{terms(5, 0.1), terms(5, 1<<24+1), terms(1<<24+1, 1), terms(5, 1e60)} {
		if inexact.SingleRecord() != nil {
			t.Errorf("%+v has a record in single precision", inexact)
		}
	}
}
