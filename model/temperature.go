package model

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
)

// minTemperature and maxTemperature are more than any model needs.
const minTemperature, maxTemperature = 0.01, 100.0

// CheckTemperature returns a problem with the key temperature if the scores of a stage can't be divided by it. A link that is not known is
// not checked here.
func CheckTemperature(s schemas.Stage) []option.Problem {
	want := ""
	switch t := s.Temperature; {
	case t == 0 || t == 1:
	case !(t >= minTemperature && t <= maxTemperature):
		want = fmt.Sprintf("a number from %g to %g", minTemperature, maxTemperature)
	case slices.Contains(link.Names(), string(s.Link)) && !link.Named(s.Link).HasTemperature():
		want = "1, because scores are predictions with the link " + string(s.Link)
	}
	if want == "" {
		return nil
	}
	return []option.Problem{{Key: "temperature", Value: fmt.Sprint(s.Temperature), Want: want}}
}
