package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"
)

var update = flag.Bool("update", false, "write the goldens and the tables of FORMAT.md again")

// samples returns at least one message of each kind, from the same encoders that the program uses. The samples of a kind
// together have every tensor and every note that the kind may have. All records have one chunk.
func samples(t testing.TB) map[string]Message {
	mem := checked(t)
	examples := func(rows *ExampleRows) Message {
		return must(Origin{Source: "source", Attempt: "1", Sequence: 5}.Message(rows, mem))(t)
	}
	sparse := Message{Value: fromJSON(t, mem, `[{"features":[{"index":1,"value":2},{"index":4,"value":-1}],"label":"a"},{"features":[],"label":null}]`,
		sparse(arrow.PrimitiveTypes.Int32), field("label", arrow.BinaryTypes.String))}
	// As a data frame of pandas writes them, with a category as the label.
	frame := Message{Value: fromJSON(t, mem, `[{"features":[1,null],"label":"a","weight":0.5},{"features":[3,4],"label":null,"weight":1}]`,
		field("features", arrow.LargeListOf(arrow.PrimitiveTypes.Float64)), field("label", encodedAs(arrow.PrimitiveTypes.Int8, arrow.BinaryTypes.String)),
		field("weight", arrow.PrimitiveTypes.Float64))}
	kinds := rowsOfAllColumns(3)
	manifest, _ := model()
	update, window := updatePlan(), windowAfter(updatePlan())
	manifest.Thresholds = &Thresholds{0.5, 0.25, 0.25, 0.75}
	manifest.Window, manifest.WindowRows, manifest.PlansFrom = &StatePlace{Run: update.Run(), From: 20, To: 21}, 180, 12
	p := plan()
	stage, averaged := stageReport(), stageReport()
	averaged.Member = 2
	averaged.Average = &AverageReport{Members: 2, TrainError: 0.25, TestError: stage.TestError, TrainLoss: 0.03125, TestLoss: stage.TestLoss, HoldoutError: stage.HoldoutError, HoldoutLoss: stage.HoldoutLoss}
	place := Place{Run: p.Run(), Version: 2, From: 30, Manifest: 34, To: 35, Withheld: true}
	removed := p.Sources[0]
	removed.ID, removed.Files = "removed", []string{"old.csv"}
	ledger := &Ledger{Before: 64, Unfinished: []Place{{Run: "next", From: 60, To: 61, Since: &p.Since}}, Sources: p.Sources, Removed: []SourceSeal{removed}, Incomplete: []string{"other/1"}, Versions: []Place{place}, Highest: 2, Chained: &ChainedRun{Run: "next", Number: 4, Attempt: 1, Parent: "version"}, Pinned: place.Run, Swept: 10}
	bad := Quarantined{Topic: "digits.examples", Partition: 1, Offset: 7, Reason: "damaged or foreign bytes", Key: "k", Bytes: 3, Value: []byte{1, 2, 3}}
	heedful := updatePlan()
	heedful.Heeded = &Heeded{Entries: 2, Last: "forget/0123456789ab"}
	joined := updatePlan()
	joined.Chain.Join, joined.Chain.Update.Leave[0].Joined = [][]int{{2, 3}, {5, 7, 8}}, 2
	unusable := prediction(0, 3)
	unusable.After, unusable.Row, unusable.Until, unusable.Rows, unusable.Reason = 9, 0, 0, 0, "damaged or foreign bytes"
	all := map[string]Message{
		"examples":           examples(kinds["all"]),
		"examples-targets":   examples(&ExampleRows{Rows: 2, Cols: 1, Floats: []float32{1, 2}, Targets: []float64{1.5, -2, math.NaN(), 0}}),
		"examples-bytes":     examples(kinds["bytes"]),
		"examples-topic":     must(Origin{Source: TopicSource("clicks"), Attempt: "1", Sequence: 5}.TopicMessage(positions(), kinds["all"], mem))(t),
		"examples-keys":      must(Origin{Source: TopicSource("clicks"), Attempt: "2", Partitions: 4, After: Turn(1, 9)}.TopicMessage(positions(), &ExampleRows{Rows: 3, Cols: 1, Floats: []float32{1, 2, 3}, SourceKeys: []string{"u42", "", "u7"}, Origins: RowOrigins{{0, 4, 1, 3}}}, mem))(t),
		"examples-sparse":    sparse,
		"examples-frame":     frame,
		"residuals":          must(residuals(2, 3).Encode(mem))(t),
		"residuals-votes":    must(voted(2, 3).Encode(mem))(t),
		"prediction":         must(prediction(2, 3).Encode(mem))(t),
		"prediction-several": must(predictionOf(SeveralLabels, 2, 3).Encode(mem))(t),
		"prediction-numbers": must(predictionOf(Numbers, 2, 3).Encode(mem))(t),
		"prediction-none":    must(unusable.Encode(mem))(t),
		"plan":               must(p.Messages())(t)[0],
		"plan-update":        must(update.Messages())(t)[0],
		"plan-heeded":        must(heedful.Messages())(t)[0],
		"plan-joined":        must(joined.Messages())(t)[0],
		"plan-average":       must(averagePlan().Messages())(t)[0],
		"window":             must(window.Messages())(t)[0],
		"end":                (&End{Run: p.Run(), State: Failed, Reason: "offsets 0 to 9 are gone", Source: "source/1", Attempt: "2"}).Message(),
		"end-done":           (&End{Run: p.Run(), State: Done, Version: &place, Since: p.Since, Attempt: "1"}).Message(),
		"pin":                (&Pin{Run: p.Run(), Version: 2}).Message(),
		"forget":             (&Forget{Rows: Forgotten{{0, 3, 9, 0, 0}, {1, 7, 8, 2, 5}}, Source: "source"}).Message(),
		"forget-message":     (&Forget{Rows: Forgotten{{0, 3, 5, 0, 0}, {1, 7, 8, 2, 5}}, Checksums: []string{"0000002a", "", ForgetChecksum([]byte("value"))}}).Message(),
		"forget-lost":        (&Forget{Lost: heedful.Heeded}).Message(),
		"removal":            (&Removal{Run: p.Run(), Version: 2}).Message(),
		"source-removal":     (&SourceRemoval{Seal: p.Sources[0]}).Message(),
		"ledger":             must(ledger.Messages())(t)[0],
		"stage":              stage.Message(p.Run()),
		"stage-overflow":     (&StageReport{Link: "identity", Passes: 1, Seconds: 1, Overflow: 3}).Message(p.Run()),
		"stage-average":      averaged.Message(averagePlan().Run()),
		"claim":              (&Claim{Run: p.Run()}).Message(),
		"failure":            (&Failure{Run: p.Run(), Parent: "last", Partitions: []int{1, 3}, Source: "source/1", Reason: "offsets 0 to 9 are gone"}).Message(),
		"failure-expired":    (&Failure{Run: p.Run(), Parent: "plan", Partitions: []int{1, 3}, Expired: true, Reason: "the first weights were deleted"}).Message(),
		"source":             p.Sources[0].Message(),
		"manifest":           must(manifest.Messages())(t)[0],
		"quarantine":         bad.Message(),
		"report":             must(report().Messages())(t)[0],
	}
	id := func(kind Kind, stage, visit, partition int) Identity {
		return Identity{kind, p.Run(), stage, visit, partition, p.Digest()}
	}
	covered := Coverage{Spans{{1, 0, 9}}, 9, 90, 7}
	final := Tensors[float64]{
		Matrix(FieldSplits, 3, LossFields, numbered[float64](12)), Matrix(FieldQuality, 3, 2, numbered[float64](6)),
		{Name: FieldBins, Shape: []int{3, 15, 3}, Data: numbered[float64](135)}, {Name: FieldConfusion, Shape: []int{3, 2, 2}, Data: numbered[float64](12)},
	}
	several := Tensors[float64]{Matrix(FieldSplits, 3, LossFields, numbered[float64](12)), {Name: FieldHits, Shape: []int{3, 100, 2, 2}, Data: numbered[float64](1200)},
		Matrix(FieldSubset, 3, 101, numbered[float64](303)), Matrix(FieldRanks, 3, 3, numbered[float64](9)), Vector(FieldCalibrated, []float64{12, 9})}
	for name, r := range map[string]*Record[float64]{
		"visit": (&Visit{id(KindVisit, 0, 1, 1), covered, Tensors[float64]{
			Matrix(FieldSplits, 3, LossFields, numbered[float64](12)), Matrix(FieldCross, 2, 2, numbered[float64](4)), Vector(FieldTrace, []float64{5})}}).Record(),
		"visit-overflow": (&Visit{id(KindVisit, 0, 0, 1), covered, Tensors[float64]{
			Matrix(FieldSplits, 3, LossFields, numbered[float64](12)), Matrix(FieldCross, 2, 2, numbered[float64](4)), Vector(FieldOverflow, []float64{3})}}).Record(),
		"visit-ridge": (&Visit{id(KindVisit, 0, 0, 1), covered, Tensors[float64]{
			Matrix(FieldSplits, 3, LossFields, numbered[float64](12)), Matrix(FieldCross, 2, 2, numbered[float64](4)), Vector(FieldResidual, []float64{45, 90})}}).Record(),
		"visit-survey": (&SurveyVisit{Visit: Visit{id(KindVisit, Survey, 0, 1), covered, Tensors[float64]{
			Vector(FieldSums, numbered[float64](2)), Vector(FieldSquares, numbered[float64](2)), Vector(FieldPresent, numbered[float64](2)),
			Matrix(FieldSplits, 3, LossFields, numbered[float64](12))}}, Shift: []float32{0.5, 2}, Labels: []string{"a", "<b>"}, Quarantined: 1,
			PassedOver: PassedOver{Repeated: 3}, Columns: Columns{{Name: "size"}, {Name: "colour"}}}).Record(),
		"visit-survey-balanced": (&SurveyVisit{Visit: Visit{id(KindVisit, Survey, 0, 1), covered, Tensors[float64]{
			Matrix(FieldSplits, 3, LossFields, numbered[float64](12))}}, Shift: []float32{0.5}, Labels: []string{"a", "b"}, LabelRows: []int64{80, 10}}).Record(),
		"visit-sparse": (&Visit{id(KindVisit, 0, 0, 1), covered, Tensors[float64]{
			Matrix(FieldSplits, 3, LossFields, numbered[float64](12)), Matrix(FieldCross, 2, 2, numbered[float64](4)),
			Vector(FieldDiagonal, []float64{5, 80}), Vector(FieldBounds, []float64{9, 99})}}).Record(),
		"visit-block": (&Visit{id(KindVisit, 0, 1, 1), covered, Tensors[float64]{
			Matrix(FieldSplits, 3, LossFields, numbered[float64](12)), Matrix(FieldCross, 2, 2, numbered[float64](4)), Matrix(FieldBlock, 2, 2, []float64{0, 1, 2, 3})}}).Record(),
		"visit-counts": (&Visit{id(KindVisit, 1, 0, 1), covered, Tensors[float64]{
			Matrix(FieldSplits, 3, LossFields, numbered[float64](12)), Matrix(FieldCounts, 2, 2, numbered[float64](4))}}).Record(),
		"visit-trials": (&Visit{id(KindVisit, 1, 1, 1), covered, Tensors[float64]{
			Matrix(FieldSplits, 3, LossFields, numbered[float64](12)), Matrix(FieldTrials, 2, 3, numbered[float64](6))}}).Record(),
		"visit-survey-sparse": (&SurveyVisit{Visit: Visit{id(KindVisit, Survey, 0, 1), covered, Tensors[float64]{
			Matrix(FieldSplits, 3, LossFields, numbered[float64](12))}}, Labels: []string{"a", "b"}, Sparse: true, ColumnRows: []ColumnRows{{3, 7}, {MaxColumns - 1, 1}}}).Record(),
		"visit-survey-numbers": (&SurveyVisit{Visit: Visit{id(KindVisit, Survey, 0, 1), covered, Tensors[float64]{
			Matrix(FieldSplits, 3, LossFields, numbered[float64](12)), Matrix(FieldTargets, 3, 2, numbered[float64](6)), {Name: FieldDistances, Shape: []int{3, 2, 4}, Data: numbered[float64](24)}}},
			Shift: []float32{0.5}, Labels: []string{}}).Record(),
		"seal-numbers": (&Seal{Identity: id(KindSeal, 0, 0, 1), Attempt: "2", From: 0, To: 9, Rows: 90, Scores: "digest", Covered: covered,
			Sums: Tensors[float64]{Matrix(FieldSplits, 3, LossFields, numbered[float64](12)), {Name: FieldDistances, Shape: []int{3, 2, 4}, Data: numbered[float64](24)}}}).Record(),
		"visit-calibration": (&Visit{id(KindVisit, 0, 1, 1), covered, several}).Record(),
		"seal-several":      (&Seal{Identity: id(KindSeal, 0, 0, 1), Attempt: "2", From: 0, To: 9, Rows: 90, Scores: "digest", Covered: covered, Sums: several[:4:4]}).Record(),
		"visit-update": (&Visit{id(KindVisit, 0, 1, 1), covered, Tensors[float64]{
			Matrix(FieldSplits, 3, LossFields, numbered[float64](12)), {Name: FieldTerms, Shape: []int{1, 2, 2, 2}, Data: numbered[float64](8)},
			Matrix(FieldVisited, 1, 5, []float64{0, 80, 9, 8, 2})}}).Record(),
		"visit-survey-update": (&SurveyVisit{Visit: Visit{id(KindVisit, Survey, 0, 1), covered, append(final[:len(final):len(final)], Vector(FieldOffered, []float64{8, 2}))}, Shift: []float32{0, 0},
			Skipped: Spans{{1, 3, 4}}, Progress: []PartitionProgress{{Source: "source", Attempt: "1", Next: 4}}, Unknown: []LabelRows{{"c", 2}}, Bad: BadMessages{1, 3, 1, 3, "damaged"}, Increments: []Coverage{covered}, Messages: []MessageLosses{{Offset: 2, Losses: Losses{10, 10, 1, 2}}}}).Record(),
		"visit-survey-images": (&SurveyVisit{Visit: Visit{id(KindVisit, Survey, 0, 1), covered, final}, Shift: []float32{0, 0}, Image: Image{1, 2, 1}}).Record(),
		"seal-chain": (&Seal{Identity: id(KindSeal, 0, 0, 1), Attempt: "2", From: 0, To: 9, Rows: 90, Scores: "digest", Covered: covered,
			Sums: append(final[:len(final):len(final)], Tensor[float64]{Name: FieldTerms, Shape: []int{1, 2, 2, 2}, Data: numbered[float64](8)}, Matrix(FieldVisited, 1, 5, []float64{0, 80, 9, 8, 2}))}).Record(),
		"seal-average": (&Seal{Identity: id(KindSeal, 0, 0, 1), Attempt: "2", From: 0, To: 9, Rows: 90, Scores: "digest", Covered: covered,
			Sums: append(final[:len(final):len(final)], Matrix(PartAverage+"/"+FieldSplits, 3, LossFields, numbered[float64](12)))}).Record(),
		"leave-forgotten": (&Gram{Identity: id(KindLeave, 0, 0, 1), Matrix: numbered[float64](3), Weight: 2.5}).ExactRecord(),
		"leave":           (&Gram{Identity: id(KindLeave, 0, 0, 1), Matrix: numbered[float64](3)}).ExactRecord(),
		"moments":         (&Moments{Identity: id(KindMoments, 0, 0, 0), Gram: numbered[float64](3), Scores: numbered[float64](4), Gradient: numbered[float64](4), Columns: 2, Classes: 2, Curvature: 0.25}).Record(),
		"increment":       (&IncrementTerms{Identity: id(KindIncrement, 0, 1, 1), Terms: numbered[float64](8), Columns: 2, Classes: 2}).Record(),
		"terms":           (&Terms{Identity: id(KindTerms, 0, 1, 0), Scores: numbered[float64](4), Gradient: numbered[float64](4), Columns: 2, Classes: 2}).Record(),
		"gram-exact":      (&Gram{Identity: id(KindGram, Survey, 0, 1), Matrix: numbered[float64](3)}).ExactRecord(),
		"seal":            (&Seal{Identity: id(KindSeal, 0, 0, 1), Attempt: "2", From: 0, To: 9, Rows: 90, Scores: "digest", Covered: covered, Sums: final}).Record(),
	} {
		all[name] = must(r.Encode(mem))(t)[0]
	}
	for name, r := range map[string]*Record[float32]{
		"gram":   (&Gram{Identity: id(KindGram, 0, 0, 1), Matrix: numbered[float64](3), Weight: 90}).BlockRecord(),
		"sample": (&Sample{id(KindSample, Survey, 0, 1), 2, numbered[float32](4), []uint64{0xff, 0xfff}}).Record(),
		"prepare-chain": (&SurveyResult{Identity: id(KindPrepare, Survey, 0, 0), PassedOver: PassedOver{}, Preparation: Tensors[float32]{
			Vector(TensorCenter, numbered[float32](2)), Vector(TensorScale, []float32{1, 0}), Vector(TensorSpread, []float32{2}), Words[float32](TensorLabels, []string{"a", "b"})},
			Covered: []Coverage{covered}, Skipped: Spans{{1, 3, 4}}, Increments: update.Chain.Update.Refresh}).Record(),
		"prepare-images": (&SurveyResult{Identity: id(KindPrepare, Survey, 0, 0), PassedOver: PassedOver{}, Preparation: Tensors[float32]{
			Vector(TensorCenter, numbered[float32](2)), Vector(TensorScale, []float32{1, 0}), Vector(TensorSpread, []float32{2}), Words[float32](TensorLabels, []string{"a", "b"}),
			Vector(TensorImage, []float32{1, 2, 1}), Matrix(OfStage(TensorWhitening, 0), 1, 1, []float32{2}), Vector(OfStage(TensorOffset, 0), []float32{1}),
			Matrix(OfStage(TensorFilters, 0), 1, 1, []float32{1}), Vector(OfStage(TensorContrast, 0), []float32{0.5}),
			Vector(OfStage(TensorMean, 0), numbered[float32](2)), Vector(OfStage(TensorFactor, 0), numbered[float32](2))}, Covered: []Coverage{covered}}).Record(),
		"prepare": (&SurveyResult{Identity: id(KindPrepare, Survey, 0, 0), Rows: [Splits]int64{90, 0, 30}, Quarantined: 1, PassedOver: PassedOver{Repeated: 3, Expired: 1}, Preparation: Tensors[float32]{
			Vector(TensorCenter, numbered[float32](2)), Vector(TensorScale, []float32{1, 0}), Matrix(TensorBasis, 2, 1, []float32{1, 0}),
			Vector(TensorSpread, []float32{2}), Words[float32](TensorLabels, []string{"a", "b"})}, Covered: []Coverage{covered}, Columns: Columns{{Name: "size"}, {Name: "colour"}}}).Record(),
		"prepare-numbers": (&SurveyResult{Identity: id(KindPrepare, Survey, 0, 0), Rows: [Splits]int64{90, 0, 30}, PassedOver: PassedOver{}, Preparation: Tensors[float32]{
			Vector(TensorCenter, numbered[float32](2)), Vector(TensorScale, []float32{1, 0}), Vector(TensorSpread, []float32{2}),
			Vector(TensorTargetCenter, []float32{10, 20}), Vector(TensorTargetScale, []float32{2, 4}), Words[float32](TensorLabels, []string{"x", "y"})}, Covered: []Coverage{covered}}).Record(),
		"prepare-balanced": (&SurveyResult{Identity: id(KindPrepare, Survey, 0, 0), Rows: [Splits]int64{90, 0, 30}, PassedOver: PassedOver{}, Preparation: Tensors[float32]{
			Vector(TensorCenter, numbered[float32](2)), Vector(TensorScale, []float32{1, 0}), Vector(TensorSpread, []float32{2}),
			Vector(TensorClassWeight, []float32{0.5, 4}), Words[float32](TensorLabels, []string{"a", "b"})}, Covered: []Coverage{covered}}).Record(),
		"prepare-sparse": (&SurveyResult{Identity: id(KindPrepare, Survey, 0, 0), Rows: [Splits]int64{90, 0, 30}, Preparation: Tensors[float32]{
			Vector(TensorFactors, []float32{0, 1.5, 0.5}), Words[float32](TensorLabels, []string{"a", "b"})}, Covered: []Coverage{covered}}).Record(),
		"weights": (&Weights{Identity: id(KindWeights, 0, 2, 0), Tensors: Tensors[float32]{Matrix(TensorW, 3, 2, numbered[float32](6))},
			Final: &Final{Visit: 1}}).Record(),
		"weights-calibration": (&Weights{Identity: id(KindWeights, 0, 2, 0), Tensors: Tensors[float32]{Matrix(TensorCalibration, 6, 2, numbered[float32](12))},
			Final: &Final{Visit: 2, Passes: 1}}).Record(),
		"weights-block": (&Weights{Identity: id(KindWeights, 0, 2, 0), Tensors: Tensors[float32]{Matrix(TensorW, 3, 2, numbered[float32](6)), Matrix(TensorBlock, 2, 2, []float32{0, 1, 2, 0})}}).Record(),
		"weights-change": (&Weights{Identity: id(KindWeights, 0, 2, 0), Tensors: Tensors[float32]{
			Matrix(TensorChanged, 1, 2, []float32{0, 3}), Matrix(TensorChange, 2, 2, numbered[float32](4)), Matrix(TensorBlock, 2, 2, []float32{0, 1, 2, 0})}}).Record(),
		"weights-ridge": (&Weights{Identity: id(KindWeights, 0, 2, 0), Tensors: Tensors[float32]{Matrix(TensorW, 3, 2, numbered[float32](6))},
			Ridge: 0.003}).Record(),
		"weights-pass": (&Weights{Identity: id(KindWeights, 0, 2, 0), Tensors: Tensors[float32]{Matrix(TensorW, 3, 2, numbered[float32](6))},
			Final: &Final{Visit: 1}, Weight: new(Weight(0.5)), Pass: &PassReport{Pass: 1, Objective: 0.25, Accepted: true, TrainError: 0.5, TrainLoss: 0.0625, TestError: new(2.5), TestLoss: new(0.125)}}).Record(),
	} {
		all[name] = must(r.Encode(mem))(t)[0]
	}
	return all
}

