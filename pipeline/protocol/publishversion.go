package protocol

import (
	"context"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// PublishVersion writes a version to the versions topic: the records of its model, then the report, which it calls
// afterwards (nil: none), then the manifest. It returns their place. The version is visible once the end of the run names
// it.
func (c *Client) PublishVersion(ctx context.Context, manifest *schemas.Manifest, records []*wire.Record[float32],
	report func() *schemas.Report) (*schemas.Place, error) {
	place := &schemas.Place{Run: manifest.Run, Version: manifest.Version, From: -1}
	for _, r := range records {
		for m, err := range r.EachWithin(c.Codec.chunk, c.Codec.mem) {
			at := int64(0)
			if err == nil {
				at, err = c.Log.Append(ctx, c.Topics.Versions, 0, m)
			}
			if err != nil {
				return nil, err
			}
			if place.From < 0 {
				place.From = at
			}
		}
	}
	if report != nil {
		messages, err := report().Messages()
		if err != nil {
			return nil, err
		}
		if _, err := c.Log.Append(ctx, c.Topics.Versions, 0, messages...); err != nil {
			return nil, err
		}
	}
	messages, err := manifest.Messages()
	if err != nil {
		return nil, err
	}
	if place.Manifest, err = c.Log.Append(ctx, c.Topics.Versions, 0, messages...); err != nil {
		return nil, err
	}
	// Other writers may have written in between.
	if _, place.To, err = c.Log.Bounds(ctx, c.Topics.Versions, 0); err != nil {
		return nil, err
	}
	return place, nil
}

// Model returns the model of a chain that has the survey's result and all final weights.
func (c *Chain) Model(manifest *schemas.Manifest) (*model.Model, error) {
	weights := make([][]*schemas.Weights, len(c.Plan.Stages))
	for t := range weights {
		weights[t] = c.weightsOf(t)
		if trees := c.structure(t); trees != nil && c.Plan.Update() != nil { // those of the previous version
			weights[t] = append([]*schemas.Weights{trees}, weights[t]...)
		}
	}
	if u := c.Plan.Update(); u != nil && u.Sparse {
		for t := range weights {
			s, err := c.Stage(t)
			if err != nil {
				return nil, err
			}
			fitted, err := c.Fitted(s, t)
			if err != nil {
				return nil, err
			}
			weights[t] = []*schemas.Weights{c.whole(t, fitted.W.Data)}
		}
	}
	return c.earlier.Successor(manifest, c.Survey.Preparation, weights)
}

// Records returns the records of a complete chain that its model needs: the survey's result, trees, and the final weights
// of each stage, with the earlier ones if the link is learnt.
func (c *Chain) Records(m *model.Model) []*wire.Record[float32] {
	records := []*wire.Record[float32]{c.Survey.Record()}
	for t := range c.Plan.Stages {
		if w := c.structure(t); w != nil {
			records = append(records, w.Record())
		}
	}
	for i, w := range c.weights {
		if u := c.Plan.Update(); u != nil && u.Sparse {
			if w.Final != nil {
				records = append(records, c.whole(w.Stage, m.Weights(w.Stage)).Record())
			}
			continue
		}
		last := i+1 == len(c.weights) || c.weights[i+1].Stage != w.Stage
		if w.Kind == schemas.KindWeights && (last || link.Named(c.Plan.Stages[w.Stage].Link).Learnt) {
			records = append(records, w.Record())
		}
	}
	return records
}

// Block returns a stage's weights in a version, and their digest. The weights of an update on sparse rows cover few
// columns; a version has them in full.
func (c *Chain) Block(stage int, m *model.Model) (*schemas.Weights, wire.Digest) {
	final, digest := c.Final(stage)
	if u := c.Plan.Update(); u != nil && u.Sparse {
		final = c.whole(stage, m.Weights(stage))
		digest = final.Record().Digest()
	}
	return final, digest
}

// whole returns the full final weights of a stage of an update on sparse rows. It is a record of its own, whose parent has
// the weights that the update changed.
func (c *Chain) whole(stage int, w []float32) *schemas.Weights {
	final, digest := c.Final(stage)
	all, k := *final, c.Prepared.Labels.Len()
	all.Visit, all.Parent = final.Visit+1, digest
	all.Tensors = wire.Tensors[float32]{wire.Matrix(statistics.TensorW, len(w)/k, k, w)}
	return &all
}

// Structure returns the digest of the record of a stage's trees, among [Chain.Records]; "" if the stage has none.
func (c *Chain) Structure(stage int) wire.Digest {
	if w := c.structure(stage); w != nil {
		return w.Record().Digest()
	}
	return ""
}

// Trees returns the digest of a stage's trees, whichever run has grown them; "" if it has none, or none yet.
func (c *Chain) Trees(stage int) wire.Digest {
	if w := c.structure(stage); w != nil {
		return schemas.WeightsDigest(w.Tensors)
	}
	return ""
}
