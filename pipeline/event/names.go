package event

import (
	"fmt"

	"github.com/stagewise/stagewise/schemas/wire"
)

// StageName returns how errors name a stage: by its index, as the configuration does.
func StageName(stage int) string {
	if stage == wire.Survey {
		return "the survey"
	}
	return fmt.Sprintf("stage %d", stage)
}

// StageOf returns how overviews for people name a stage of that many: they count from 1, as they say how many there are.
func StageOf(stage, stages int) string {
	return fmt.Sprintf("stage %d of %d", stage+1, stages)
}

// VisitOf returns how overviews for people name a visit to a stage of that many.
func VisitOf(stage, visit, stages int) string {
	if stage == wire.Survey {
		return StageName(stage)
	}
	return fmt.Sprintf("visit %d of %s", visit+1, StageOf(stage, stages))
}
