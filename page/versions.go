package page

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// described is a version with what the page does not show of it.
type described struct {
	Version
	ends    []int64  // by partition: offset before which its run has processed messages
	quality *Quality // nil: it has no report
}

// describeVersions describes the versions that are not described yet.
func (r *reader) describeVersions(ctx context.Context) error {
	for {
		place, newest, any := r.next()
		if !any {
			return nil
		}
		finished, report, err := r.client.Described(ctx, place)
		if errors.As(err, new(*protocol.GoneError)) { // it is being removed
			r.change(func() {
				r.places = slices.DeleteFunc(slices.Clone(r.places), func(p schemas.Place) bool { return p.Run == place.Run })
			})
			continue
		}
		if err != nil {
			return err
		}
		d := r.describe(finished, report)
		if newest && finished.Window != nil {
			// Partitions without recent messages are in none of the kept versions, but in the window.
			w, err := protocol.ReadWindow(ctx, r.client, *finished.Window)
			if err != nil {
				return err
			}
			if w != nil && len(w.Ends) > 0 {
				d.ends = w.Ends
			}
		}
		r.change(func() { r.catalogue[place.Run] = d })
	}
}

// listed returns the versions that the page has, by number: the newest.
func (r *reader) listed() []schemas.Place { return r.places[max(0, len(r.places)-maxVersions):] }

// latest returns the run of the version that subscribers get; empty if there is none.
func (r *reader) latest() string { return cmp.Or(r.pinned, r.offered) }

// at returns the index of the version of a run in places; −1: there is none.
func (r *reader) at(run string) int {
	return slices.IndexFunc(r.places, func(p schemas.Place) bool { return p.Run == run })
}

// next returns the place of the version to describe next: the one that subscribers get, and then the newest. newest reports whether it is
// the newest. next forgets versions that were removed.
func (r *reader) next() (place schemas.Place, newest, any bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	order := r.listed()
	if at := r.at(r.latest()); at >= 0 {
		order = append(slices.Clone(order), r.places[at])
	}
	kept := map[string]bool{}
	for _, p := range slices.Backward(order) {
		kept[p.Run] = true
		if !any && r.catalogue[p.Run] == nil {
			place, newest, any = p, p.Run == r.places[len(r.places)-1].Run, true
		}
	}
	maps.DeleteFunc(r.catalogue, func(run string, _ *described) bool { return !kept[run] })
	return place, newest, any
}

// describe returns a version for the page.
func (r *reader) describe(f protocol.Finished, report *schemas.Report) *described {
	metric := func(name string) *float64 {
		if v, any := f.Metrics[name]; any {
			return &v
		}
		return nil
	}
	d := &described{Version: Version{RetrainReport: schemas.RetrainReport{Kind: kindOf(f.Plan), Rows: f.Rows[examples.Train.String()]}}}
	if report != nil {
		if d.quality = qualityOf(report); report.Retrain != nil {
			d.RetrainReport = *report.Retrain
			d.Spans, d.Curve = nil, nil
		}
		d.Seconds = report.Seconds
	}
	d.RetrainReport.Version, d.Run, d.Written, d.Digest = f.Version, f.Run, milliseconds(f.Written), f.WeightsDigest.Short()
	d.TrainError, d.HoldoutError, d.TestError = metric("train_error"), metric("holdout_error"), metric("test_error")
	parent := ""
	if f.Plan.Warm != nil {
		parent = f.Plan.Warm.Run
	}
	if c := f.Plan.Chain; c != nil && c.Parent != nil {
		parent = c.Parent.Run
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if at := r.at(parent); at >= 0 {
		d.Parent = strconv.Itoa(r.places[at].Version)
	} else if parent != "" {
		d.Parent = "run " + parent
	}
	for _, s := range f.Plan.Spans {
		d.ends = append(d.ends, make([]int64, max(s.Partition+1-len(d.ends), 0))...)
		d.ends[s.Partition] = max(d.ends[s.Partition], s.To)
	}
	return d
}

// versions returns the versions that are described, by number, and the quality of the one that subscribers get.
func (r *reader) versions() (list []Version, quality *Quality) {
	list = []Version{}
	served := map[int]schemas.ServedReport{} // of the served answers, by version number, according to the described updates
	for _, p := range r.listed() {
		d := r.catalogue[p.Run]
		if d == nil {
			continue
		}
		v := d.Version
		v.Offered, v.Pinned, v.Latest = !p.Withheld, p.Run == r.pinned, p.Run == r.latest()
		list = append(list, v)
		for _, s := range v.Served {
			sum := served[s.Version]
			rows := sum.Rows + s.Rows
			served[s.Version] = schemas.ServedReport{Rows: rows,
				Error: wire.Finite((float64(sum.Rows)*sum.Error + float64(s.Rows)*s.Error) / float64(max(rows, 1)))}
		}
	}
	for i := range list {
		v := &list[i]
		if s := served[v.Version]; s.Rows > 0 {
			v.ServedError, v.ServedRows = &s.Error, s.Rows
		}
	}
	if d := r.catalogue[r.latest()]; d != nil {
		quality = d.quality
	}
	return list, quality
}

// qualityOf returns the quality of the predictions of a version, on rows that it has not learnt if there are any.
func qualityOf(report *schemas.Report) *Quality {
	q := &Quality{Version: report.Version, Labels: report.Labels}
	update := report.Retrain != nil && report.Retrain.Kind == schemas.RunUpdate
	order := []examples.Split{examples.Test, examples.Holdout, examples.Train}
	if update { // all of its splits are measured before the rows are learnt, and training rows are the most
		order = []examples.Split{examples.Train, examples.Test, examples.Holdout}
		q.Curve = alongRows(report.Retrain.Curve)
	}
	for _, split := range order {
		if s, any := report.Splits[split.String()]; any && s.Rows > 0 {
			q.Split, q.Before, q.SplitReport = split.String(), update, s
			break
		}
	}
	if q.Split == "" {
		return nil
	}
	if len(q.Confusion) > maxMatrix {
		q.Pairs, q.Confusion = pairsOf(q.Confusion, q.Labels), nil
	}
	if len(q.Labels) > maxMatrix {
		q.Labels, q.Precision, q.Recall, q.F1 = nil, nil, nil, nil
	}
	return q
}

// alongRows returns the error over the rows of a version. Messages at the same distance from the start of their
// partitions arrived at about the same time: they are one point.
func alongRows(curve []statistics.ErrorBin) (points []CurvePoint) {
	rows := int64(0)
	for i := 0; i < len(curve); {
		weight, wrong, offset := 0.0, 0.0, curve[i].Offset
		for ; i < len(curve) && curve[i].Offset == offset; i++ {
			rows += curve[i].Rows
			weight, wrong = weight+curve[i].Weight, wrong+curve[i].Weight*curve[i].Error
		}
		if weight > 0 {
			points = append(points, CurvePoint{Rows: rows, Error: wire.Finite(wrong / weight)})
		}
	}
	return points
}

// pairsOf returns the classes that are confused most.
func pairsOf(confusion [][]int64, labels []string) (pairs []Pair) {
	for i, row := range confusion {
		for j, rows := range row {
			if i != j && rows > 0 {
				pairs = append(pairs, Pair{labels[i], labels[j], rows})
			}
		}
	}
	slices.SortStableFunc(pairs, func(a, b Pair) int { return cmp.Compare(b.Rows, a.Rows) })
	return slices.Clone(pairs[:min(len(pairs), maxPairs)]) // a version keeps them, without all others
}
