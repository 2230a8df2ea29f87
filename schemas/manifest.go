package schemas

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindManifest is the kind of a [Manifest] message.
const KindManifest wire.Kind = "manifest"

// Manifest describes a finished version. It is published last, so a version with a manifest is complete.
type Manifest struct {
	Name    string   `json:"name"`    // of the pipeline
	Version int      `json:"version"` // 1, 2, … in the order of the runs
	Run     string   `json:"run"`     // id of the run that made it
	Plan    *Plan    `json:"plan"`    // of that run
	Labels  []string `json:"labels"`  // the classes, in order
	// LabelType says that the labels are whole numbers: clients answer with numbers.
	LabelType examples.LabelType `json:"label_type,omitempty"`
	Columns   examples.Columns   `json:"columns,omitempty"` // of the table that the features are of; none: not known
	Rows      map[string]int64   `json:"rows"`              // labelled rows of each split, by its name
	Prepare   wire.Digest        `json:"prepare"`           // of the survey's result
	Blocks    []BlockDigest      `json:"blocks"`            // in the order of the stages
	// Threshold is from which probability of the second of two classes on a row is given it.
	Threshold float64 `json:"threshold,omitempty"`
	// Thresholds are those of a version of several labels a row.
	Thresholds    *statistics.Thresholds `json:"thresholds,omitempty"`
	Metrics       map[string]float64     `json:"metrics"`               // of the final predictions, by name
	WeightsDigest wire.Digest            `json:"weights_digest"`        // see [WeightsDigest]
	Window        *StatePlace            `json:"window,omitempty"`      // of a run of a chain: where its window is on the state topic
	WindowRows    int64                  `json:"window_rows,omitempty"` // of a run of a chain: rows of its window, without forgotten ones
	// PlansFrom is an offset of the plans topic that the plans come after from which a version of a chain can be made again: the plan of
	// its last full run, and those of the updates since. 0 for a version of no chain.
	PlansFrom int64 `json:"plans_from,omitempty"`
}

// BlockDigest names the final weights record of a stage.
type BlockDigest struct {
	Stage     int         `json:"stage"`               // its number, from 0
	Visit     int         `json:"visit"`               // of that record
	Passes    int         `json:"links,omitempty"`     // of a learnt link: how many passes count; 0 for other links
	Ridge     Ridge       `json:"ridge,omitempty"`     // that the solver has chosen; 0 if the plan has it
	Digest    wire.Digest `json:"digest"`              // of that record
	Structure wire.Digest `json:"structure,omitempty"` // of the record of the stage's trees; "": it has none
}

// Digest returns the digest of the manifest, without where the window of a chain is: two solvers of a run may each have written it.
func (m *Manifest) Digest() wire.Digest {
	content := *m
	content.Window = nil
	return wire.DigestJSON(content)
}

// Ridge returns the ridge that a stage of the plan was fitted with. It is [RidgeAuto] if the manifest does not say it.
func (m *Manifest) Ridge(stage int) Ridge {
	ridge := m.Plan.Stages[stage].Ridge
	if ridge == RidgeAuto && stage < len(m.Blocks) && m.Blocks[stage].Ridge > 0 {
		return m.Blocks[stage].Ridge
	}
	return ridge
}

// Messages encodes the manifest for the versions topic. The error is a *[wire.DocumentError].
func (m *Manifest) Messages() ([]wire.Message, error) { return wire.MessagesOf(KindManifest, m.Run, m) }

// Check returns an error for a manifest without a plan, or with a plan that fails its own check.
func (m *Manifest) Check() error {
	if m.Plan == nil {
		return errors.New("the manifest has no plan")
	}
	if err := cmp.Or(wire.CheckName(m.Run), m.Columns.Check()); err != nil {
		return err
	}
	if err := m.LabelType.Check(m.Labels); err != nil {
		return err
	}
	if t := m.Threshold; t != 0 && !(t > 0 && t < 1 && m.Plan.Task() == examples.OneLabel && len(m.Labels) == 2) {
		return fmt.Errorf("the manifest has a threshold of %v for %d labels, expected one between 0 and 1 for two", t, len(m.Labels))
	}
	return m.Plan.Check()
}
