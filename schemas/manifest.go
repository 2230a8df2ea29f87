package schemas

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindManifest is the kind of a [Manifest] message.
const KindManifest wire.Kind = "manifest"

// Manifest describes a finished version. It is published last, so a version with a manifest is complete.
type Manifest struct {
	Name    string   `json:"name"`    // name of the pipeline
	Version int      `json:"version"` // version number: 1, 2, … in the order of the runs
	Run     string   `json:"run"`     // ID of the run that made it
	Plan    *Plan    `json:"plan"`    // plan of that run
	Labels  []string `json:"labels"`  // class labels, in order
	// LabelType is set if the labels are integers: clients return numbers.
	LabelType examples.LabelType `json:"label_type,omitempty"`
	Columns   examples.Columns   `json:"columns,omitempty"` // table columns of the features; absent: unknown
	Rows      map[string]int64   `json:"rows"`              // labelled rows by split name
	Prepare   wire.Digest        `json:"prepare"`           // digest of the survey result
	Blocks    []BlockDigest      `json:"blocks"`            // blocks, in the order of the stages
	// Threshold is the minimum probability for predicting the second of two classes.
	Threshold float64 `json:"threshold,omitempty"`
	// Thresholds are the thresholds of a multi-label version.
	Thresholds    *statistics.Thresholds `json:"thresholds,omitempty"`
	Metrics       map[string]float64     `json:"metrics"`               // metrics of the final predictions, by name
	WeightsDigest wire.Digest            `json:"weights_digest"`        // digest of the tensors of the model file
	Window        *StatePlace            `json:"window,omitempty"`      // chain: place of the window on the state topic
	WindowRows    int64                  `json:"window_rows,omitempty"` // chain: rows of the window, excluding forgotten rows
	// PlansFrom is an offset of the plans topic before all plans from which a version of a chain can be rebuilt: the plan of its last full
	// run, and those of the updates since. 0 for a version outside a chain.
	PlansFrom int64 `json:"plans_from,omitempty"`
}

// BlockDigest names the final weights record of a stage.
type BlockDigest struct {
	Stage     int         `json:"stage"`               // stage number, from 0
	Visit     int         `json:"visit"`               // visit of the final weights record
	Passes    int         `json:"links,omitempty"`     // learnt link: number of passes that count; 0 for other links
	Ridge     Ridge       `json:"ridge,omitempty"`     // ridge chosen by the solver; 0 if the plan sets it
	Digest    wire.Digest `json:"digest"`              // digest of the final weights record
	Structure wire.Digest `json:"structure,omitempty"` // digest of the record of the stage's trees; "": none
}

// Digest returns the digest of the manifest without the place of the window: two solvers of a run may both have written the window.
func (m *Manifest) Digest() wire.Digest {
	content := *m
	content.Window = nil
	return wire.DigestJSON(content)
}

// Ridge returns the ridge that a stage of the plan was fitted with, or [RidgeAuto] if the manifest does not have it.
func (m *Manifest) Ridge(stage int) Ridge {
	ridge := m.Plan.Stages[stage].Ridge
	if ridge == RidgeAuto && stage < len(m.Blocks) && m.Blocks[stage].Ridge > 0 {
		return m.Blocks[stage].Ridge
	}
	return ridge
}

// Messages encodes the manifest for the versions topic.
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

// KindPin is the kind of a [Pin] message.
const KindPin wire.Kind = "pin"

// PinKey is the key of every [Pin]: compaction keeps the last one, which is in effect.
const PinKey = "pin"

// Pin is the version that subscribers get as the latest, until the next pin. The zero value pins none: subscribers
// then get the offered version with the highest number. A pin of a removed version has the same effect.
type Pin struct {
	Run     string `json:"run"`     // ID of the run that made the version; empty: no version is pinned
	Version int    `json:"version"` // version number; 0: no version is pinned
}

// Message encodes the pin for the plans topic.
func (p *Pin) Message() wire.Message { return wire.JSONMessage(KindPin, p.Run, PinKey, p) }

// KindRemoval is the kind of a [Removal] message.
const KindRemoval wire.Kind = "removal"

// Removal reports that a version was removed: tombstones of its messages are on the versions topic.
type Removal struct {
	Run     string `json:"run"`     // run ID
	Version int    `json:"version"` // version number
}

// Message encodes the removal for the plans topic.
func (r *Removal) Message() wire.Message {
	return wire.JSONMessage(KindRemoval, r.Run, "removal/"+r.Run, r)
}

// manifestKey is the key of the manifest's JSON in the schema metadata of a model file.
const manifestKey = "stagewise.manifest"

// FileTensor returns the name of a tensor of a stage's weights in a model file. pass is 0 unless the link is learnt.
func FileTensor(stage, pass int, name string) string {
	return fmt.Sprintf("%d/%d/%s", stage, pass, name)
}

// WeightsDigest returns the digest of a version in its manifest. It covers the tensors of the model file that predictions depend on: all
// except the covers of trees.
func WeightsDigest(tensors wire.Tensors[float32]) wire.Digest {
	var digested wire.Tensors[float32]
	for _, t := range tensors {
		if path.Base(t.Name) != statistics.TensorTreeCovers {
			digested = append(digested, t)
		}
	}
	return wire.TensorsDigest(digested)
}

// WriteModel writes a finished version as a file and returns the number of bytes written. The file is an Arrow IPC stream
// with the schema of a weights record and the manifest in the schema metadata.
func WriteModel(w io.Writer, manifest *Manifest, tensors wire.Tensors[float32], mem memory.Allocator) (int64, error) {
	content, err := json.Marshal(manifest)
	if err != nil {
		return 0, fmt.Errorf("encode manifest: %w", err)
	}
	n, err := wire.WriteTensors(w, manifestKey, string(content), tensors, mem)
	if err != nil {
		return n, fmt.Errorf("write model: %w", err)
	}
	return n, nil
}

// ReadModel reads a file that [WriteModel] wrote. An error about its bytes wraps [wire.ErrDamaged]. ReadModel does not compare
// the tensors with the manifest's WeightsDigest; package model does.
func ReadModel(r io.Reader, mem memory.Allocator) (*Manifest, wire.Tensors[float32], error) {
	content, tensors, ok, err := wire.ReadTensors(r, manifestKey, mem)
	if err != nil {
		return nil, nil, fmt.Errorf("read model: %w", err)
	}
	if !ok {
		return nil, nil, fmt.Errorf("%w: an Arrow stream, but not a model", wire.ErrDamaged)
	}
	manifest, err := DecodeJSON[Manifest](wire.Message{Key: manifestKey, Value: []byte(content),
		Headers: []wire.Header{{Key: "kind", Value: string(KindManifest)}}})
	if err != nil {
		return nil, nil, err
	}
	return manifest, tensors, nil
}