// updatePlan returns the plan of an update that visits one increment again while one leaves.
func updatePlan() *Plan {
	p := plan()
	covered := func(partition int, rows int64) []Coverage {
		return []Coverage{{Spans: Spans{{partition, 0, 2}}, Messages: 1, Rows: rows, Checksum: 3}}
	}
	p.Warm = &Warm{Run: "parent", Manifest: "manifest"}
	p.Chain = &Chain{
		Number: 3, Parent: p.Warm, From: 1690000000000, Until: 1700000000000, Open: true, Gate: &Gate{Split: "holdout", Margin: 0.5, Offered: *p.Warm}, Begins: []int64{0, 4}, Ends: []int64{2, 6}, Times: []IncrementTime{{1, 1600000000000}}, Merge: [][2]int{{1, 2}}, Progress: []SourceProgress{{Source: "source", Attempt: "1", Next: []int64{4, 1}}},
		Made: 1700000000001, Marks: []Mark{{1, 5, "0000000f-18bcfe56800"}}, Lost: Spans{{0, 2, 3}}, Had: 12, AtLeast: 11,
		Update: &Update{Passes: 2, Decay: 0.5, Restart: true, Refresh: []Increment{{Number: 2, Weight: 0.5, Covered: covered(1, 10), Skipped: Spans{{1, 1, 2}}}},
			Leave:  []Increment{{Number: 1, Weight: 0.25, Covered: covered(0, 9), Skipped: Spans{{0, 1, 2}}, Uncounted: true}},
			Forget: []Increment{{Number: 2, Weight: 0.5, Covered: covered(1, 10), Skipped: Spans{{1, 1, 2}}}}},
	}
	p.Forgotten = Forgotten{{1, 0, 1, 2, 5}}
	p.Submission = "update"
	return p
}

