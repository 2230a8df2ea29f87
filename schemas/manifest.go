package schemas

import (
	"errors"
)

// KindManifest is the kind of a [Manifest].
const KindManifest Kind = "manifest"

// Manifest says that a version is whole: everything that predicts with it.
type Manifest struct {
	Name          string             `json:"name"`
	Version       int                `json:"version"` // 1, 2, … in the order of the runs
	Run           string             `json:"run"`
	Plan          *Plan              `json:"plan"`
	Labels        []string           `json:"labels"`
	Rows          map[string]int64   `json:"rows"` // by split
	Prepare       Digest             `json:"prepare"`
	Blocks        []BlockDigest      `json:"blocks"`
	Metrics       map[string]float64 `json:"metrics"`
	WeightsDigest Digest             `json:"weights_digest"`
}

// BlockDigest names the final record of a stage and, if its link is learnt, how
// many of its passes count.
type BlockDigest struct {
	Stage  int    `json:"stage"`
	Visit  int    `json:"visit"`
	Passes int    `json:"links,omitempty"`
	Digest Digest `json:"digest"`
}

// Message encodes the manifest for the weights topic.
func (m *Manifest) Message() Message {
	return jsonMessage(KindManifest, m.Run, "manifest/"+m.Run, m)
}

// Check tells what of a manifest, or of its plan, would make a reader fail.
func (m *Manifest) Check() error {
	if m.Plan == nil {
		return errors.New("a manifest without its plan")
	}
	return m.Plan.Check()
}

func manifestLayout() Layout {
	return Layout{
		Kind: KindManifest, Topic: "weights", Key: "manifest/RUN", Writer: "solver", Reader: "subscribers",
		Says: "a version is whole: plan, labels, digests, metrics", Value: Manifest{},
	}
}
