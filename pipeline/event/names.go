package event

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/wire"
)

// StageName returns the name of a stage in errors: by index, as in the configuration.
func StageName(stage int) string {
	if stage == wire.Survey {
		return "the survey"
	}
	return fmt.Sprintf("stage %d", stage)
}

// StageOf returns the name of a stage in overviews: counted from 1, with the number of stages.
func StageOf(stage, stages int) string {
	return fmt.Sprintf("stage %d of %d", stage+1, stages)
}

// VisitOf returns the name of a visit in overviews.
func VisitOf(stage, visit, stages int) string {
	if stage == wire.Survey {
		return StageName(stage)
	}
	return fmt.Sprintf("visit %d of %s", visit+1, StageOf(stage, stages))
}
