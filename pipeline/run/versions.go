package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// Versions returns the manifests of the finished versions by version number, the latest last. Their order on the topic can be
// another: a manifest may be written twice, and compaction keeps the second.
func (c *Client) Versions(ctx context.Context) (manifests []schemas.Manifest, err error) {
	l, err := c.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	err = c.Each(ctx, c.Topics.Weights, 0, func(m Message) error {
		run := m.Run()
		if m.Kind() != schemas.KindManifest || m.Value == nil || seen[run] {
			return nil
		}
		if end := l.End(run); end != nil && end.State != schemas.Done {
			return nil // its solver did not know that the run was cancelled
		}
		manifest, err := c.Codec.DecodeManifest(m.Message)
		if err != nil {
			return nil // a version does not count if its manifest can't be read
		}
		seen[manifest.Run] = true
		manifests = append(manifests, *manifest)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read versions: %w", err)
	}
	slices.SortStableFunc(manifests, func(a, b schemas.Manifest) int { return cmp.Compare(a.Version, b.Version) })
	return manifests, nil
}

// Latest is the name of the finished version with the highest number.
const Latest = "latest"

// NoVersionError says that there is no such version.
type NoVersionError struct {
	Want string // a number, a run, or [Latest]
	Have int    // how many versions there are
}

// Error returns the version that was asked for, and how many there are.
func (e *NoVersionError) Error() string {
	if e.Have == 0 {
		return fmt.Sprintf("version %q: the pipeline has no finished version yet", e.Want)
	}
	return fmt.Sprintf("version %q: the pipeline has %d versions, but not this one", e.Want, e.Have)
}

// Version returns the manifest of a version, given its number, its run, or [Latest]. The error may be a *[NoVersionError].
func (c *Client) Version(ctx context.Context, want string) (*schemas.Manifest, error) {
	manifests, err := c.Versions(ctx)
	if err != nil {
		return nil, err
	}
	for i := len(manifests) - 1; i >= 0; i-- {
		m := &manifests[i]
		if want == Latest || want == m.Run || want == strconv.Itoa(m.Version) {
			return m, nil
		}
	}
	return nil, &NoVersionError{want, len(manifests)}
}

// Model reads a version as a model, given its number, its run, or [Latest].
func (c *Client) Model(ctx context.Context, want string) (*model.Model, error) {
	manifest, err := c.Version(ctx, want)
	if err != nil {
		return nil, err
	}
	return c.modelOf(ctx, manifest)
}

// modelOf reads the weights that a manifest names.
func (c *Client) modelOf(ctx context.Context, manifest *schemas.Manifest) (*model.Model, error) {
	chain := NewChain(manifest.Plan, c.Codec, event.Ignore{})
	if _, err := chain.Read(ctx, c); err != nil {
		return nil, err
	}
	if chain.Survey == nil {
		return nil, fmt.Errorf("version %d: the survey's result is no longer on %s", manifest.Version, c.Topics.Weights)
	}
	for t, block := range manifest.Blocks {
		if final, digest := chain.Final(t); final == nil || digest != block.Digest {
			return nil, fmt.Errorf("version %d: the weights of stage %d are no longer on %s", manifest.Version, t, c.Topics.Weights)
		}
	}
	return chain.Model(manifest)
}

// Model returns the model of a chain that has the survey's result and all final weights.
func (c *Chain) Model(manifest *schemas.Manifest) (*model.Model, error) {
	weights := make([][]*schemas.Weights, len(c.Plan.Stages))
	for t := range weights {
		weights[t] = c.weightsOf(t)
	}
	return model.New(manifest, c.Survey.Preparation, weights)
}