// windowAfter returns the window after an update.
func windowAfter(p *Plan) *Window {
	at := StatePlace{Run: p.Run(), From: 3, To: 5, Index: 1}
	chain := *p.Chain
	chain.Increments = p.Chain.Update.Leave
	return &Window{
		Run: p.Run(), Chain: &chain, Full: 1, FullRows: 9, Stages: 2, Bases: []StatePlace{at}, Left: []int{1}, Ends: []int64{2, 6}, Errors: []ErrorSum{{1, 90, 3}}, Rejected: 1, AtLeast: 11, Changed: 2, MostlyBad: &BadMessages{2, 3, 1, 4, "damaged"}, Unknown: []LabelRows{{"c", 2}}, Progress: p.Chain.Progress, Moments: at, Snapshot: at,
		Since:      []StatePlace{{Run: "parent", Since: &p.Since, Partitions: []int{0, 1}, Decay: 0.5}},
		Increments: []WindowIncrement{{Increment: p.Chain.Update.Refresh[0], Visited: 3, Fitted: 8, Messages: 1, Until: 1700000000000, Terms: at}},
	}
}

func stageReport() *StageReport {
	percent, loss := 2.5, 0.125
	return &StageReport{Stage: 1, Link: "softmax", Passes: 4, Ridge: 0.25, Weight: new(Weight(0.5)), Seconds: 1.5, TrainError: 0.5, TestError: &percent, TrainLoss: 0.0625, TestLoss: &loss,
		HoldoutError: &percent, HoldoutLoss: &loss,
		ByPass: []PassReport{{Pass: 1, Objective: 0.25, Accepted: true, TrainError: 0.5, TrainLoss: 0.0625, TestError: &percent, TestLoss: &loss, HoldoutError: &percent, HoldoutLoss: &loss}}}
}

