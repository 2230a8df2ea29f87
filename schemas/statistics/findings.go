package statistics

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Findings is what a survey finds in a segment, in a share, or in all shares, besides sums and a sample of rows. Lists are in the order of
// partitions and offsets. Use [NewFindings].
type Findings struct {
	Quarantined int64                `header:"quarantined"` // quarantined messages
	PassedOver  coverage.PassedOver  `header:"passed_over"`
	Bad         coverage.BadMessages `header:"bad,omitzero"`          // chain: messages of the newest increment
	Parts       []coverage.Coverage  `tensor:"covered,texts"`         // of each partition
	Skipped     coverage.Spans       `tensor:"skipped,text,omitzero"` // chain: messages in the span that are not included
	// Progress is the progress of the plan's sources after the span, in a run of a chain.
	Progress []PartitionProgress `tensor:"progress,texts,omitempty"`
	// ByIncrement are the coverages of each increment of a full run of a chain in the partitions that have some of it.
	ByIncrement [][]coverage.Coverage `tensor:"increments,texts,omitempty"`
	// Messages are the losses of the version before an update on each message with training rows.
	Messages []MessageLosses `tensor:"messages,omitempty"`
	// Served are the errors of the answers that were served for the training rows of an update.
	Served []ServedLosses `tensor:"served,omitempty"`

	// Labels are the labels of the rows with the numbers of training rows; none if the plan names the classes and does not balance them.
	Labels     LabelSet
	Unknown    LabelSet   // rows with labels that are not classes
	Untrained  LabelSet   // holdout and test rows of each label
	ColumnRows ColumnRows // of training rows, if they are sparse
}

// PartitionProgress is the progress of a source in one partition.
type PartitionProgress struct {
	Partition int    `json:"partition"`
	Source    string `json:"source"`  // source ID
	Attempt   string `json:"attempt"` // attempt of the ingest
	Next      int64  `json:"next"`    // first sequence that is not counted
}

// MessageLosses are the prequential losses of the training rows of one message: before it was trained on.
type MessageLosses struct {
	Partition int
	Offset    int64
	Losses    // of the training rows
}

// NewFindings returns empty findings.
func NewFindings() Findings {
	return Findings{Labels: LabelSet{}, Unknown: LabelSet{}, Untrained: LabelSet{}, ColumnRows: ColumnRows{}}
}

// Merge adds the findings in the next segment, or in the next share.
func (f *Findings) Merge(next *Findings) (err error) {
	f.Labels.Merge(next.Labels)
	f.Unknown.Merge(next.Unknown)
	f.Untrained.Merge(next.Untrained)
	f.ColumnRows.Merge(next.ColumnRows)
	f.Quarantined += next.Quarantined
	f.PassedOver.Add(next.PassedOver)
	f.Bad.Merge(next.Bad)
	f.Skipped, f.Progress = append(f.Skipped, next.Skipped...), append(f.Progress, next.Progress...)
	f.Messages, f.Served = append(f.Messages, next.Messages...), AddServed(f.Served, next.Served...)
	for i, list := range next.ByIncrement {
		if i == len(f.ByIncrement) {
			f.ByIncrement = append(f.ByIncrement, nil)
		}
		if f.ByIncrement[i], err = mergeCovered(f.ByIncrement[i], list); err != nil {
			return err
		}
	}
	f.Parts, err = mergeCovered(f.Parts, next.Parts)
	return err
}

// mergeCovered adds the coverages of the next partitions, the first of which may be the last partition so far.
func mergeCovered(list, next []coverage.Coverage) ([]coverage.Coverage, error) {
	if last := len(list) - 1; last >= 0 && len(next) > 0 && list[last].Spans[0].Partition == next[0].Spans[0].Partition {
		if err := list[last].Merge(next[0]); err != nil {
			return nil, err
		}
		next = next[1:]
	}
	return append(list, next...), nil
}

