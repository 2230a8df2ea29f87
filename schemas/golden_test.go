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
	"go/types"
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

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/prediction"
	"github.com/stagewise/stagewise/schemas/residuals"
	"github.com/stagewise/stagewise/schemas/schemastest"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

var update = flag.Bool("update", false, "write the goldens and the tables of FORMAT.md again")

// samples returns at least one message of each kind, from the same encoders that the program uses. The samples of a kind
// together have every tensor and every note that the kind may have. All records have one chunk.
func samples(t testing.TB) map[string]wire.Message {
	mem := arrowtest.Allocator(t)
	batch := func(rows *examples.Rows) wire.Message {
		return arrowtest.Must(Origin{Source: "source", Attempt: "1", Sequence: 5}.Message(rows, mem))(t)
	}
	sparse := wire.Message{Value: producedAs(t, mem,
		`[{"features":[{"index":1,"value":2},{"index":4,"value":-1}],"label":"a"},{"features":[],"label":null}]`,
		sparseFeatures(arrow.PrimitiveTypes.Int32), nullable("label", arrow.BinaryTypes.String))}
	// As a data frame of pandas writes them, with a category as the label.
	frame := wire.Message{Value: producedAs(t, mem,
		`[{"features":[1,null],"label":"a","weight":0.5},{"features":[3,4],"label":null,"weight":1}]`,
		nullable("features", arrow.LargeListOf(arrow.PrimitiveTypes.Float64)),
		nullable("label", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}),
		nullable("weight", arrow.PrimitiveTypes.Float64))}
	kinds := producedRows(3)
	manifest, _ := model()
	occurring := statistics.Occurring{Columns: []int32{1, 4}, Values: arrowtest.Numbered[float64](4)}
	thin := windowAfter(updatePlan())
	thin.Sparse = true
	update, window := updatePlan(), windowAfter(updatePlan())
	manifest.Thresholds = &statistics.Thresholds{Hamming: 0.5, MicroF1: 0.25, MacroF1: 0.25, SubsetAccuracy: 0.75}
	manifest.Window, manifest.WindowRows, manifest.PlansFrom = &StatePlace{Run: update.Run(), From: 20, To: 21}, 180, 12
	whole := *manifest
	whole.Labels, whole.LabelType, whole.Threshold, whole.Plan = []string{"0", "7"}, examples.WholeLabels, 0.25, plan()
	whole.Plan.Targets, whole.Plan.Labels = nil, ""
	p := plan()
	stage, averaged := stageReport(), stageReport()
	averaged.Member = 2
	averaged.Average = &AverageReport{Members: 2, TrainError: 0.25, TestError: stage.TestError, TrainLoss: 0.03125,
		TestLoss: stage.TestLoss, HoldoutError: stage.HoldoutError, HoldoutLoss: stage.HoldoutLoss}
	place := Place{Run: p.Run(), Version: 2, From: 30, Manifest: 34, To: 35, Withheld: true}
	ingested, removed := p.Sources[0], p.Sources[0]
	ingested.Content, ingested.Bytes, ingested.After = "content", 4096, 20
	removed.ID, removed.Files = "removed", []string{"old.csv"}
	ledger := &Ledger{Before: 64, Unfinished: []Place{{Run: "next", From: 60, To: 61, Since: &p.Since}}, Sources: p.Sources,
		Removed: []SourceSeal{removed}, Incomplete: []string{"other/1"}, Versions: []Place{place}, Highest: 2,
		Chained: &ChainedRun{Run: "next", Number: 4, Attempt: 1, Parent: "version"}, Pinned: place.Run, Swept: 10}
	divided := *ledger
	divided.Divisions = []Division{{Topic: "orders", Attempt: 2, Partitions: 3, Writer: "a1b2"}}
	bad := Quarantined{Topic: "digits.examples", Partition: 1, Offset: 7, Reason: "damaged or foreign bytes", Key: "k", Bytes: 3,
		Value: []byte{1, 2, 3}}
	heedful := updatePlan()
	heedful.Heeded = &Heeded{Entries: 2, Last: "forget/0123456789ab"}
	joined := updatePlan()
	joined.Chain.Join, joined.Chain.Update.Leave[0].Joined = [][]int{{2, 3}, {5, 7, 8}}, 2
	grouped, groupedWindow := averagePlan(), windowAfter(updatePlan())
	grouped.Group, groupedWindow.Since[0].Group = 250, 250
	unusable := schemastest.Prediction(examples.OneLabel, 0, 3)
	unusable.After, unusable.Row, unusable.Until, unusable.Rows, unusable.Reason = 9, 0, 0, 0, "damaged or foreign bytes"
	all := map[string]wire.Message{
		"examples":         batch(kinds["all"]),
		"examples-targets": batch(&examples.Rows{Rows: 2, Cols: 1, Floats: []float32{1, 2}, Targets: []float64{1.5, -2, math.NaN(), 0}}),
		"examples-bytes":   batch(kinds["bytes"]),
		"examples-topic": arrowtest.Must(Origin{Source: TopicSource("clicks"), Attempt: "1", Sequence: 5}.TopicMessage(positions(),
			kinds["all"], mem))(t),
		"examples-keys": arrowtest.Must(Origin{Source: TopicSource("clicks"), Attempt: "2", Partitions: 4,
			After: Turn(1, 9)}.TopicMessage(positions(), &examples.Rows{Rows: 3, Cols: 1, Floats: []float32{1, 2, 3},
			SourceKeys: []string{"u42", "", "u7"}, Origins: examples.RowOrigins{{Partition: 0, Offset: 4, Rows: 1, Messages: 3}}}, mem))(t),
		"examples-served": batch(&examples.Rows{Rows: 3, Cols: 1, Floats: []float32{1, 2, 3}, Words: []string{"a", "b", "c"},
			Served: []examples.Served{{Label: "a", Version: 3}, {}, {Label: "7", Version: 4}}}),
		"examples-sparse":    sparse,
		"examples-frame":     frame,
		"residuals":          arrowtest.Must(schemastest.Residuals(2, 3).Encode(mem))(t),
		"residuals-votes":    arrowtest.Must(schemastest.Voted(2, 3).Encode(mem))(t),
		"prediction":         arrowtest.Must(schemastest.Prediction(examples.OneLabel, 2, 3).Encode(mem))(t),
		"prediction-several": arrowtest.Must(schemastest.Prediction(examples.SeveralLabels, 2, 3).Encode(mem))(t),
		"prediction-numbers": arrowtest.Must(schemastest.Prediction(examples.Numbers, 2, 3).Encode(mem))(t),
		"prediction-none":    arrowtest.Must(unusable.Encode(mem))(t),
		"plan":               arrowtest.Must(p.Messages())(t)[0],
		"plan-group":         arrowtest.Must(grouped.Messages())(t)[0],
		"window-group":       arrowtest.Must(groupedWindow.Messages())(t)[0],
		"plan-update":        arrowtest.Must(update.Messages())(t)[0],
		"plan-heeded":        arrowtest.Must(heedful.Messages())(t)[0],
		"plan-joined":        arrowtest.Must(joined.Messages())(t)[0],
		"plan-average":       arrowtest.Must(averagePlan().Messages())(t)[0],
		"window-sparse":      arrowtest.Must(thin.Messages())(t)[0],
		"window":             arrowtest.Must(window.Messages())(t)[0],
		"end":                (&End{Run: p.Run(), State: Failed, Reason: "offsets 0 to 9 are gone", Source: "source/1", Attempt: "2"}).Message(),
		"end-done":           (&End{Run: p.Run(), State: Done, Version: &place, Since: p.Since, Attempt: "1"}).Message(),
		"pin":                (&Pin{Run: p.Run(), Version: 2}).Message(),
		"forget": (&Forget{Rows: coverage.Forgotten{{Partition: 0, From: 3, To: 9, First: 0, End: 0}, {Partition: 1, From: 7,
			To: 8, First: 2, End: 5}}, Source: "source"}).Message(),
		"forget-message": (&Forget{Rows: coverage.Forgotten{{Partition: 0, From: 3, To: 5, First: 0, End: 0}, {Partition: 1, From: 7,
			To: 8, First: 2, End: 5}}, Checksums: []string{"0000002a", "", ForgetChecksum([]byte("value"))}}).Message(),
		"forget-lost":    (&Forget{Lost: heedful.Heeded}).Message(),
		"removal":        (&Removal{Run: p.Run(), Version: 2}).Message(),
		"division":       (&Division{Topic: "orders", Attempt: 2, Partitions: 3, Writer: "a1b2"}).Message(),
		"source-removal": (&SourceRemoval{Seal: p.Sources[0]}).Message(),
		"ledger":         arrowtest.Must(ledger.Messages())(t)[0],
		"ledger-divided": arrowtest.Must(divided.Messages())(t)[0],
		"stage":          stage.Message(p.Run()),
		"stage-overflow": (&StageReport{Link: "identity", Passes: 1, Seconds: 1, Overflow: 3}).Message(p.Run()),
		"stage-tempered": (&StageReport{Link: "softmax", Passes: 1, Seconds: 1, Tempered: &TemperedReport{Temperature: 1.5, HoldoutLoss: 0.25}}).
			Message(p.Run()),
		"stage-average": averaged.Message(averagePlan().Run()),
		"claim":         (&Claim{Run: p.Run()}).Message(),
		"failure": (&Failure{Run: p.Run(), Parent: "last", Partitions: []int{1, 3}, Source: "source/1",
			Reason: "offsets 0 to 9 are gone"}).Message(),
		"failure-expired": (&Failure{Run: p.Run(), Parent: "plan", Partitions: []int{1, 3}, Expired: true,
			Reason: "the first weights were deleted"}).Message(),
		"source":          ingested.Message(),
		"manifest":        arrowtest.Must(manifest.Messages())(t)[0],
		"manifest-whole":  arrowtest.Must(whole.Messages())(t)[0],
		"quarantine":      bad.Message(),
		"report":          arrowtest.Must(report().Messages())(t)[0],
		"report-tempered": arrowtest.Must((&Report{Name: "digits", Run: p.Run(), Temperature: 1.5}).Messages())(t)[0],
	}
	id := func(kind wire.Kind, stage, visit, partition int) wire.Identity {
		return wire.Identity{Kind: kind, Run: p.Run(), Stage: stage, Visit: visit, Partition: partition, Parent: p.Digest()}
	}
	merged := func(kind wire.Kind) wire.Identity {
		merged := id(kind, 0, 0, 0)
		merged.Merged = 32
		return merged
	}
	seals := merged(statistics.KindSeal)
	seals.Merged = 2
	losses := statistics.Losses{Weight: 10, Rows: 10, Errors: 1, Loss: 2}
	surveyed := seals
	surveyed.Kind, surveyed.Stage = statistics.KindVisit, wire.Survey
	covered := coverage.Coverage{Spans: coverage.Spans{{Partition: 1, From: 0, To: 9}}, Messages: 9, Rows: 90, Checksum: 7}
	final := wire.Tensors[float64]{
		wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
		wire.Matrix(statistics.FieldQuality, 3, 2, arrowtest.Numbered[float64](6)),
		{Name: statistics.FieldBins, Shape: []int{3, 15, 3}, Data: arrowtest.Numbered[float64](135)}, {Name: statistics.FieldConfusion, Shape: []int{3, 2, 2}, Data: arrowtest.Numbered[float64](12)},
	}
	several := wire.Tensors[float64]{wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
		{Name: statistics.FieldHits, Shape: []int{3, 100, 2, 2}, Data: arrowtest.Numbered[float64](1200)},
		wire.Matrix(statistics.FieldSubset, 3, 101, arrowtest.Numbered[float64](303)), wire.Matrix(statistics.FieldRanks, 3, 3,
			arrowtest.Numbered[float64](9)), wire.Vector(statistics.FieldCalibrated, []float64{12, 9})}
	ranked := wire.Tensors[float64]{wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
		{Name: statistics.FieldClasses, Shape: []int{3, 4, 2}, Data: arrowtest.Numbered[float64](24)},
		wire.Matrix(statistics.FieldRanking, 2, 2, []float64{17, 0.5, 2000, 3}),
		{Name: statistics.FieldDecided, Shape: []int{3, 2, 2}, Data: arrowtest.Numbered[float64](12)}}
	for name, r := range map[string]*wire.Record[float64]{
		"visit": (&statistics.Visit{Identity: id(statistics.KindVisit, 0, 1, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
			wire.Matrix(statistics.FieldCross, 2, 2, arrowtest.Numbered[float64](4)), wire.Vector(statistics.FieldTrace, []float64{5})}}).Record(),
		"visit-merged": (&statistics.Visit{Identity: merged(statistics.KindVisit), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12))}}).Record(),
		"gram-merged": (&statistics.Gram{Identity: merged(statistics.KindGram), Matrix: arrowtest.Numbered[float64](3), Weight: 60}).ExactRecord(),
		"visit-overflow": (&statistics.Visit{Identity: id(statistics.KindVisit, 0, 0, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
			wire.Matrix(statistics.FieldCross, 2, 2, arrowtest.Numbered[float64](4)), wire.Vector(statistics.FieldOverflow,
				[]float64{3})}}).Record(),
		"visit-ridge": (&statistics.Visit{Identity: id(statistics.KindVisit, 0, 0, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
			wire.Matrix(statistics.FieldCross, 2, 2, arrowtest.Numbered[float64](4)), wire.Vector(statistics.FieldResidual,
				[]float64{45, 90})}}).Record(),
		"visit-survey": (&statistics.SurveyVisit{Visit: statistics.Visit{Identity: id(statistics.KindVisit, wire.Survey, 0, 1),
			Covered: covered, Sums: wire.Tensors[float64]{
				wire.Vector(statistics.FieldSums, arrowtest.Numbered[float64](2)), wire.Vector(statistics.FieldSquares,
					arrowtest.Numbered[float64](2)), wire.Vector(statistics.FieldPresent, arrowtest.Numbered[float64](2)),
				wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12))}}, Shift: []float32{0.5, 2},
			Labels: []string{"a", "<b>"}, Quarantined: 1,
			PassedOver: coverage.PassedOver{coverage.Repeated: 3}, Columns: examples.Columns{{Name: "size"}, {Name: "colour"}}}).Record(),
		"visit-survey-merged": (&statistics.SurveyVisit{Visit: statistics.Visit{Identity: surveyed, Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12))}},
			Shift: []float32{0.5, 1.5}, Labels: []string{"no", "yes"}, LabelRows: []int64{50, 40}, Quarantined: 1,
			Parts: []coverage.Coverage{covered, {}}}).Record(),
		"visit-survey-balanced": (&statistics.SurveyVisit{Visit: statistics.Visit{Identity: id(statistics.KindVisit, wire.Survey, 0, 1),
			Covered: covered, Sums: wire.Tensors[float64]{
				wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12))}}, Shift: []float32{0.5},
			Labels: []string{"a", "b"}, LabelRows: []int64{80, 10}}).Record(),
		"visit-sparse": (&statistics.Visit{Identity: id(statistics.KindVisit, 0, 0, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
			wire.Matrix(statistics.FieldCross, 2, 2, arrowtest.Numbered[float64](4)),
			wire.Vector(statistics.FieldDiagonal, []float64{5, 80}), wire.Vector(statistics.FieldBounds, []float64{9, 99})}}).Record(),
		"visit-block": (&statistics.Visit{Identity: id(statistics.KindVisit, 0, 1, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
			wire.Matrix(statistics.FieldCross, 2, 2, arrowtest.Numbered[float64](4)), wire.Matrix(statistics.FieldBlock, 2, 2,
				[]float64{0, 1, 2, 3})}}).Record(),
		"visit-growth": (&statistics.Visit{Identity: id(statistics.KindVisit, 1, wire.Growth, 1), Covered: covered,
			Sums: wire.Tensors[float64]{{Name: statistics.FieldWords, Shape: []int{1, 256, 2},
				Data: arrowtest.Numbered[float64](512)}}}).Record(),
		"visit-counts": (&statistics.Visit{Identity: id(statistics.KindVisit, 1, 0, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
			wire.Matrix(statistics.FieldCounts, 2, 2, arrowtest.Numbered[float64](4))}}).Record(),
		"visit-trials": (&statistics.Visit{Identity: id(statistics.KindVisit, 1, 1, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
			wire.Matrix(statistics.FieldTrials, 2, 3, arrowtest.Numbered[float64](6))}}).Record(),
		"visit-survey-sparse": (&statistics.SurveyVisit{Visit: statistics.Visit{Identity: id(statistics.KindVisit, wire.Survey, 0, 1),
			Covered: covered, Sums: wire.Tensors[float64]{
				wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12))}}, Labels: []string{"a", "b"},
			Sparse: true, ColumnRows: []examples.ColumnRows{{Column: 3, Rows: 7}, {Column: examples.MaxColumns - 1, Rows: 1}}}).Record(),
		"visit-survey-numbers": (&statistics.SurveyVisit{Visit: statistics.Visit{Identity: id(statistics.KindVisit, wire.Survey, 0, 1),
			Covered: covered, Sums: wire.Tensors[float64]{
				wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
				wire.Matrix(statistics.FieldTargets, 3, 2, arrowtest.Numbered[float64](6)), {Name: statistics.FieldDistances, Shape: []int{3, 2,
					4}, Data: arrowtest.Numbered[float64](24)}}},
			Shift: []float32{0.5}, Labels: []string{}}).Record(),
		"visit-survey-shift": (&statistics.SurveyVisit{Visit: statistics.Visit{Identity: id(statistics.KindVisit, wire.Survey, 0, 1),
			Covered: covered, Sums: wire.Tensors[float64]{
				wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
				wire.Matrix(statistics.FieldTargets, 3, 2, arrowtest.Numbered[float64](6))}},
			Shift: []float32{0.5}, TargetShift: []float64{1764000000.25, -2}, Labels: []string{}}).Record(),
		"seal-numbers": (&statistics.Seal{Identity: id(statistics.KindSeal, 0, 0, 1), Attempt: "2", From: 0, To: 9, Rows: 90,
			Scores: "digest", Covered: covered,
			Sums: wire.Tensors[float64]{wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
				{Name: statistics.FieldDistances, Shape: []int{3, 2, 4}, Data: arrowtest.Numbered[float64](24)}}}).Record(),
		"visit-calibration": (&statistics.Visit{Identity: id(statistics.KindVisit, 0, 1, 1), Covered: covered, Sums: several}).Record(),
		"visit-ranked":      (&statistics.Visit{Identity: id(statistics.KindVisit, 0, 1, 1), Covered: covered, Sums: ranked}).Record(),
		"seal-tempered": (&statistics.Seal{Identity: id(statistics.KindSeal, 0, 0, 1), Attempt: "2", From: 0, To: 9, Rows: 90,
			Scores: "digest", Covered: covered, Sums: wire.Tensors[float64]{
				wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
				wire.Vector(statistics.FieldTempered, arrowtest.Numbered[float64](12))}}).Record(),
		"seal-ranked": (&statistics.Seal{Identity: id(statistics.KindSeal, 0, 0, 1), Attempt: "2", From: 0, To: 9, Rows: 90,
			Scores: "digest", Covered: covered, Sums: ranked}).Record(),
		"seal-several": (&statistics.Seal{Identity: id(statistics.KindSeal, 0, 0, 1), Attempt: "2", From: 0, To: 9, Rows: 90,
			Scores: "digest", Covered: covered, Sums: several[:4:4]}).Record(),
		"visit-update": (&statistics.Visit{Identity: id(statistics.KindVisit, 0, 1, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)), {Name: statistics.FieldTerms,
				Shape: []int{1, 2, 2, 2}, Data: arrowtest.Numbered[float64](8)},
			wire.Matrix(statistics.FieldVisited, 1, 5, []float64{0, 80, 9, 8, 2})}}).Record(),
		"visit-update-forgotten": (&statistics.Visit{Identity: id(statistics.KindVisit, 0, 1, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
			wire.Vector(statistics.FieldForgotten, []float64{0, 9})}}).Record(),
		"visit-survey-update": (&statistics.SurveyVisit{Visit: statistics.Visit{Identity: id(statistics.KindVisit, wire.Survey, 0, 1),
			Covered: covered, Sums: append(final[:len(final):len(final)], wire.Vector(statistics.FieldOffered, []float64{8, 2}))},
			Shift:   []float32{0, 0},
			Unknown: []examples.LabelRows{{Label: "c", Rows: 2}}, Untrained: []examples.LabelRows{{Label: "d", Rows: 1}},
			Bad: coverage.BadMessages{Messages: 1, Of: 3, Partition: 1, Offset: 3, Reason: "damaged"},
			Chained: []statistics.Chained{{Skipped: coverage.Spans{{Partition: 1, From: 3, To: 4}},
				Progress: []statistics.PartitionProgress{{Source: "source", Attempt: "1", Next: 4}}, Increments: []coverage.Coverage{covered},
				Messages: []statistics.MessageLosses{{Offset: 2, Losses: losses}}}}}).Record(),
		"visit-survey-chained": (&statistics.SurveyVisit{Visit: statistics.Visit{Identity: surveyed, Covered: covered, Sums: final},
			Shift: []float32{0, 0}, Parts: []coverage.Coverage{covered, {}}, Chained: []statistics.Chained{
				{Served: []statistics.ServedLosses{{Version: 3, Weight: 10, Rows: 9, Errors: 2}}},
				{Messages: []statistics.MessageLosses{{Offset: 2, Losses: losses}, {Offset: 3, Losses: losses}},
					Served: []statistics.ServedLosses{{Version: 3, Weight: 1, Rows: 1}, {Version: 4, Weight: 1, Rows: 1}}}}}).Record(),
		"visit-survey-served": (&statistics.SurveyVisit{Visit: statistics.Visit{Identity: id(statistics.KindVisit, wire.Survey, 0, 1),
			Covered: covered, Sums: final}, Shift: []float32{0, 0}, Chained: []statistics.Chained{{Served: []statistics.ServedLosses{
			{Version: 3, Weight: 10, Rows: 9, Errors: 2}, {Version: 4, Weight: 1, Rows: 1}}}}}).Record(),
		"visit-survey-gate": (&statistics.SurveyVisit{Visit: statistics.Visit{Identity: id(statistics.KindVisit, wire.Survey, 0, 1),
			Covered: covered, Sums: append(final[:len(final):len(final)], wire.Vector(statistics.FieldOffered, []float64{8, 2}),
				wire.Matrix(FieldOfferedGroups, 2, 2, []float64{5, 1, 3, 1}))}, Shift: []float32{0, 0}}).Record(),
		"visit-gate": (&statistics.Visit{Identity: id(statistics.KindVisit, 0, 2, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)), wire.Matrix(FieldJudgedGroups, 2,
				2, []float64{5, 2, 3, 2})}}).Record(),
		"visit-gate-revisited": (&statistics.Visit{Identity: id(statistics.KindVisit, 0, 2, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)), wire.Matrix(FieldJudgedGroups, 2,
				2, []float64{5, 2, 3, 2}), wire.Matrix(FieldRevisitedGroups, 2, 3, []float64{4, 2, 3, 6, 2, 1})}}).Record(),
		"seal-gate": (&statistics.Seal{Identity: id(statistics.KindSeal, 0, 0, 1), Attempt: "2", From: 0, To: 9, Rows: 90,
			Scores: "digest", Covered: covered, Sums: append(final[:len(final):len(final)], wire.Matrix(FieldJudgedGroups, 2, 2,
				[]float64{5, 2, 3, 2}))}).Record(),
		"visit-survey-images": (&statistics.SurveyVisit{Visit: statistics.Visit{Identity: id(statistics.KindVisit, wire.Survey, 0, 1),
			Covered: covered, Sums: final}, Shift: []float32{0, 0}, Image: examples.Image{1, 2, 1}}).Record(),
		"seal-chain": (&statistics.Seal{Identity: id(statistics.KindSeal, 0, 0, 1), Attempt: "2", From: 0, To: 9, Rows: 90,
			Scores: "digest", Covered: covered,
			Sums: append(final[:len(final):len(final)], wire.Tensor[float64]{Name: statistics.FieldTerms, Shape: []int{1, 2, 2, 2},
				Data: arrowtest.Numbered[float64](8)}, wire.Matrix(statistics.FieldVisited, 1, 5, []float64{0, 80, 9, 8, 2}))}).Record(),
		"seal-average": (&statistics.Seal{Identity: id(statistics.KindSeal, 0, 0, 1), Attempt: "2", From: 0, To: 9, Rows: 90,
			Scores: "digest", Covered: covered,
			Sums: append(final[:len(final):len(final)], wire.Matrix(statistics.PartAverage+"/"+statistics.FieldSplits, 3,
				statistics.LossFields, arrowtest.Numbered[float64](12)))}).Record(),
		"leave-forgotten": (&statistics.Gram{Identity: id(statistics.KindLeave, 0, 0, 1), Matrix: arrowtest.Numbered[float64](3),
			Weight: 2.5}).ExactRecord(),
		"leave": (&statistics.Gram{Identity: id(statistics.KindLeave, 0, 0, 1), Matrix: arrowtest.Numbered[float64](3)}).ExactRecord(),
		"moments": (&statistics.Moments{Terms: fourTerms(id(statistics.KindMoments, 0, 0, 0)), Gram: arrowtest.Numbered[float64](3),
			Curvature: 0.25}).Record(),
		"increment": (&statistics.Terms{Identity: id(statistics.KindIncrement, 0, 1, 1),
			Sums: wire.Tensor[float64]{Shape: []int{2, 2, 2}, Data: arrowtest.Numbered[float64](8)}}).Record(),
		"terms": new(fourTerms(id(statistics.KindTerms, 0, 1, 0))).Record(),
		"visit-occurring": (&statistics.Visit{Identity: id(statistics.KindVisit, 0, 0, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
			occurring.Tensor(statistics.FieldGradient, 2), occurring.Tensor(statistics.FieldCurvature, 2),
			wire.Matrix(statistics.FieldReach, 2, 2, []float64{1, 0.5, 4, 0.25})}}).Record(),
		"visit-counted": (&statistics.Visit{Identity: id(statistics.KindVisit, 0, 0, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldSplits, 3, statistics.LossFields, arrowtest.Numbered[float64](12)),
			occurring.Tensor(statistics.FieldCounted, 2)}}).Record(),
		"rows": (&statistics.Visit{Identity: id(statistics.KindRows, 1, 0, 1), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldRowBatches, 1, 3, []float64{1, 0, 2}),
			wire.Matrix(statistics.FieldRowFacts, 2, 5, []float64{2, 1, 1, 1, 0, 1, 0, 0.5, 0, 1}),
			wire.Matrix(statistics.FieldRowValues, 3, 2, []float64{1, 0.5, 4, 0.25, 2, 1}),
			wire.Matrix(statistics.FieldRowScores, 2, 2, arrowtest.Numbered[float64](4))}}).Record(),
		"rows-several": (&statistics.Visit{Identity: merged(statistics.KindRows), Covered: covered, Sums: wire.Tensors[float64]{
			wire.Matrix(statistics.FieldRowBatches, 1, 3, []float64{1, 0, 1}), wire.Matrix(statistics.FieldRowFacts, 1, 5,
				[]float64{1, 0, 1, 1, 0}), wire.Matrix(statistics.FieldRowValues, 1, 2, []float64{1, 0.5}),
			wire.Matrix(statistics.FieldRowTargets, 1, 2, []float64{0, 1}), wire.Vector(statistics.FieldOverflow, []float64{3})}}).Record(),
		"visit-survey-rows": (&statistics.SurveyVisit{Visit: statistics.Visit{Identity: id(statistics.KindVisit, wire.Survey, 0, 1),
			Covered: covered, Sums: append(final[:len(final):len(final)], wire.Vector(statistics.FieldSizes, []float64{800, 500}))},
			Sparse: true}).Record(),
		"increment-occurring": (&statistics.OccurringTerms{Identity: id(statistics.KindIncrement, 0, 1, 1), Occurring: occurring,
			Classes: 2}).Record(),
		"terms-occurring":   (&statistics.OccurringTerms{Identity: id(statistics.KindTerms, 0, 1, 0), Occurring: occurring, Classes: 2}).Record(),
		"moments-occurring": (&statistics.OccurringSums{Identity: id(statistics.KindMoments, 0, 0, 0), Summed: []float64{0.125, 0.0625}}).Record(),
		"gram-exact": (&statistics.Gram{Identity: id(statistics.KindGram, wire.Survey, 0, 1),
			Matrix: arrowtest.Numbered[float64](3)}).ExactRecord(),
		"seal-merged": statistics.MergedSeal(seals, covered, final, []*statistics.Seal{
			{Identity: wire.Identity{Partition: 0}, Attempt: "2", From: 0, To: 9, Rows: 90, Scores: "digest"},
			{Identity: wire.Identity{Partition: 1}, Attempt: "2", From: 3, To: 5, Rows: 20, Scores: "other"}}).Record(),
		"seal": (&statistics.Seal{Identity: id(statistics.KindSeal, 0, 0, 1), Attempt: "2", From: 0, To: 9, Rows: 90,
			Scores: "digest", Covered: covered, Sums: final}).Record(),
	} {
		all[name] = arrowtest.Must(r.Encode(mem))(t)[0]
	}
	for name, r := range map[string]*wire.Record[float32]{
		"gram": (&statistics.Gram{Identity: id(statistics.KindGram, 0, 0, 1), Matrix: arrowtest.Numbered[float64](3),
			Weight: 90}).BlockRecord(),
		"gram-rows": statistics.GramRowsRecord(id(statistics.KindGramRows, 0, 0, 1), wire.Tensors[float64]{
			wire.Matrix(statistics.FieldGramBatches, 1, 4, []float64{1, 0, 3, 2}), wire.Matrix(statistics.FieldGramBlock, 2, 3,
				arrowtest.Numbered[float64](6)), wire.Vector(statistics.FieldGramRows, []float64{2.5})}),
		"leave-rows": statistics.GramRowsRecord(merged(statistics.KindLeaveRows), wire.Tensors[float64]{
			wire.Matrix(statistics.FieldGramBatches, 2, 4, []float64{0, 1, 0, 1, 1, 0, 2, 1}), wire.Matrix(statistics.FieldGramBlock, 2, 3,
				arrowtest.Numbered[float64](6))}),
		"sample": (&statistics.Sample{Identity: id(statistics.KindSample, wire.Survey, 0, 1), Width: 2,
			Rows: arrowtest.Numbered[float32](4), Draws: []uint64{0xff, 0xfff}}).Record(),
		"prepare-chain": (&statistics.SurveyResult{Identity: id(statistics.KindPrepare, wire.Survey, 0, 0),
			PassedOver: coverage.PassedOver{}, Preparation: wire.Tensors[float32]{
				wire.Vector(statistics.TensorCenter, arrowtest.Numbered[float32](2)), wire.Vector(statistics.TensorScale, []float32{1, 0}),
				wire.Vector(statistics.TensorSpread, []float32{2}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"})},
			Covered: []coverage.Coverage{covered}, Skipped: coverage.Spans{{Partition: 1, From: 3, To: 4}},
			Increments: update.Chain.Update.Refresh}).Record(),
		"prepare-images": (&statistics.SurveyResult{Identity: id(statistics.KindPrepare, wire.Survey, 0, 0),
			PassedOver: coverage.PassedOver{}, Preparation: wire.Tensors[float32]{
				wire.Vector(statistics.TensorCenter, arrowtest.Numbered[float32](2)), wire.Vector(statistics.TensorScale, []float32{1, 0}),
				wire.Vector(statistics.TensorSpread, []float32{2}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
				wire.Vector(statistics.TensorImage, []float32{1, 2, 1}), wire.Matrix(statistics.OfStage(statistics.TensorWhitening, 0), 1, 1,
					[]float32{2}), wire.Vector(statistics.OfStage(statistics.TensorOffset, 0), []float32{1}),
				wire.Matrix(statistics.OfStage(statistics.TensorFilters, 0), 1, 1, []float32{1}),
				wire.Vector(statistics.OfStage(statistics.TensorContrast, 0), []float32{0.5}),
				wire.Vector(statistics.OfStage(statistics.TensorMean, 0), arrowtest.Numbered[float32](2)),
				wire.Vector(statistics.OfStage(statistics.TensorFactor, 0), arrowtest.Numbered[float32](2))},
			Covered: []coverage.Coverage{covered}}).Record(),
		"prepare": (&statistics.SurveyResult{Identity: id(statistics.KindPrepare, wire.Survey, 0, 0), Rows: [examples.Splits]int64{90, 0,
			30}, Quarantined: 1, PassedOver: coverage.PassedOver{coverage.Repeated: 3, coverage.Expired: 1}, Preparation: wire.Tensors[float32]{
			wire.Vector(statistics.TensorCenter, arrowtest.Numbered[float32](2)), wire.Vector(statistics.TensorScale, []float32{1, 0}),
			wire.Matrix(statistics.TensorBasis, 2, 1, []float32{1, 0}),
			wire.Vector(statistics.TensorSpread, []float32{2}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"})},
			Covered: []coverage.Coverage{covered}, Columns: examples.Columns{{Name: "size"}, {Name: "colour"}}}).Record(),
		"prepare-numbers": (&statistics.SurveyResult{Identity: id(statistics.KindPrepare, wire.Survey, 0, 0),
			Rows: [examples.Splits]int64{90, 0, 30}, PassedOver: coverage.PassedOver{}, Preparation: wire.Tensors[float32]{
				wire.Vector(statistics.TensorCenter, arrowtest.Numbered[float32](2)), wire.Vector(statistics.TensorScale, []float32{1, 0}),
				wire.Vector(statistics.TensorSpread, []float32{2}),
				wire.Vector(statistics.TensorTargetCenter, []float32{10, 20}), wire.Vector(statistics.TensorTargetScale, []float32{2, 4}),
				wire.Words[float32](statistics.TensorLabels, []string{"x", "y"})}, Covered: []coverage.Coverage{covered}}).Record(),
		"prepare-offset": (&statistics.SurveyResult{Identity: id(statistics.KindPrepare, wire.Survey, 0, 0),
			Rows: [examples.Splits]int64{90, 0, 30}, PassedOver: coverage.PassedOver{}, Preparation: wire.Tensors[float32]{
				wire.Vector(statistics.TensorCenter, arrowtest.Numbered[float32](2)), wire.Vector(statistics.TensorScale, []float32{1, 0}),
				wire.Vector(statistics.TensorSpread, []float32{2}),
				wire.Vector(statistics.TensorTargetCenter, []float32{1764000000, 20}), wire.Vector(statistics.TensorTargetRest,
					[]float32{30.5, 0}), wire.Vector(statistics.TensorTargetScale, []float32{2, 4}), wire.Words[float32](statistics.TensorLabels,
					[]string{"x", "y"})}, Covered: []coverage.Coverage{covered}}).Record(),
		"prepare-balanced": (&statistics.SurveyResult{Identity: id(statistics.KindPrepare, wire.Survey, 0, 0),
			Rows: [examples.Splits]int64{90, 0, 30}, PassedOver: coverage.PassedOver{}, Preparation: wire.Tensors[float32]{
				wire.Vector(statistics.TensorCenter, arrowtest.Numbered[float32](2)), wire.Vector(statistics.TensorScale, []float32{1, 0}),
				wire.Vector(statistics.TensorSpread, []float32{2}),
				wire.Vector(statistics.TensorClassWeight, []float32{0.5, 4}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"})},
			Covered: []coverage.Coverage{covered}}).Record(),
		"prepare-sparse": (&statistics.SurveyResult{Identity: id(statistics.KindPrepare, wire.Survey, 0, 0),
			Rows: [examples.Splits]int64{90, 0, 30}, Preparation: wire.Tensors[float32]{
				wire.Vector(statistics.TensorFactors, []float32{0, 1.5, 0.5}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"})},
			Covered: []coverage.Coverage{covered}}).Record(),
		"prepare-rows": (&statistics.SurveyResult{Identity: id(statistics.KindPrepare, wire.Survey, 0, 0),
			Rows: [examples.Splits]int64{90, 0, 30}, Preparation: wire.Tensors[float32]{
				wire.Vector(statistics.TensorFactors, []float32{0, 1.5, 0.5}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"})},
			Covered: []coverage.Coverage{covered}, Sends: statistics.KindRows}).Record(),
		"prepare-occurring": (&statistics.SurveyResult{Identity: id(statistics.KindPrepare, wire.Survey, 0, 0),
			Rows: [examples.Splits]int64{90, 0, 30}, Preparation: wire.Tensors[float32]{
				statistics.InputsTensor(statistics.TensorFactorColumns, []int32{1, 16777215}), wire.Vector(statistics.TensorFactorValues,
					[]float32{1.5, 0.5}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"})},
			Covered: []coverage.Coverage{covered}}).Record(),
		"prepare-ranks": (&statistics.SurveyResult{Identity: id(statistics.KindPrepare, wire.Survey, 0, 0), PassedOver: coverage.PassedOver{},
			Preparation: wire.Tensors[float32]{
				wire.Vector(statistics.TensorCenter, arrowtest.Numbered[float32](2)), wire.Vector(statistics.TensorScale, []float32{1, 1}),
				wire.Vector(statistics.TensorSpread, []float32{2}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
				wire.Vector(statistics.TensorKnotCounts, []float32{0, 2}), wire.Matrix(statistics.TensorKnots, 2, 2, []float32{0.5, -1, 7, 1}),
				wire.Matrix(statistics.TensorMissing, 1, 3, []float32{1, 0.25, 2})},
			Covered: []coverage.Coverage{covered}}).Record(),
		"prepare-trees": (&statistics.SurveyResult{Identity: id(statistics.KindPrepare, wire.Survey, 0, 0), PassedOver: coverage.PassedOver{},
			Preparation: wire.Tensors[float32]{
				wire.Vector(statistics.TensorCenter, arrowtest.Numbered[float32](4)), wire.Vector(statistics.TensorScale, []float32{1, 1, 1, 0}),
				wire.Vector(statistics.TensorSpread, []float32{2}), wire.Words[float32](statistics.TensorLabels, []string{"a", "b"}),
				wire.Matrix(statistics.TensorBins, 2, 2, []float32{1, 2, 3, 1}), wire.Vector(statistics.TensorEdges, []float32{0.5, 1.5, 0})},
			Covered: []coverage.Coverage{covered}}).Record(),
		"structure": (&Weights{Identity: id(KindStructure, 0, 0, 0), Tensors: wire.Tensors[float32]{
			wire.Vector(statistics.TensorTreeSizes, []float32{1, 0}), wire.Vector(statistics.TensorTreeOrders, []float32{0, 1}),
			wire.Vector(statistics.TensorTreeRanks, arrowtest.Numbered[float32](256)), wire.Vector(statistics.TensorTreeCompared, []float32{1}),
			wire.Vector(statistics.TensorTreeCuts, []float32{2}), wire.Vector(statistics.TensorTreeLefts, []float32{0})}}).Record(),
		"weights": (&Weights{Identity: id(KindWeights, 0, 2, 0), Tensors: wire.Tensors[float32]{wire.Matrix(statistics.TensorW, 3, 2,
			arrowtest.Numbered[float32](6))},
			Final: &Final{Visit: 1}}).Record(),
		"weights-calibration": (&Weights{Identity: id(KindWeights, 0, 2, 0),
			Tensors: wire.Tensors[float32]{wire.Matrix(statistics.TensorCalibration, 6, 2, arrowtest.Numbered[float32](12))},
			Final:   &Final{Visit: 2, Passes: 1}}).Record(),
		"weights-block": (&Weights{Identity: id(KindWeights, 0, 2, 0), Tensors: wire.Tensors[float32]{wire.Matrix(statistics.TensorW, 3,
			2, arrowtest.Numbered[float32](6)), wire.Matrix(statistics.TensorBlock, 2, 2, []float32{0, 1, 2, 0})}}).Record(),
		"weights-change": (&Weights{Identity: id(KindWeights, 0, 2, 0), Tensors: wire.Tensors[float32]{
			wire.Matrix(statistics.TensorChanged, 1, 2, []float32{0, 3}), wire.Matrix(statistics.TensorChange, 2, 2,
				arrowtest.Numbered[float32](4)), wire.Matrix(statistics.TensorBlock, 2, 2, []float32{0, 1, 2, 0})}}).Record(),
		"terms-occurring-single": (&statistics.OccurringTerms{Identity: id(statistics.KindTerms, 0, 1, 0), Classes: 2,
			Occurring: statistics.Occurring{Columns: []int32{1, 4}, Values: []float64{0, 0.5, 0.25, 3}}}).SingleRecord(),
		"terms-occurring-few": (&statistics.OccurringTerms{Identity: id(statistics.KindTerms, 0, 1, 0), Classes: 4,
			Occurring: statistics.Occurring{Columns: []int32{1, 4}, Values: []float64{0, 0.5, 0, 0, 0.25, 0, 0, 3}}}).SingleRecord(),
		"weights-occurring": (&Weights{Identity: id(KindWeights, 0, 2, 0), Tensors: wire.Tensors[float32]{
			wire.Matrix(statistics.TensorOccurring, 2, 2, []float32{0, 1, 2, 0}), wire.Matrix(statistics.TensorRows, 2, 2,
				arrowtest.Numbered[float32](4)), wire.Vector(statistics.TensorShift, []float32{0.5, -0.5})}}).Record(),
		"weights-counts": (&Weights{Identity: id(KindWeights, 0, 2, 0), Tensors: wire.Tensors[float32]{wire.Matrix(statistics.TensorW, 3,
			2, arrowtest.Numbered[float32](6)), wire.Matrix(statistics.TensorCounts, 3, 2, arrowtest.Numbered[float32](6))},
			Final: &Final{Visit: 0}}).Record(),
		"weights-ridge": (&Weights{Identity: id(KindWeights, 0, 2, 0), Tensors: wire.Tensors[float32]{wire.Matrix(statistics.TensorW, 3,
			2, arrowtest.Numbered[float32](6))},
			Ridge: 0.003}).Record(),
		"weights-pass": (&Weights{Identity: id(KindWeights, 0, 2, 0), Tensors: wire.Tensors[float32]{wire.Matrix(statistics.TensorW, 3, 2,
			arrowtest.Numbered[float32](6))},
			Final: &Final{Visit: 1}, Weight: new(Weight(0.5)), Pass: &PassReport{Pass: 1, Objective: 0.25, Accepted: true, TrainError: 0.5,
				TrainLoss: 0.0625, TestError: new(2.5), TestLoss: new(0.125)}}).Record(),
	} {
		all[name] = arrowtest.Must(r.Encode(mem))(t)[0]
	}
	return all
}

func fourTerms(id wire.Identity) statistics.Terms {
	return statistics.TermsWith(id, arrowtest.Numbered[float64](4), arrowtest.Numbered[float64](4), 2, 2)
}

// updatePlan returns the plan of an update that visits one increment again while one leaves.
func updatePlan() *Plan {
	p := plan()
	covered := func(partition int, rows int64) []coverage.Coverage {
		return []coverage.Coverage{{Spans: coverage.Spans{{Partition: partition, From: 0, To: 2}}, Messages: 1, Rows: rows, Checksum: 3}}
	}
	p.Warm = &Warm{Run: "parent", Manifest: "manifest"}
	p.Chain = &Chain{
		Number: 3, Parent: p.Warm, From: 1690000000000, Until: 1700000000000, Open: true, Gate: &Gate{Split: "holdout", Margin: 0.5,
			Offered: *p.Warm}, Begins: []int64{0, 4}, Ends: []int64{2, 6}, Times: []coverage.IncrementTime{{Number: 1,
			Until: 1600000000000}}, Merge: [][2]int{{1, 2}}, Progress: []SourceProgress{{Source: "source", Attempt: "1", Next: []int64{4, 1}}},
		Made: 1700000000001, Marks: []coverage.Mark{{Partition: 1, Offset: 5, Checksum: "0000000f-18bcfe56800"}},
		Lost: coverage.Spans{{Partition: 0, From: 2, To: 3}}, Had: 12, AtLeast: 11, Settings: []Setting{{"seed", "5"}},
		Lacking: &Lacking{Columns: []string{"width"}, Spans: coverage.Spans{{Partition: 0, From: 1, To: 2}}},
		Update: &Update{Passes: 2, Decay: 0.5, Restart: true, Refresh: []coverage.Increment{{Number: 2, Weight: 0.5, Covered: covered(1,
			10), Skipped: coverage.Spans{{Partition: 1, From: 1, To: 2}}}},
			Leave: []coverage.Increment{{Number: 1, Weight: 0.25, Covered: covered(0, 9), Skipped: coverage.Spans{{Partition: 0, From: 1,
				To: 2}}, Uncounted: true}},
			Forget: []coverage.Increment{{Number: 2, Weight: 0.5, Covered: covered(1, 10), Skipped: coverage.Spans{{Partition: 1, From: 1,
				To: 2}}}}},
	}
	p.Forgotten = coverage.Forgotten{{Partition: 1, From: 0, To: 1, First: 2, End: 5}}
	p.Submission = "update"
	return p
}

// windowAfter returns the window after an update.
func windowAfter(p *Plan) *Window {
	at := StatePlace{Run: p.Run(), From: 3, To: 5, Index: 1}
	chain := *p.Chain
	chain.Increments = p.Chain.Update.Leave
	return &Window{
		Run: p.Run(), Chain: &chain, Full: 1, FullRows: 9, Stages: 2, Bases: []StatePlace{at}, Left: []int{1}, Ends: []int64{2, 6},
		Errors: []ErrorSum{{1, 90, 3}}, Rejected: 1, AtLeast: 11, Unseen: []string{"width"}, Changed: 2, MostlyBad: &coverage.BadMessages{Messages: 2, Of: 3,
			Partition: 1, Offset: 4, Reason: "damaged"}, Unknown: []examples.LabelRows{{Label: "c", Rows: 2}}, Progress: p.Chain.Progress,
		Moments: at, Snapshot: at,
		Since: []StatePlace{{Run: "parent", Since: &p.Since, Partitions: []int{0, 1}, Decay: 0.5}},
		Increments: []WindowIncrement{{Increment: p.Chain.Update.Refresh[0], Visited: 3, Fitted: 8, Messages: 1, Until: 1700000000000,
			Terms: at}},
	}
}

func stageReport() *StageReport {
	percent, loss := 2.5, 0.125
	return &StageReport{Stage: 1, Link: "softmax", Passes: 4, Ridge: 0.25, Weight: new(Weight(0.5)), Seconds: 1.5, TrainError: 0.5,
		TestError: &percent, TrainLoss: 0.0625, TestLoss: &loss,
		HoldoutError: &percent, HoldoutLoss: &loss,
		ByPass: []PassReport{{Pass: 1, Objective: 0.25, Accepted: true, TrainError: 0.5, TrainLoss: 0.0625, TestError: &percent,
			TestLoss: &loss, HoldoutError: &percent, HoldoutLoss: &loss}}}
}

func report() *Report {
	stage := stageReport()
	return &Report{
		Name: "digits", Version: 2, Run: plan().Run(), Rows: 90, Classes: 2, Labels: []string{"a", "<b>"}, Quarantined: 1,
		PassedOver: coverage.PassedOver{coverage.Repeated: 3, coverage.Expired: 1}, IngestSeconds: 0.5, Seconds: 1.5,
		Stages: []StageReport{*stage}, TrainError: 0.5, TestError: stage.TestError, WeightsDigest: "weights", Majority: "a",
		Thresholds: &statistics.Thresholds{Hamming: 0.5, MicroF1: 0.25, MacroF1: 0.25, SubsetAccuracy: 0.75},
		Retrain: &RetrainReport{Version: 2, Kind: RunUpdate, Spans: coverage.Spans{{Partition: 1, From: 4, To: 6}}, From: 1690000000000,
			Until: 1700000000000, Served: []ServedReport{{Version: 3, Rows: 80, Error: 12.5}}, Curve: []statistics.ErrorBin{{Offset: 4, Messages: 2, Rows: 90, Weight: 90, Error: 2.5, Loss: 0.125}},
			Rows: 90, WindowRows: 180, Lost: 4, Gone: 5, Forgotten: 3, PrequentialError: stage.TestError, PrequentialLoss: stage.TestLoss,
			PrequentialLogLoss: stage.TestLoss, PrequentialBrier: stage.TestLoss, PrequentialECE: stage.TestLoss,
			PrequentialRMSE: stage.TestLoss, HoldoutError: stage.HoldoutError, Offered: true, UnknownRows: 2,
			MostlyBad: &coverage.BadMessages{Messages: 2, Of: 3, Partition: 1, Offset: 4, Reason: "damaged"}, Outcomes: &OutcomesReport{JoinCounts: examples.JoinCounts{Rows: 9, Absent: 8, Outcomes: 7, Matched: 1, Late: 2, Disorder: 3}, Alone: 4, Limit: 0.5,
				RowKey: "a", OutcomeKey: "b"}, Seconds: 1.5},
		Outcomes: &OutcomesReport{JoinCounts: examples.JoinCounts{Rows: 9, Absent: 8, Outcomes: 7, Matched: 1, Late: 2, Disorder: 3}, Alone: 4, Limit: 0.5,
			RowKey: "a", OutcomeKey: "b"},
		Splits: map[string]SplitReport{"holdout": {Rows: 9, Error: 25, Loss: 0.125, RMSE: new(1.5), MAE: new(1.25), R2: new(0.75),
			Targets: map[string]statistics.Distances{"y": {RMSE: 1.5, MAE: 1.25, R2: 0.75}}},
			"test": {Rows: 30, Error: 5, Loss: 0.5, LogLoss: new(0.25), Brier: new(0.125), ECE: new(0.0625), Hamming: new(0.05),
				MicroF1: new(0.75), MacroF1: new(0.5), SubsetAccuracy: new(0.25), PrecisionAt: map[string]float64{"1": 0.75, "3": 0.5,
					"5": 0.25}}, "train": {Rows: 90, Error: 0.5, Loss: 0.0625, LogLoss: new(0.0625), Brier: new(0.25), ECE: new(0.125),
				Confusion: [][]int64{{80, 0}, {1, 9}}, Reliability: []ReliabilityBin{{90, 0.75, 0.5}},
				ClassMeasures: statistics.ClassMeasures{AUC: new(0.875), AveragePrecision: new(0.75), BalancedError: new(5.0),
					MajorityError: new(12.5), Precision: []float64{0.5, 1}, Recall: []float64{1, 0.75}, F1: []float64{0.75, 0.5},
					Decided: statistics.Decision{{60, 20}, {0, 10}}.Decided(0.125)}}},
	}
}

// golden returns the files of a message: its key and headers as readable JSON, and its value as on the topic.
func golden(name string, m wire.Message) (headers, value string) {
	value = filepath.Join("testdata", name+".arrow")
	switch {
	case m.Kind() == KindQuarantine: // its value can be any bytes
		value = filepath.Join("testdata", name+".bytes")
	case strings.HasPrefix(string(m.Value), "{"):
		value = filepath.Join("testdata", name+".json")
	}
	return filepath.Join("testdata", name+".headers.json"), value
}

func readGolden(t testing.TB, name string, like wire.Message) (m wire.Message) {
	headers, value := golden(name, like)
	if err := json.Unmarshal(arrowtest.Must(os.ReadFile(headers))(t), &m); err != nil {
		t.Fatal(err)
	}
	m.Value = arrowtest.Must(os.ReadFile(value))(t)
	return m
}

func TestGoldens(t *testing.T) {
	for name, m := range samples(t) {
		if *update {
			headers, value := golden(name, m)
			described := arrowtest.Must(json.MarshalIndent(struct {
				Key     string
				Headers []wire.Header
			}{m.Key, m.Headers}, "", "  "))(t)
			for path, content := range map[string][]byte{headers: append(described, '\n'), value: m.Value} {
				if err := os.WriteFile(path, content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		want := readGolden(t, name, m)
		if m.Key != want.Key || !slices.Equal(m.Headers, want.Headers) || !bytes.Equal(m.Value, want.Value) {
			t.Errorf("%s has changed. If this is intended, make sure that the program still reads what is on topics and that "+
				"FORMAT.md is right. Then test with -update.\nkey %s, was %s\n%v\n%v",
				name, m.Key, want.Key, m.Headers, want.Headers)
		}
	}
}

// Messages of earlier versions can be decoded, and are encoded again with the same bytes.
func TestGoldensAreRead(t *testing.T) {
	mem := arrowtest.Allocator(t)
	for name, like := range samples(t) {
		m := readGolden(t, name, like)
		got, err := reencode(m, mem)
		if err != nil || got.Key != m.Key || !slices.Equal(got.Headers, m.Headers) || !bytes.Equal(got.Value, m.Value) {
			t.Errorf("%s: %v\n%+v\ndecoded and encoded again\n%+v", name, err, m, got)
		}
	}
}

// reencode decodes a message and encodes the result.
func reencode(m wire.Message, mem memory.Allocator) (wire.Message, error) {
	if wire.IsSingle(m) {
		return recordReencode(m, mem, func(r *wire.Record[float32]) ([]wire.Message, error) {
			var decoded interface{ Record() *wire.Record[float32] }
			var err error
			switch r.Kind {
			case statistics.KindGram:
				g, err := statistics.BlockGramOf(r, func(size int) []float64 { return make([]float64, size) })
				if err != nil {
					return nil, err
				}
				return g.BlockRecord().Encode(mem)
			case statistics.KindGramRows, statistics.KindLeaveRows:
				rows, err := statistics.GramRowsOf(r)
				if err != nil {
					return nil, err
				}
				return statistics.GramRowsRecord(r.Identity, rows).Encode(mem)
			case statistics.KindSample:
				decoded, err = statistics.SampleOf(r)
			case statistics.KindPrepare:
				decoded, err = statistics.SurveyResultOf(r)
			case statistics.KindTerms:
				k := 2
				if r.Tensors[0].Shape[0] > 2 { // few of the terms of four classes
					k = 4
				}
				terms, err := statistics.OccurringTermsOf(wire.Widened(r), 5, k)
				if err != nil {
					return nil, err
				}
				return terms.SingleRecord().Encode(mem)
			case KindWeights, KindStructure:
				decoded, err = WeightsOf(r)
			}
			if err != nil {
				return nil, err
			}
			return decoded.Record().Encode(mem)
		})
	}
	switch kindOf(m) {
	case kindExamples:
		e, err := examples.Decode(m.Value, mem)
		if err != nil {
			return wire.Message{}, err
		}
		e.Release()
		return m, nil // examples_test.go checks the values
	case residuals.Kind:
		r, err := residuals.Decode(m, 3, mem)
		if err != nil {
			return wire.Message{}, err
		}
		return r.Encode(mem)
	case prediction.Kind:
		p, err := prediction.Decode(m, mem)
		if err != nil {
			return wire.Message{}, err
		}
		return p.Encode(mem)
	case KindWindow:
		return documentReencode(m, (*Window).Messages)
	case statistics.KindVisit, statistics.KindSeal, statistics.KindGram, statistics.KindLeave, statistics.KindMoments,
		statistics.KindTerms, statistics.KindIncrement, statistics.KindRows:
		return recordReencode(m, mem, func(r *wire.Record[float64]) ([]wire.Message, error) {
			var decoded interface{ Record() *wire.Record[float64] }
			var err error
			switch {
			case r.Kind == statistics.KindGram, r.Kind == statistics.KindLeave:
				g, err := statistics.ExactGramOf(r)
				if err != nil {
					return nil, err
				}
				return g.ExactRecord().Encode(mem)
			case r.Kind == statistics.KindMoments && r.Tensors[0].Name == statistics.FieldSummed:
				decoded, err = statistics.OccurringSumsOf(r)
			case (r.Kind == statistics.KindIncrement || r.Kind == statistics.KindTerms) && r.Tensors[0].Name == statistics.FieldOccurring:
				decoded, err = statistics.OccurringTermsOf(r, 5, 2)
			case r.Kind == statistics.KindMoments:
				decoded, err = statistics.MomentsOf(r, 2, 2)
			case r.Kind == statistics.KindIncrement:
				decoded, err = statistics.TermsOf(r, 2, 2)
			case r.Kind == statistics.KindTerms:
				decoded, err = statistics.TermsOf(r, 2, 2)
			case r.Kind == statistics.KindSeal:
				decoded, err = statistics.SealOf(r)
			case r.Stage == wire.Survey:
				decoded, err = statistics.SurveyVisitOf(r)
			default:
				decoded, err = statistics.VisitOf(r)
			}
			if err != nil {
				return nil, err
			}
			return decoded.Record().Encode(mem)
		})
	case KindQuarantine:
		q, err := QuarantinedOf(m)
		if err != nil {
			return wire.Message{}, err
		}
		return q.Message(), nil
	case KindStage:
		s, err := DecodeJSON[StageReport](m)
		if err != nil {
			return wire.Message{}, err
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
	case KindDivision:
		return jsonReencode[Division](m)
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
	return wire.Message{}, fmt.Errorf("no reader for kind %s", m.Kind())
}

func recordReencode[T wire.Number](m wire.Message, mem memory.Allocator, encode func(*wire.Record[T]) ([]wire.Message,
	error)) (wire.Message, error) {
	r, err := (&wire.Collector[T]{}).Add(m, mem)
	if err != nil {
		return wire.Message{}, err
	}
	messages, err := encode(r)
	if err != nil {
		return wire.Message{}, err
	}
	return messages[0], nil
}

func documentReencode[T Plan | Report | Ledger | Manifest | Window](m wire.Message, encode func(*T) ([]wire.Message,
	error)) (wire.Message, error) {
	whole, ok, err := (&wire.Documents{}).Add(m)
	if err != nil || !ok {
		return wire.Message{}, fmt.Errorf("complete: %v, %w", ok, err)
	}
	value, err := DecodeJSON[T](whole)
	if err != nil {
		return wire.Message{}, err
	}
	messages, err := encode(value)
	if err != nil {
		return wire.Message{}, err
	}
	return messages[0], nil
}

func jsonReencode[T Claim | End | Failure | SourceSeal | Removal | SourceRemoval | Division | Pin | Forget](
	m wire.Message) (wire.Message, error) {
	value, err := DecodeJSON[T](m)
	if err != nil {
		return wire.Message{}, err
	}
	return any(value).(interface{ Message() wire.Message }).Message(), nil
}

// Every kind that the package declares has a layout and a golden.
func TestEveryKindHasLayoutAndGolden(t *testing.T) {
	declared, documented, shown := declaredKinds(t), map[wire.Kind]bool{}, map[wire.Kind]bool{}
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

// kindExamples names the messages of examples here. No header says it, as other producers write to the same topic.
const kindExamples wire.Kind = "examples"

// kindOf returns the kind of a message.
func kindOf(m wire.Message) wire.Kind {
	if m.Kind() == "" {
		return kindExamples
	}
	return m.Kind()
}

// declaredKinds returns the constants of type Kind.
func declaredKinds(t *testing.T) (kinds []wire.Kind) {
	files := sources(t)
	for _, name := range files {
		file := arrowtest.Must(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || spec.Type == nil {
				return true
			}
			if of := types.ExprString(spec.Type); (of == "Kind" || of == "wire.Kind") && len(spec.Values) == 1 {
				text := arrowtest.Must(strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value))(t)
				kinds = append(kinds, wire.Kind(text))
			}
			return true
		})
	}
	return kinds
}

// The goldens of a kind have exactly the tensors, notes and JSON fields of its layout.
func TestGoldensAreAsTheirLayout(t *testing.T) {
	mem := arrowtest.Allocator(t)
	tensors, noted, fields := map[wire.Kind]map[string]bool{}, map[wire.Kind]map[string]bool{}, map[wire.Kind]map[string]bool{}
	add := func(to map[wire.Kind]map[string]bool, kind wire.Kind, name string) {
		if to[kind] == nil {
			to[kind] = map[string]bool{}
		}
		to[kind][name] = true
	}
	for name, m := range samples(t) {
		for _, n := range wire.Notes(m) {
			add(noted, m.Kind(), n.Key)
		}
		var object map[string]any
		if json.Unmarshal(m.Value, &object) == nil {
			for field := range object {
				add(fields, m.Kind(), field)
			}
		}
		if m.Get("schema") == "" || kindOf(m) == residuals.Kind || kindOf(m) == prediction.Kind {
			continue
		}
		var names []string
		if wire.IsSingle(m) {
			names = tensorNames(t, arrowtest.Must((&wire.Collector[float32]{}).Add(m, mem))(t).Tensors)
		} else {
			names = tensorNames(t, arrowtest.Must((&wire.Collector[float64]{}).Add(m, mem))(t).Tensors)
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

func tensorNames[T wire.Number](t *testing.T, tensors wire.Tensors[T]) (names []string) {
	for _, tensor := range tensors {
		name := tensor.Name
		if of, stage, ok := strings.Cut(name, "/"); ok && stage == "0" {
			name = of + "/STAGE"
		} else if of == statistics.PartAverage {
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

func sameNames(t *testing.T, kind wire.Kind, what string, documented []string, found map[string]bool) {
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
	page := string(arrowtest.Must(os.ReadFile("FORMAT.md"))(t))
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
			text += fmt.Sprintf("| `%s` | %s | `%s` | %s | %s | %s | `%s` |\n", l.kind, l.topic, l.key, l.writer, l.reader, l.says,
				strings.Join(jsonFields(l.value), "`, `"))
		}
	}
	return text
}

// FORMAT.md names the columns of each schema, in their order, with their types.
func TestFormatColumns(t *testing.T) {
	mem := arrowtest.Allocator(t)
	page := string(arrowtest.Must(os.ReadFile("FORMAT.md"))(t))
	record := producedRows(3)["all"].Record(mem)
	defer record.Release()
	for section, schema := range map[string]*arrow.Schema{
		"Examples": record.Schema(), "Residuals": residuals.Schema(3, true), "Predicted rows": prediction.Schema(3, examples.SeveralLabels,
			arrow.PrimitiveTypes.Float64), "Records": wire.FormatOf[float64]().Schema,
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
		"visit without coverage": second(statistics.VisitOf(&wire.Record[float64]{})),
		"survey without count":   second(statistics.SurveyVisitOf(&wire.Record[float64]{Notes: []wire.Header{{Key: "covered", Value: coverage.Coverage{}.Text()}}})),
		"gram without weight":    second(statistics.BlockGramOf(&wire.Record[float32]{}, nil)),
		"seal without offsets":   second(statistics.SealOf(&wire.Record[float64]{Notes: []wire.Header{{Key: "covered", Value: coverage.Coverage{}.Text()}}})),
		"seal without coverage": second(statistics.SealOf(&wire.Record[float64]{Notes: []wire.Header{{Key: "from", Value: "0"},
			{Key: "to", Value: "1"}, {Key: "rows", Value: "1"}}})),
		"prepare without rows": second(statistics.SurveyResultOf(&wire.Record[float32]{})),
		"prepare without quarantined": second(statistics.SurveyResultOf(&wire.Record[float32]{Notes: []wire.Header{{Key: "rows",
			Value: "1 2 3"}}})),
		"weights of no number of passes": second(WeightsOf(&wire.Record[float32]{Notes: []wire.Header{{Key: "final", Value: "1"},
			{Key: "links", Value: "x"}}})),
		"quarantine of another kind": second(QuarantinedOf(wire.Message{})),
		"quarantine without offset":  second(QuarantinedOf(wire.Message{Headers: []wire.Header{{Key: "kind", Value: "quarantine"}}})),
	} {
		if !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	rows, draws := wire.Matrix(statistics.FieldSample, 1, 2, []float32{1, 2}), wire.Words[float32](statistics.FieldDraws,
		[]string{"00000000000000ff"})
	for _, tensors := range []wire.Tensors[float32]{
		nil, {rows}, {draws}, {rows, wire.Words[float32](statistics.FieldDraws, []string{"1", "2"})}, {wire.Vector(statistics.FieldSample,
			[]float32{1}), draws},
	} {
		_, err := statistics.SampleOf(&wire.Record[float32]{Tensors: tensors})
		if shape := (*wire.ShapeError)(nil); !errors.As(err, &shape) {
			t.Errorf("%v: %v", tensors, err)
		}
	}
	if _, err := statistics.SampleOf(&wire.Record[float32]{Tensors: wire.Tensors[float32]{rows,
		wire.Words[float32](statistics.FieldDraws, []string{"xyz"})}}); !errors.Is(err, wire.ErrDamaged) {
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
	if o, ok := OriginOf(samples(t)["examples"]); !ok || o != (Origin{Source: "source", Attempt: "1", Sequence: 5}) ||
		!o.Of(&SourceSeal{ID: "source", Attempt: "1"}) {
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
	m, err := behind.TopicMessage(positions(), &examples.Rows{Rows: 1, Cols: 1, Floats: []float32{1}}, memory.DefaultAllocator)
	if behind.Next = 9; err != nil {
		t.Fatal(err)
	}
	if o, ok := OriginOf(m); !ok || o != behind {
		t.Errorf("the origin %+v is read as %+v, %v", behind, o, ok)
	}
	for _, text := range []string{"", "[", `[{"partition":-1}]`, `[{"next":-1}]`} {
		if _, err := TopicPositionsOf(wire.Message{Headers: []wire.Header{{Key: headerPositions, Value: text}}}); !errors.Is(err,
			wire.ErrDamaged) {
			t.Errorf("positions %s: %v", text, err)
		}
	}
	if o, ok := OriginOf(samples(t)["examples-sparse"]); ok {
		t.Errorf("another producer's message has origin %+v", o)
	}
	for _, headers := range [][]wire.Header{
		{{Key: headerSource, Value: "source"}, {Key: headerSequence, Value: "5"}}, {{Key: headerSource, Value: "source/1"}}, {{Key: headerSource, Value: "source/1"}, {Key: headerSequence, Value: "-1"}},
		{{Key: headerSource, Value: "source/1"}, {Key: headerSequence, Value: "x"}}, {{Key: "source", Value: "source/1"}, {Key: "sequence", Value: "5"}},
		{{Key: headerSource, Value: "topic:clicks/1"}, {Key: headerSequence, Value: "5"}}, {{Key: headerSource, Value: "topic:clicks/1"}, {Key: headerSequence, Value: "5"}, {Key: headerNext, Value: "5"}},
	} {
		if o, ok := OriginOf(wire.Message{Headers: headers}); ok {
			t.Errorf("%v: %+v, %v", headers, o, ok)
		}
	}
}