func report() *Report {
	stage := stageReport()
	return &Report{
		Name: "digits", Version: 2, Run: plan().Run(), Rows: 90, Classes: 2, Labels: []string{"a", "<b>"}, Quarantined: 1, PassedOver: PassedOver{Repeated: 3, Expired: 1}, IngestSeconds: 0.5, Seconds: 1.5,
		Stages: []StageReport{*stage}, TrainError: 0.5, TestError: stage.TestError, WeightsDigest: "weights", Thresholds: &Thresholds{0.5, 0.25, 0.25, 0.75},
		Retrain: &RetrainReport{Version: 2, Kind: RunUpdate, Spans: Spans{{Partition: 1, From: 4, To: 6}}, From: 1690000000000, Until: 1700000000000, Curve: []ErrorBin{{Offset: 4, Messages: 2, Rows: 90, Weight: 90, Error: 2.5, Loss: 0.125}}, Rows: 90, WindowRows: 180, Lost: 4, Gone: 5, Forgotten: 3, PrequentialError: stage.TestError, PrequentialLoss: stage.TestLoss, PrequentialLogLoss: stage.TestLoss, PrequentialBrier: stage.TestLoss, PrequentialECE: stage.TestLoss, PrequentialRMSE: stage.TestLoss, HoldoutError: stage.HoldoutError, Offered: true, UnknownRows: 2, MostlyBad: &BadMessages{2, 3, 1, 4, "damaged"}, Seconds: 1.5},
		Splits: map[string]SplitReport{"holdout": {Rows: 9, Error: 25, Loss: 0.125, RMSE: new(1.5), MAE: new(1.25), R2: new(0.75), Targets: map[string]Distances{"y": {1.5, 1.25, 0.75}}},
			"test": {Rows: 30, Error: 5, Loss: 0.5, LogLoss: new(0.25), Brier: new(0.125), ECE: new(0.0625), Hamming: new(0.05), MicroF1: new(0.75), MacroF1: new(0.5), SubsetAccuracy: new(0.25), PrecisionAt: map[string]float64{"1": 0.75, "3": 0.5, "5": 0.25}}, "train": {Rows: 90, Error: 0.5, Loss: 0.0625, LogLoss: new(0.0625), Brier: new(0.25), ECE: new(0.125), Confusion: [][]int64{{80, 0}, {1, 9}}, Reliability: []ReliabilityBin{{90, 0.75, 0.5}}}},
	}
}