// check returns an error for impossible findings.
func (f *Findings) check() error {
	for _, list := range append(f.ByIncrement, f.Parts) {
		if slices.ContainsFunc(list, func(c coverage.Coverage) bool { return len(c.Spans) == 0 }) {
			return errors.New("a partition without offsets")
		}
	}
	for i := range f.Messages {
		if err := f.Messages[i].check(); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return cmp.Or(coverage.Check(f.Skipped), checkServed(f.Served))
}

// LabelSet has the labels seen, and the number of rows of each that count, such as fitted rows.
type LabelSet map[string]int64

// Add adds a label with a number of rows, which may be 0.
func (l LabelSet) Add(label string, rows int64) { l[label] += rows }

// Merge adds all of o's labels.
func (l LabelSet) Merge(o LabelSet) {
	for label, rows := range o {
		l[label] += rows
	}
}

// AddList adds the labels of a list.
func (l LabelSet) AddList(list []examples.LabelRows) {
	for _, of := range list {
		l[of.Label] += of.Rows
	}
}

// List returns the labels with their rows, in ascending order; nil if there are none.
func (l LabelSet) List() (list []examples.LabelRows) {
	for _, label := range slices.Sorted(maps.Keys(l)) {
		list = append(list, examples.LabelRows{Label: label, Rows: l[label]})
	}
	return list
}

// Text returns the labels in the order of classes that are not configured.
func (l LabelSet) Text() []string {
	text := slices.Collect(maps.Keys(l))
	examples.SortLabels(text)
	return text
}

// ColumnRows has the number of rows in which each column of sparse rows is nonzero. Counts form a commutative monoid.
type ColumnRows map[int32]uint32

// Add counts a row that has these columns, each once.
func (c ColumnRows) Add(columns []int32) {
	for _, column := range columns {
		c[column]++
	}
}

// Merge adds the counts of o.
func (c ColumnRows) Merge(o ColumnRows) {
	for column, rows := range o {
		c[column] += rows
	}
}

// List returns the counts in the order of the columns; nil if there are none.
func (c ColumnRows) List() (counts []examples.ColumnRows) {
	for _, column := range slices.Sorted(maps.Keys(c)) {
		counts = append(counts, examples.ColumnRows{Column: column, Rows: c[column]})
	}
	return counts
}

// ServedLosses is the error of a version's served answers, given the labels of the rows.
type ServedLosses struct {
	Version int
	Weight  float64 // Σw
	Rows    float64 // number of rows
	Errors  float64 // Σw of the rows with another label
}

// ErrorPercent returns the weighted percentage of wrong rows, or 0 if the weight is 0.
func (s ServedLosses) ErrorPercent() float64 { return 100 * Ratio(s.Errors, s.Weight) }

// AddServed adds the errors on further rows. Both lists, and the result, are in the order of the versions.
func AddServed(to []ServedLosses, more ...ServedLosses) []ServedLosses {
	for _, s := range more {
		i, found := slices.BinarySearchFunc(to, s.Version, func(a ServedLosses, version int) int { return cmp.Compare(a.Version, version) })
		if !found {
			to = slices.Insert(to, i, ServedLosses{Version: s.Version})
		}
		to[i].Weight += s.Weight
		to[i].Rows += s.Rows
		to[i].Errors += s.Errors
	}
	return to
}

// checkServed returns an error unless the errors are possible and the versions ascend.
func checkServed(served []ServedLosses) error {
	for i, s := range served {
		losses := Losses{Weight: s.Weight, Rows: s.Rows, Errors: s.Errors}
		if err := losses.check(); err != nil {
			return fmt.Errorf("version %d: %w", s.Version, err)
		}
		if s.Version < 1 || s.Version > examples.MaxVersion || i > 0 && s.Version <= served[i-1].Version {
			return fmt.Errorf("version %d at place %d: expected ascending versions, from 1", s.Version, i)
		}
	}
	return nil
}

// ErrorBin is the prequential error of consecutive messages: measured before training on them.
type ErrorBin struct {
	Offset   int64   `json:"offset"`   // distance of the first message from the first offset of its partition
	Messages int64   `json:"messages"` // number of messages
	Rows     int64   `json:"rows"`     // number of training rows
	Weight   float64 `json:"weight"`   // Σw of these rows
	Error    float64 `json:"error"`    // percent
	Loss     float64 `json:"loss"`     // loss of the last stage's link
}

// and merges two adjacent bins.
func (b ErrorBin) and(next ErrorBin) ErrorBin {
	if weight := b.Weight + next.Weight; weight > 0 {
		b.Error = wire.Finite((b.Weight*b.Error + next.Weight*next.Error) / weight)
		b.Loss = wire.Finite((b.Weight*b.Loss + next.Weight*next.Loss) / weight)
		b.Weight = weight
	}
	b.Messages, b.Rows = b.Messages+next.Messages, b.Rows+next.Rows
	return b
}

// Shorten returns a curve with at most that many bins. It merges neighbours.
func Shorten(curve []ErrorBin, most int) []ErrorBin {
	for len(curve) > max(most, 1) {
		half := make([]ErrorBin, 0, (len(curve)+1)/2)
		for i := 0; i < len(curve); i += 2 {
			if i+1 == len(curve) {
				half = append(half, curve[i])
			} else {
				half = append(half, curve[i].and(curve[i+1]))
			}
		}
		curve = half
	}
	return curve
}

// Bin returns the bin of one message, given its distance from the first offset of its partition.
func (m *MessageLosses) Bin(offset int64) ErrorBin {
	return ErrorBin{Offset: offset, Messages: 1, Rows: int64(m.Rows), Weight: m.Weight, Error: wire.Finite(m.ErrorPercent()),
		Loss: wire.Finite(m.MeanLoss())}
}

// KindSample is the kind of a [Sample] record.
const KindSample wire.Kind = "sample"

// Sample has raw rows that the survey drew from a share. It is as confidential as the examples.
type Sample struct {
	wire.Identity
	Width int       // features of a row
	Rows  []float32 // n × Width, in the order of Draws; a missing value is NaN
	Draws []uint64  // n: hash of each row; the run's sample is the rows with the smallest hashes over all partitions
}

// Record makes the record of the sample.
func (s *Sample) Record() *wire.Record[float32] {
	draws := make([]string, len(s.Draws))
	for i, d := range s.Draws {
		draws[i] = fmt.Sprintf("%016x", d)
	}
	rows := wire.Matrix(FieldSample, len(s.Draws), s.Width, s.Rows)
	return &wire.Record[float32]{Identity: s.Identity, Tensors: wire.Tensors[float32]{rows, wire.Words[float32](FieldDraws, draws)}}
}

// SampleOf is the inverse of [Sample.Record], given the widened record. An error wraps [wire.ErrDamaged].
func SampleOf(r *wire.Record[float64]) (*Sample, error) {
	draws, _ := r.Tensors.Find(FieldDraws)
	rows, err := r.Tensors.Shaped(FieldSample, len(draws.Text), -1)
	if err != nil {
		return nil, r.Damaged(err)
	}
	s := &Sample{Identity: r.Identity, Rows: make([]float32, len(rows)), Draws: make([]uint64, len(draws.Text))}
	for i, v := range rows {
		s.Rows[i] = float32(v)
	}
	for i, text := range draws.Text {
		s.Width = len(rows) / len(draws.Text)
		if s.Draws[i], err = strconv.ParseUint(text, 16, 64); err != nil {
			return nil, r.Damaged(err)
		}
	}
	return s, nil
}

// The rows of a [Sample] record of a stage are the training rows that its trees are grown on. Each has the codes of its c columns, its k
// residuals, and its weight.

// GrowthWidth returns the number of values of such a row.
func GrowthWidth(columns, classes int) int { return columns + classes + 1 }

// growthPurpose separates the hashes of such rows from others with the same seed.
const growthPurpose = 0x67726f77

// GrowthHash returns the hash of a row, given its position: the rows with the smallest hashes are the sample.
func GrowthHash(seed uint64, stage, partition int, offset int64, row int) uint64 {
	return wire.Hash(seed, growthPurpose, uint64(stage), uint64(partition), uint64(offset), uint64(row))
}
