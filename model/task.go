package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// regionOf returns the region of the predictions of a task.
func regionOf(task examples.Task) link.Region {
	switch task {
	case examples.SeveralLabels:
		return link.Hypercube
	case examples.Numbers:
		return link.Space
	}
	return link.Simplex
}

// LinkOf returns the link of a stage of a plan, on the region of the plan's task. The plan must pass [CheckPlan].
func LinkOf(plan *schemas.Plan, number int) link.Link {
	return link.Named(plan.Stages[number].Link).On(regionOf(plan.Task()))
}

// LinksOf returns the names of the links that stages of a task may have.
func LinksOf(task examples.Task) []string {
	return linksThat(func(l link.Link) bool { return l.Suits(regionOf(task)) })
}

// linksThat returns the names of the links for which a condition holds.
func linksThat(are func(link.Link) bool) (names []string) {
	for _, l := range link.All() {
		if are(l) {
			names = append(names, l.Name)
		}
	}
	return names
}

// CheckLink returns a problem with the key link if a stage of a task can't have the link.
func CheckLink[S ~string](task examples.Task, name S) (problems []option.Problem) {
	names := LinksOf(task)
	if slices.Contains(names, string(name)) {
		return nil
	}
	want, of := strings.Join(names, ", "), ""
	switch task {
	case examples.SeveralLabels:
		of = ", as rows have several labels (examples.labels)"
	case examples.Numbers:
		of = ", as numbers are predicted (examples.targets)"
	}
	return []option.Problem{{Key: "link", Value: string(name), Want: want + of}}
}

// Threshold returns the minimum probability for predicting a label, for a multi-label model.
func (m *Model) Threshold() float64 {
	if t := m.Manifest.Thresholds; t != nil {
		return t.MicroF1
	}
	return 0.5
}

// Decide returns the class that a single-label model predicts for a row with these probabilities (k): the most probable one, or, for a
// version with a threshold, the second of two if its probability is at least the threshold.
func (m *Model) Decide(probabilities []float32) int32 {
	switch t := m.Manifest.Threshold; {
	case t == 0 || len(probabilities) != 2:
		return link.Largest(probabilities)
	case float64(probabilities[1]) >= t:
		return 1
	}
	return 0
}

// Given appends the classes that the model predicts for a row with these probabilities (k): that of [Model.Decide], or, for a
// multi-label model, any number of them in the order of [Model.Labels].
func (m *Model) Given(classes []int32, probabilities []float32) []int32 {
	if m.Task() != examples.SeveralLabels {
		return append(classes, m.Decide(probabilities))
	}
	threshold := m.Threshold()
	for class, p := range probabilities {
		if float64(p) >= threshold {
			classes = append(classes, int32(class))
		}
	}
	return classes
}

// CheckTemperature returns a problem with the key temperature if the scores of a stage can't be divided by it. A link that is not known is
// not checked here.
func CheckTemperature(s schemas.Stage) []option.Problem {
	want := ""
	switch t := s.Temperature; {
	case t == 0 || t == 1:
	case !(t >= 0.01 && t <= 100): // more than any model needs
		want = "a number from 0.01 to 100"
	case slices.Contains(link.Names(), string(s.Link)) && !link.Named(s.Link).HasTemperature():
		want = "1, because scores are predictions with the link " + string(s.Link)
	}
	if want == "" {
		return nil
	}
	return []option.Problem{{Key: "temperature", Value: fmt.Sprint(s.Temperature), Want: want}}
}