// golden returns the files of a message: its key and headers as readable JSON, and its value as on the topic.
func golden(name string, m Message) (headers, value string) {
	value = filepath.Join("testdata", name+".arrow")
	switch {
	case m.Kind() == KindQuarantine: // its value can be any bytes
		value = filepath.Join("testdata", name+".bytes")
	case strings.HasPrefix(string(m.Value), "{"):
		value = filepath.Join("testdata", name+".json")
	}
	return filepath.Join("testdata", name+".headers.json"), value
}

func readGolden(t testing.TB, name string, like Message) (m Message) {
	headers, value := golden(name, like)
	if err := json.Unmarshal(must(os.ReadFile(headers))(t), &m); err != nil {
		t.Fatal(err)
	}
	m.Value = must(os.ReadFile(value))(t)
	return m
}

func TestGoldens(t *testing.T) {
	for name, m := range samples(t) {
		if *update {
			headers, value := golden(name, m)
			described := must(json.MarshalIndent(struct {
				Key     string
				Headers []Header
			}{m.Key, m.Headers}, "", "  "))(t)
			for path, content := range map[string][]byte{headers: append(described, '\n'), value: m.Value} {
				if err := os.WriteFile(path, content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := readGolden(t, name, m)
		if m.Key != want.Key || !slices.Equal(m.Headers, want.Headers) || !bytes.Equal(m.Value, want.Value) {
			t.Errorf("%s has changed. If this is intended, make sure that the program still reads what is on topics and that FORMAT.md is right. Then test with -update.\nkey %s, was %s\n%v\n%v",
				name, m.Key, want.Key, m.Headers, want.Headers)
		}
	}
}

// Messages of earlier versions can be decoded, and are encoded again with the same bytes.
func TestGoldensAreRead(t *testing.T) {
	mem := checked(t)
	for name, like := range samples(t) {
		m := readGolden(t, name, like)
		got, err := reencode(m, mem)
		if err != nil || got.Key != m.Key || !slices.Equal(got.Headers, m.Headers) || !bytes.Equal(got.Value, m.Value) {
			t.Errorf("%s: %v\n%+v\ndecoded and encoded again\n%+v", name, err, m, got)
		}
	}
}

// reencode decodes a message and encodes the result.
func reencode(m Message, mem memory.Allocator) (Message, error) {
	if IsSingle(m) {
		return recordReencode(m, mem, func(r *Record[float32]) ([]Message, error) {
			var decoded interface{ Record() *Record[float32] }
			var err error
			switch r.Kind {
			case KindGram:
				g, err := BlockGramOf(r, func(size int) []float64 { return make([]float64, size) })
				if err != nil {
					return nil, err
				}
				return g.BlockRecord().Encode(mem)
			case KindSample:
				decoded, err = SampleOf(r)
			case KindPrepare:
				decoded, err = SurveyResultOf(r)
			case KindWeights:
				decoded, err = WeightsOf(r)
			}
			if err != nil {
				return nil, err
			}
			return decoded.Record().Encode(mem)
		})
	}
	switch kindOf(m) {
	case KindExamples:
		e, err := DecodeExamples(m.Value, mem)
		if err != nil {
			return Message{}, err
		}
		e.Release()
		return m, nil // examples_test.go checks the values
	case KindResiduals:
		r, err := DecodeResiduals(m, 3, mem)
		if err != nil {
			return Message{}, err
		}
		return r.Encode(mem)
	case KindPrediction:
		p, err := DecodePrediction(m, mem)
		if err != nil {
			return Message{}, err
		}
		return p.Encode(mem)
	case KindWindow:
		return documentReencode(m, (*Window).Messages)
	case KindVisit, KindSeal, KindGram, KindLeave, KindMoments, KindTerms, KindIncrement:
		return recordReencode(m, mem, func(r *Record[float64]) ([]Message, error) {
			var decoded interface{ Record() *Record[float64] }
			var err error
			switch {
			case r.Kind == KindGram, r.Kind == KindLeave:
				g, err := ExactGramOf(r)
				if err != nil {
					return nil, err
				}
				return g.ExactRecord().Encode(mem)
			case r.Kind == KindMoments:
				decoded, err = MomentsOf(r, 2, 2)
			case r.Kind == KindIncrement:
				decoded, err = IncrementTermsOf(r, 2, 2)
			case r.Kind == KindTerms:
				decoded, err = TermsOf(r, 2, 2)
			case r.Kind == KindSeal:
				decoded, err = SealOf(r)
			case r.Stage == Survey:
				decoded, err = SurveyVisitOf(r)
			default:
				decoded, err = VisitOf(r)
			}
			if err != nil {
				return nil, err
			}
			return decoded.Record().Encode(mem)
		})
	case KindQuarantine:
		q, err := QuarantinedOf(m)
		if err != nil {
			return Message{}, err
		}
		return q.Message(), nil
	case KindStage:
		s, err := DecodeJSON[StageReport](m)
		if err != nil {
			return Message{}, err
		}
		return s.Message(m.Get("run")), nil
	case KindPlan:
		return documentReencode(m, (*Plan).Messages)
	case KindReport:
		return documentReencode(m, (*Report).Messages)
	case KindLedger:
		return documentReencode(m, (*Ledger).Messages)
	case KindManifest:
		return documentReencode(m, (*Manifest).Messages)
	case KindRemoval:
		return jsonReencode[Removal](m)
	case KindPin:
		return jsonReencode[Pin](m)
	case KindForget:
		return jsonReencode[Forget](m)
	case KindSourceRemoval:
		return jsonReencode[SourceRemoval](m)
	case KindEnd:
		return jsonReencode[End](m)
	case KindClaim:
		return jsonReencode[Claim](m)
	case KindFailure:
		return jsonReencode[Failure](m)
	case KindSource:
		return jsonReencode[SourceSeal](m)
	}
	return Message{}, fmt.Errorf("no reader for kind %s", m.Kind())
}

func recordReencode[T Number](m Message, mem memory.Allocator, encode func(*Record[T]) ([]Message, error)) (Message, error) {
	r, err := (&Collector[T]{}).Add(m, mem)
	if err != nil {
		return Message{}, err
	}
	messages, err := encode(r)
	if err != nil {
		return Message{}, err
	}
	return messages[0], nil
}

func documentReencode[T Plan | Report | Ledger | Manifest | Window](m Message, encode func(*T) ([]Message, error)) (Message, error) {
	whole, ok, err := (&Documents{}).Add(m)
	if err != nil || !ok {
		return Message{}, fmt.Errorf("complete: %v, %w", ok, err)
	}
	value, err := DecodeJSON[T](whole)
	if err != nil {
		return Message{}, err
	}
	messages, err := encode(value)
	if err != nil {
		return Message{}, err
	}
	return messages[0], nil
}

func jsonReencode[T Claim | End | Failure | SourceSeal | Removal | SourceRemoval | Pin | Forget](m Message) (Message, error) {
	value, err := DecodeJSON[T](m)
	if err != nil {
		return Message{}, err
	}
	return any(value).(interface{ Message() Message }).Message(), nil
}

// Every kind that the package declares has a layout and a golden.
func TestEveryKindHasLayoutAndGolden(t *testing.T) {
	declared, documented, shown := declaredKinds(t), map[Kind]bool{}, map[Kind]bool{}
	for _, l := range layouts() {
		if documented[l.kind] {
			t.Errorf("kind %s has two layouts", l.kind)
		}
		documented[l.kind] = true
	}
	for _, m := range samples(t) {
		shown[kindOf(m)] = true
	}
	for _, kind := range declared {
		if !documented[kind] {
			t.Errorf("kind %s has no layout: list it in layouts", kind)
		}
		if !shown[kind] {
			t.Errorf("kind %s has no golden: add one to samples", kind)
		}
	}
	if len(documented) != len(declared) {
		t.Errorf("%d kinds, %d layouts", len(declared), len(documented))
	}
}

// kindOf returns the kind of a message. An examples message has no header that says it, as other producers write them too.
func kindOf(m Message) Kind {
	if m.Kind() == "" {
		return KindExamples
	}
	return m.Kind()
}

// declaredKinds returns the constants of type Kind.
func declaredKinds(t *testing.T) (kinds []Kind) {
	files := must(filepath.Glob("*.go"))(t)
	for _, name := range files {
		file := must(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || spec.Type == nil {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Kind" && len(spec.Values) == 1 {
				text := must(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))(t)
				kinds = append(kinds, Kind(text))
			}
			return true
		})
	}
	return kinds
}

// The goldens of a kind have exactly the tensors, notes and JSON fields of its layout.
func TestGoldensAreAsTheirLayout(t *testing.T) {
	mem := checked(t)
	tensors, noted, fields := map[Kind]map[string]bool{}, map[Kind]map[string]bool{}, map[Kind]map[string]bool{}
	add := func(to map[Kind]map[string]bool, kind Kind, name string) {
		if to[kind] == nil {
			to[kind] = map[string]bool{}
		}
		to[kind][name] = true
	}
	for name, m := range samples(t) {
		for _, n := range notes(m) {
			add(noted, m.Kind(), n.Key)
		}
		var object map[string]any
		if json.Unmarshal(m.Value, &object) == nil {
			for field := range object {
				add(fields, m.Kind(), field)
			}
		}
		if m.Get("schema") == "" || kindOf(m) == KindResiduals || kindOf(m) == KindPrediction {
			continue
		}
		var names []string
		if IsSingle(m) {
			names = tensorNames(t, must((&Collector[float32]{}).Add(m, mem))(t).Tensors)
		} else {
			names = tensorNames(t, must((&Collector[float64]{}).Add(m, mem))(t).Tensors)
		}
		if len(names) == 0 {
			t.Errorf("%s has no tensors", name)
		}
		for _, tensor := range names {
			add(tensors, m.Kind(), tensor)
		}
	}
	for _, l := range layouts() {
		sameNames(t, l.kind, "tensors", names(l.tensors), tensors[l.kind])
		sameNames(t, l.kind, "notes", names(l.notes), noted[l.kind])
		if l.value != nil {
			sameNames(t, l.kind, "fields", jsonFields(l.value), fields[l.kind])
		}
	}
}

func tensorNames[T Number](t *testing.T, tensors Tensors[T]) (names []string) {
	for _, tensor := range tensors {
		name := tensor.Name
		if of, stage, ok := strings.Cut(name, "/"); ok && stage == "0" {
			name = of + "/STAGE"
		} else if of == PartAverage {
			name = of + "/FIELD"
		}
		names = append(names, name)
	}
	return names
}

func names(parts []part) (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

func sameNames(t *testing.T, kind Kind, what string, documented []string, found map[string]bool) {
	t.Helper()
	slices.Sort(documented)
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, documented) {
		t.Errorf("the goldens of kind %s have the %s %q, its layout %q", kind, what, got, documented)
	}
}

// jsonFields returns the names of a struct's fields in JSON.
func jsonFields(value any) (names []string) {
	of := reflect.TypeOf(value)
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// FORMAT.md has the tables of the layouts, between marks. -update writes them.
func TestFormatTables(t *testing.T) {
	page := string(must(os.ReadFile("FORMAT.md"))(t))
	marked := page
	for name, table := range map[string]string{"records": recordTable(), "json": jsonTable(), "fields": fieldTables(t)} {
		section := regexp.MustCompile(`(?s)(<!-- ` + name + `:[^>]*-->\n).*?(<!-- end -->)`)
		if !section.MatchString(page) {
			t.Errorf("FORMAT.md has no marks for the table of %s", name)
		}
		marked = section.ReplaceAllString(marked, "${1}"+strings.ReplaceAll(table, "$", "$$")+"${2}")
	}
	if *update {
		if err := os.WriteFile("FORMAT.md", []byte(marked), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if marked != page {
		t.Error("FORMAT.md's tables differ from the layouts: test with -update")
	}
	_, topics, _ := strings.Cut(page, "| topic | kinds |")
	topics, _, _ = strings.Cut(topics, "\n\n")
	for _, l := range layouts() {
		_, row, _ := strings.Cut(topics, "| `"+l.topic+"` |")
		row, _, _ = strings.Cut(row, "\n")
		if !regexp.MustCompile(`\b` + string(l.kind) + `\b`).MatchString(row) {
			t.Errorf("FORMAT.md's table of topics does not have kind %s in the row of %s: %s", l.kind, l.topic, row)
		}
	}
}

func recordTable() string {
	text := "| kind | topic | written by | read by | tensors | notes |\n|---|---|---|---|---|---|\n"
	for _, l := range layouts() {
		if l.tensors != nil {
			text += fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s |\n", l.kind, l.topic, l.writer, l.reader, parts(l.tensors), parts(l.notes))
		}
	}
	return text
}

func parts(list []part) string {
	var texts []string
	for _, p := range list {
		texts = append(texts, "`"+p.name+"` "+p.text)
	}
	return strings.Join(texts, "; ")
}

func jsonTable() string {
	text := "| kind | topic | key | written by | read by | says | fields |\n|---|---|---|---|---|---|---|\n"
	for _, l := range layouts() {
		if l.value != nil {
			text += fmt.Sprintf("| `%s` | %s | `%s` | %s | %s | %s | `%s` |\n", l.kind, l.topic, l.key, l.writer, l.reader, l.says, strings.Join(jsonFields(l.value), "`, `"))
		}
	}
	return text
}

// FORMAT.md names the columns of each schema, in their order, with their types.
func TestFormatColumns(t *testing.T) {
	mem := checked(t)
	page := string(must(os.ReadFile("FORMAT.md"))(t))
	record := rowsOfAllColumns(3)["all"].Record(mem)
	defer record.Release()
	for section, schema := range map[string]*arrow.Schema{
		"Examples": record.Schema(), "Residuals": residualSchema(3, true), "Predicted rows": predictionSchema(3, SeveralLabels), "Records": formatOf[float64]().schema,
	} {
		_, text, _ := strings.Cut(page, "\n## "+section+"\n")
		for _, f := range schema.Fields() {
			row := fmt.Sprintf("| `%s` |", f.Name)
			_, rest, found := strings.Cut(text, row)
			described, _, _ := strings.Cut(rest, "\n")
			if !found || !strings.Contains(described, "`"+typeName(f.Type)) {
				t.Errorf("section %s: column %s of type %s is not the next row: %q", section, f.Name, typeName(f.Type), described)
			}
			text = rest
		}
	}
}

// typeName returns a type's name in FORMAT.md, without the names and nullability of nested fields and without the length
// of a fixed-size list.
func typeName(of arrow.DataType) string {
	switch of := of.(type) {
	case *arrow.FixedSizeListType:
		return "fixed_size_list<" + typeName(of.Elem()) + ">"
	case *arrow.ListType:
		return "list<" + typeName(of.Elem()) + ">"
	case *arrow.DictionaryType:
		return "dictionary<" + typeName(of.IndexType) + ", " + typeName(of.ValueType) + ">"
	}
	return of.Name()
}

// Content that does not fit its kind is an error that wraps ErrDamaged or is a *ShapeError.
func TestRecordsOfOtherContent(t *testing.T) {
	for name, err := range map[string]error{
		"visit without coverage":         second(VisitOf(&Record[float64]{})),
		"survey without count":           second(SurveyVisitOf(&Record[float64]{Notes: []Header{Coverage{}.note()}})),
		"gram without weight":            second(BlockGramOf(&Record[float32]{}, nil)),
		"seal without offsets":           second(SealOf(&Record[float64]{Notes: []Header{Coverage{}.note()}})),
		"seal without coverage":          second(SealOf(&Record[float64]{Notes: []Header{{noteFrom, "0"}, {noteTo, "1"}, {noteRows, "1"}}})),
		"prepare without rows":           second(SurveyResultOf(&Record[float32]{})),
		"prepare without quarantined":    second(SurveyResultOf(&Record[float32]{Notes: []Header{{noteRows, "1 2 3"}}})),
		"weights of no number of passes": second(WeightsOf(&Record[float32]{Notes: []Header{{noteFinal, "1"}, {notePasses, "x"}}})),
		"quarantine of another kind":     second(QuarantinedOf(Message{})),
		"quarantine without offset":      second(QuarantinedOf(Message{Headers: []Header{{"kind", "quarantine"}}})),
	} {
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	rows, draws := Matrix(FieldSample, 1, 2, []float32{1, 2}), Words[float32](FieldDraws, []string{"00000000000000ff"})
	for _, tensors := range []Tensors[float32]{
		nil, {rows}, {draws}, {rows, Words[float32](FieldDraws, []string{"1", "2"})}, {Vector(FieldSample, []float32{1}), draws},
	} {
		_, err := SampleOf(&Record[float32]{Tensors: tensors})
		if shape := (*ShapeError)(nil); !errors.As(err, &shape) {
			t.Errorf("%v: %v", tensors, err)
		}
	}
	if _, err := SampleOf(&Record[float32]{Tensors: Tensors[float32]{rows, Words[float32](FieldDraws, []string{"xyz"})}}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a draw that is no number: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// positions are how far a topic of two partitions was read.
func positions() []TopicPosition {
	return []TopicPosition{{Partition: 0, Next: 7, Last: "0123456789ab"}, {Partition: 4, Next: 2, Last: "ba9876543210"}}
}

// A message that was ingested says where it is from, and one of another producer does not.
func TestOrigin(t *testing.T) {
	if o, ok := OriginOf(samples(t)["examples"]); !ok || o != (Origin{Source: "source", Attempt: "1", Sequence: 5}) || !o.Of(&SourceSeal{ID: "source", Attempt: "1"}) {
		t.Errorf("the golden has origin %+v, %v", o, ok)
	}
	topic := samples(t)["examples-topic"]
	if o, ok := OriginOf(topic); !ok || o != (Origin{Source: "topic:clicks", Attempt: "1", Sequence: 5, Next: 9}) {
		t.Errorf("the golden of a topic has origin %+v, %v", o, ok)
	}
	if read, err := TopicPositionsOf(topic); err != nil || !slices.Equal(read, positions()) {
		t.Errorf("the golden of a topic has the positions %v, %v", read, err)
	}
	behind := Origin{Source: "topic:clicks", Attempt: "2", Partitions: 3, After: Turn(1, 9)}
	m, err := behind.TopicMessage(positions(), &ExampleRows{Rows: 1, Cols: 1, Floats: []float32{1}}, memory.DefaultAllocator)
	if behind.Next = 9; err != nil {
		t.Fatal(err)
	}
	if o, ok := OriginOf(m); !ok || o != behind {
		t.Errorf("the origin %+v is read as %+v, %v", behind, o, ok)
	}
	for _, text := range []string{"", "[", `[{"partition":-1}]`, `[{"next":-1}]`} {
		if _, err := TopicPositionsOf(Message{Headers: []Header{{headerPositions, text}}}); !errors.Is(err, ErrDamaged) {
			t.Errorf("positions %s: %v", text, err)
		}
	}
	if o, ok := OriginOf(samples(t)["examples-sparse"]); ok {
		t.Errorf("another producer's message has origin %+v", o)
	}
	for _, headers := range [][]Header{
		{{headerSource, "source"}, {headerSequence, "5"}}, {{headerSource, "source/1"}}, {{headerSource, "source/1"}, {headerSequence, "-1"}},
		{{headerSource, "source/1"}, {headerSequence, "x"}}, {{"source", "source/1"}, {"sequence", "5"}},
		{{headerSource, "topic:clicks/1"}, {headerSequence, "5"}}, {{headerSource, "topic:clicks/1"}, {headerSequence, "5"}, {headerNext, "5"}},
	} {
		if o, ok := OriginOf(Message{Headers: headers}); ok {
			t.Errorf("%v: %+v, %v", headers, o, ok)
		}
	}
}
