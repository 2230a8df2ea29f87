package screen

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/stagewise/stagewise/cmd/stagewise/artifact"
	"github.com/stagewise/stagewise/config"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// Preparation describes what is done to features before the first stage.
func Preparation(p schemas.Prepare) string {
	text := "scale " + p.Scale
	if p.PCA > 0 {
		text += fmt.Sprintf(", %d principal components", p.PCA)
	}
	if p.MinRows > 1 {
		text += fmt.Sprintf(", columns of %d rows or more", p.MinRows)
	}
	if p.Values != "" && p.Values != prepare.ValuesNone {
		text += ", values " + p.Values
	}
	if p.IDF > 0 {
		text += fmt.Sprintf(", idf %g", p.IDF)
	}
	return text
}

// numbers returns the range of the stages that one entry of the configuration stands for.
func numbers(first, count int) string {
	if count == 1 {
		return strconv.Itoa(first)
	}
	return fmt.Sprintf("%d-%d", first, first+count-1)
}

func features(s schemas.Stage) string {
	text := stages.Describe(s.Features)
	if s.Scores {
		text += " and scores"
	}
	return text
}

func stop(s *schemas.Stop) string {
	if s == nil {
		return none
	}
	if s.Stages {
		return "ends the stages by the loss of " + s.Split + " rows"
	}
	return fmt.Sprintf("%s, patience %d", s.Split, s.Patience)
}

// ridges returns the ridges of a version's stages, each once, in the order of the stages.
func ridges(m schemas.Manifest) string {
	var list []string
	for stage := range m.Plan.Stages {
		if ridge := m.Ridge(stage).String(); !slices.Contains(list, ridge) {
			list = append(list, ridge)
		}
	}
	return strings.Join(list, ", ")
}

// parameters describes the preparation of a run and the features and links of its stages.
func parameters(plan *schemas.Plan) string {
	var parts []string
	if p := plan.Prepare; p != (schemas.Prepare{Scale: prepare.ScaleNone}) {
		parts = append(parts, Preparation(p))
	}
	list := plan.Stages[:plan.MemberStages()]
	if plan.Members() > 1 {
		parts = append(parts, fmt.Sprintf("mean of %d members", plan.Members()))
	}
	for first := 0; first < len(list); {
		text, next := kind(list[first]), first+1
		for next < len(list) && kind(list[next]) == text {
			next++
		}
		if next > first+1 {
			text = fmt.Sprintf("%d × %s", next-first, text)
		}
		parts, first = append(parts, text), next
	}
	return strings.Join(parts, ", ")
}

// kind describes the features and the link of a stage.
func kind(s schemas.Stage) string { return fmt.Sprintf("%s %s", features(s), s.Link) }

// WriteStages writes a row for each entry of a configuration's stages.
func WriteStages(w io.Writer, list []config.Stage) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "\nstages: not set; train chooses them by the loss of held-out rows")
		return err
	}
	var rows artifact.Table
	fmt.Fprintln(w)
	rows.Row("stage", "features", "link", "passes", "ridge", "method", "gram rows", "stop")
	first := 1
	for _, s := range list {
		rows.Row(numbers(first, s.Repeat), features(s.Stage), s.Link, s.Passes, s.Ridge, s.Method, s.GramRows, stop(s.Stop))
		first += s.Repeat
	}
	return rows.Write(w)
}
