package client

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// publisher writes versions of random weights to the topics of a pipeline, as a solver does. The versions have one preparation and the
// same feature maps, as those of a chain have.
type publisher struct {
	testing.TB
	*protocol.Client
	log                      *kafkalog.Log
	stages, features, inputs int // of a version; features is of a stage
	classes                  []string
	number                   int // of the last version
	last                     string
	places                   map[int]schemas.Place // of the versions
	damage                   func(messages []wire.Message) []wire.Message
}

// brokers starts a cluster of one broker, with the topics of a pipeline, and returns a publisher on it.
func brokers(t testing.TB) (*publisher, *kfake.Cluster) {
	t.Helper()
	cluster := assert.Must(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	return newPublisher(t, kafkalog.Options{Brokers: cluster.ListenAddrs()}), cluster
}

// newPublisher creates the topics of the pipeline p.
func newPublisher(t testing.TB, o kafkalog.Options) *publisher {
	t.Helper()
	return newPublisherOf(t, o, "p")
}

func newPublisherOf(t testing.TB, o kafkalog.Options, name string) *publisher {
	t.Helper()
	log := assert.Must(kafkalog.Open(t.Context(), o))(t)
	t.Cleanup(func() { assert.NoError(t, log.Close()) })
	topics := protocol.TopicsOf(name)
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: topics.Plans, Partitions: 1},
		kafkalog.Topic{Name: topics.Versions, Partitions: 1}, kafkalog.Topic{Name: topics.Examples, Partitions: 1}))
	return &publisher{TB: t, Client: protocol.NewClient(log, name, nil), log: log, stages: 2, features: 4, inputs: 3,
		classes: []string{"no", "yes"}, places: map[int]schemas.Place{}}
}

// options are those of a follower of the pipeline, on brokers.
func (p *publisher) options(cluster *kfake.Cluster) Options {
	return Options{Name: "p", Brokers: cluster.ListenAddrs()}
}

func (p *publisher) append(topic string, messages ...wire.Message) {
	p.Helper()
	assert.Must(p.Client.Log.Append(p.Context(), topic, 0, messages...))(p.TB)
}

// plan returns the plan of the next version.
func (p *publisher) plan() *schemas.Plan {
	stage := solve.Defaults()
	stage.Features = stages.DefaultsOf(stages.RFF)
	stage.Features.Size, stage.Link = p.features, link.Softmax
	plan := &schemas.Plan{
		Name: p.Topics.Name, Spans: coverage.Spans{{From: 0, To: 4}}, Foreign: true, Missing: "error",
		Prepare: schemas.Prepare{Scale: stages.ScaleNone},
		Stages:  slices.Repeat([]schemas.Stage{stage}, p.stages), Seed: 7, Segment: 16, Submission: fmt.Sprint(p.number + 1),
		Chain: &schemas.Chain{Number: p.number + 1, Begins: []int64{0}},
	}
	if p.last != "" {
		plan.Chain.Parent, plan.Chain.Update = &schemas.Warm{Run: p.last}, &schemas.Update{Passes: 1, Decay: 1}
	}
	return plan
}

// publish writes the next version, its plan before it, and after it the end of its run, and returns its number.
func (p *publisher) publish() int {
	p.Helper()
	return p.publishAs(false)
}

// withhold is publish of a version that is not offered.
func (p *publisher) withhold() int {
	p.Helper()
	return p.publishAs(true)
}

func (p *publisher) publishAs(withheld bool) int {
	p.Helper()
	place := p.write()
	place.Withheld = withheld
	p.end(place)
	return place.Version
}

// write writes the plan and the messages of the next version.
func (p *publisher) write() *schemas.Place {
	p.Helper()
	plan, err := p.plan(), error(nil)
	_, plan.Since.Plans, err = p.Client.Log.Bounds(p.Context(), p.Topics.Plans, 0)
	assert.NoError(p.TB, err)
	p.number++
	p.last = plan.Run()
	messages := assert.Must(plan.Messages())(p.TB)
	p.append(p.Topics.Plans, messages...)
	manifest, records := p.version(plan)
	place := assert.Must(p.publishRecords(manifest, records))(p.TB)
	p.places[place.Version] = *place
	return place
}

