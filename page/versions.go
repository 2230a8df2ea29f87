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

// described is the state of a version.
type described struct {
	Version
	parent  string                 // the run of its parent; empty: it started from nothing
	ends    []int64                // by partition: offset before which its run has processed messages; −1: unknown
	quality *Quality               // nil: it has no report
	served  []schemas.ServedReport // errors of the served answers for the new rows of an update
}

// describeVersions describes the versions, the newest first, and follows new ones.
func (r *reader) describeVersions(ctx context.Context) error {
	for {
		any, err := r.describeNext(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		if any {
			continue
		}
		r.change(func() { r.errors[partVersions] = nil })
		select {
		case <-r.more:
		case <-ctx.Done():
		}
	}
}

// describeNext describes a version, and reports whether there was one that is not described yet.
func (r *reader) describeNext(ctx context.Context) (any bool, err error) {
	place, newest, any := r.next()
	if !any {
		return false, nil
	}
	finished, report, err := r.client.Described(ctx, place)
	if errors.As(err, new(*protocol.GoneError)) { // it is being removed
		r.change(func() {
			r.places = slices.DeleteFunc(slices.Clone(r.places), func(p schemas.Place) bool { return p.Run == place.Run })
		})
		return true, nil
	}
	if err != nil {
		return true, err
	}
	d := describe(finished, report)
	if newest && finished.Window != nil {
		// Partitions without recent messages are in none of the kept versions, but in the window.
		ends, err := protocol.ChainEnds(ctx, r.client, *finished.Window)
		if err != nil {
			return true, err
		}
		if ends != nil {
			d.ends = ends
		}
	}
	r.change(func() {
		r.catalogue[place.Run] = d
		r.topics.learn(d.ends)
	})
	return true, nil
}

// listed returns the versions that the page has, by number: the newest.
func (r *reader) listed() []schemas.Place { return r.places[max(0, len(r.places)-maxVersions):] }

// latest returns the run of the version that subscribers get; empty if there is none.
func (r *reader) latest() string { return cmp.Or(r.pinned, r.offered) }

// next returns the place of the version to describe next: the one that subscribers get, and then the newest. newest reports whether it is
// the newest. next forgets versions that were removed.
func (r *reader) next() (place schemas.Place, newest, any bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	latest, order := r.latest(), slices.Clone(r.listed())
	slices.Reverse(order)
	if at := slices.IndexFunc(r.places, func(p schemas.Place) bool { return p.Run == latest }); at >= 0 {
		order = append([]schemas.Place{r.places[at]}, order...)
	}
	kept := map[string]bool{}
	for _, p := range order {
		kept[p.Run] = true
		if !any && r.catalogue[p.Run] == nil {
			place, newest, any = p, p.Run == r.places[len(r.places)-1].Run, true
		}
	}
	maps.DeleteFunc(r.catalogue, func(run string, _ *described) bool { return !kept[run] })
	return place, newest, any
}

// describe returns a version for the page.
func describe(f protocol.Finished, report *schemas.Report) *described {
	metric := func(name string) *float64 {
		if v, any := f.Metrics[name]; any {
			return &v
		}
		return nil
	}
	d := &described{Version: Version{
		Version: f.Version, Run: f.Run, Written: milliseconds(f.Written), Kind: kindOf(f.Plan), Rows: f.Rows[examples.Train.String()],
		TrainError: metric("train_error"), HoldoutError: metric("holdout_error"), TestError: metric("test_error"), Offered: f.Offered,
		Digest: f.WeightsDigest.Short(),
	}}
	if f.Plan.Warm != nil {
		d.parent = f.Plan.Warm.Run
	}
	if c := f.Plan.Chain; c != nil && c.Parent != nil {
		d.parent = c.Parent.Run
	}
	for _, s := range f.Plan.Spans {
		for len(d.ends) <= s.Partition {
			d.ends = append(d.ends, -1)
		}
		d.ends[s.Partition] = max(d.ends[s.Partition], s.To)
	}
	if report == nil {
		return d
	}
	d.Seconds, d.quality = report.Seconds, qualityOf(report)
	if u := report.Retrain; u != nil {
		d.Kind, d.Rows, d.PrequentialError, d.Drift, d.MostlyBad, d.UnknownRows, d.AtLeast = u.Kind, u.Rows, u.PrequentialError, u.Drift,
			u.MostlyBad != nil, u.UnknownRows, u.AtLeast
		d.served = u.Served
	}
	return d
}

// versions returns the versions that are described, by number, and the quality of the one that subscribers get.
func (r *reader) versions() (list []Version, quality *Quality) {
	list = []Version{}
	numbers := map[string]string{}
	for _, p := range r.places {
		numbers[p.Run] = strconv.Itoa(p.Version)
	}
	served := r.served()
	for _, p := range r.listed() {
		d := r.catalogue[p.Run]
		if d == nil {
			continue
		}
		v := d.Version
		v.Offered, v.Pinned, v.Latest = !p.Withheld, p.Run == r.pinned, p.Run == r.latest()
		if s := served[v.Version]; s.Rows > 0 {
			v.ServedError, v.ServedRows = &s.Error, s.Rows
		}
		if d.parent != "" {
			v.Parent = cmp.Or(numbers[d.parent], "run "+d.parent)
		}
		list = append(list, v)
	}
	if d := r.catalogue[r.latest()]; d != nil {
		quality = d.quality
	}
	return list, quality
}

// served returns the errors of served answers, by version number, according to the described updates.
func (r *reader) served() map[int]schemas.ServedReport {
	all := map[int]schemas.ServedReport{}
	for _, p := range r.listed() {
		d := r.catalogue[p.Run]
		if d == nil {
			continue
		}
		for _, s := range d.served {
			sum := all[s.Version]
			rows := sum.Rows + s.Rows
			all[s.Version] = schemas.ServedReport{Version: s.Version, Rows: rows,
				Error: wire.Finite((float64(sum.Rows)*sum.Error + float64(s.Rows)*s.Error) / float64(max(rows, 1)))}
		}
	}
	return all
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
