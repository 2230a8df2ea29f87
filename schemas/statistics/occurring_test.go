package statistics

import (
	"errors"
	"math/rand/v2"
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

// A record of the numbers that are not 0 has every bit of the terms, and the same bits whether the terms list these numbers or all.
func TestFewTerms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shorter := 0
	for range 200 {
		k, of := 2+r.IntN(6), &OccurringTerms{}
		of.Classes = k
		few := FewTerms{Classes: k}
		for column := range int32(r.IntN(65)) {
			row := make([]float64, k)
			row[r.IntN(k)] = 1 + float64(r.IntN(9))
			for class := range row {
				if r.IntN(k) == 0 {
					row[class] = -0.5
				}
				if row[class] != 0 {
					few.Places = append(few.Places, int32(len(of.Columns)*k+class))
					few.Values = append(few.Values, row[class])
				}
			}
			of.Columns, of.Values = append(of.Columns, 3*column), append(of.Values, row...)
		}
		few.Columns = of.Columns
		record := of.SingleRecord()
		if Few(len(few.Places), len(of.Columns), k) {
			shorter++
			if !reflect.DeepEqual(record, few.SingleRecord()) {
				t.Fatalf("the record of %v is %v, that of all numbers is %v", few, few.SingleRecord(), record)
			}
			if dense := len(of.Columns) * (1 + k); len(record.Tensors[0].Data) >= dense {
				t.Fatalf("%d numbers instead of %d", len(record.Tensors[0].Data), dense)
			}
		}
		again, err := OccurringTermsOf(wire.Widened(record), 1<<26+1, k)
		if err != nil || len(of.Columns) > 0 && !reflect.DeepEqual(again, of) {
			t.Fatalf("%+v became %+v, %v", of, again, err)
		}
	}
	if shorter < 50 {
		t.Errorf("only %d records are shorter", shorter)
	}
}

func TestDamagedFewTerms(t *testing.T) {
	for _, damaged := range [][]float64{{5, 0, 1}, {-1, 0, 1}, {-1, 1, 1}, {1.5, 0, 1}, {1, 3, 1}, {1, -1, 1}, {1, 0.5, 1}, {2, 1, 1, 2, 1, 1}, {2, 1, 1, 2, 0, 1},
		{2, 1, 1, 1, 2, 1}} {
		r := &wire.Record[float64]{Tensors: wire.Tensors[float64]{wire.Matrix(FieldOccurring, len(damaged)/3, 3, damaged)}}
		if _, err := OccurringTermsOf(r, 5, 3); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%v: %v", damaged, err)
		}
	}
}