// publishRecords is [protocol.Client.PublishVersion], with messages that may be damaged.
func (p *publisher) publishRecords(manifest *schemas.Manifest, records []*wire.Record[float32]) (*schemas.Place, error) {
	client := *p.Client
	if p.damage != nil {
		client.Log = damaged{p.Client.Log, p.damage}
	}
	return client.PublishVersion(p.Context(), manifest, records, nil)
}

// damaged is a log to which messages are written that a function has changed.
type damaged struct {
	protocol.Log
	damage func([]wire.Message) []wire.Message
}

func (d damaged) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (int64, error) {
	return d.Log.Append(ctx, topic, partition, d.damage(slices.Clone(messages))...)
}

// end ends the run of a version: now it counts.
func (p *publisher) end(place *schemas.Place) {
	p.Helper()
	p.append(p.Topics.Plans, (&schemas.End{Run: place.Run, State: schemas.Done, Version: place, Attempt: cmp.Or(place.Run, "x")}).Message())
}

// version returns the manifest of the version of a plan, and its records.
func (p *publisher) version(plan *schemas.Plan) (*schemas.Manifest, []*wire.Record[float32]) {
	p.Helper()
	random := rand.New(rand.NewPCG(uint64(p.number), 1))
	k := len(p.classes)
	ones := slices.Repeat([]float32{1}, p.inputs)
	survey := &statistics.SurveyResult{
		Identity: wire.Identity{Kind: statistics.KindPrepare, Run: plan.Run(), Stage: wire.Survey, Parent: plan.Digest()},
		Preparation: wire.Tensors[float32]{
			wire.Vector(statistics.TensorCenter, make([]float32, p.inputs)), wire.Vector(statistics.TensorScale, ones),
			wire.Vector(statistics.TensorSpread, []float32{1}), wire.Words[float32](statistics.TensorLabels, p.classes),
		},
	}
	records := []*wire.Record[float32]{wire.RecordOf[float32](survey)}
	manifest := &schemas.Manifest{Name: plan.Name, Version: p.number, Run: plan.Run(), Plan: plan, Labels: p.classes,
		Prepare: records[0].Digest()}
	var weights [][]*schemas.Weights
	for stage := range plan.Stages {
		values := make([]float32, p.features*k)
		for i := range values {
			values[i] = float32(random.NormFloat64())
		}
		w := &schemas.Weights{
			Identity: wire.Identity{Kind: schemas.KindWeights, Run: plan.Run(), Stage: stage, Visit: 1, Parent: records[stage].Digest()},
			Tensors:  wire.Tensors[float32]{wire.Matrix(statistics.TensorW, p.features, k, values)}, Final: &schemas.Final{},
		}
		record := wire.RecordOf[float32](w)
		records, weights = append(records, record), append(weights, []*schemas.Weights{w})
		manifest.Blocks = append(manifest.Blocks, schemas.BlockDigest{Stage: stage, Visit: 1, Digest: record.Digest()})
	}
	manifest.WeightsDigest = assert.Must(model.New(manifest, survey.Preparation, weights))(p.TB).Digest()
	return manifest, records
}

// pin pins a version; 0 unpins.
func (p *publisher) pin(version int) {
	p.Helper()
	p.append(p.Topics.Plans, (&schemas.Pin{Run: p.places[version].Run, Version: version}).Message())
}

func (p *publisher) remove(version int) {
	p.Helper()
	assert.NoError(p.TB, p.RemoveVersion(p.Context(), p.places[version]))
}

// delete deletes the topics of the pipeline.
func (p *publisher) delete() error {
	return p.log.Delete(p.Context(), p.Topics.Plans, p.Topics.Versions, p.Topics.Examples)
}

func kafkalogOptions(cluster *kfake.Cluster) kafkalog.Options {
	return kafkalog.Options{Brokers: cluster.ListenAddrs()}
}
