package pipeline

import (
	"context"
	"errors"
	"strconv"

	"github.com/stagewise/stagewise/pipeline/chain"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/heed"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

// announce recovers versions if the plans topic has lost them. It reports whether there are any: the ledger is then
// outdated.
func (r *runner) announce(ctx context.Context, l *protocol.Ledger) (again bool, err error) {
	numbers, err := r.AnnounceVersions(ctx, l)
	if len(numbers) > 0 {
		event.Notice(r.rec, "%s has lost earlier versions: %s are complete on %s, and are announced again", r.Topics.Plans,
			english.WordSeries(numbersText(numbers), "and"), r.Topics.Versions)
	}
	return len(numbers) > 0, err
}

// numbersText formats numbers.
func numbersText(numbers []int) (text []string) {
	for _, n := range numbers {
		text = append(text, strconv.Itoa(n))
	}
	return text
}

// windowOfPlans reconstructs the window of the chain's newest version, whose state is gone, from the plans of the last
// full run to the newest update. Which messages count in its spans is unknown, so the next run is a full one, which
// decides that again. If plans are gone too, the window is everything that the chain has processed.
func (r *runner) windowOfPlans(ctx context.Context) (*schemas.Window, error) {
	r.chain.Renews = true
	past, err := heed.ReadHistory(ctx, r.Pipeline)
	if err != nil {
		return nil, err
	}
	runs, err := past.Runs(r.chain.Head)
	if err != nil && !errors.As(err, new(*heed.MissingPlanError)) {
		return nil, err
	}
	what := "the plans list its messages"
	if err != nil {
		what = "some of its plans are also lost, so all messages that the chain has read count as its messages"
	}
	w, err := chain.WindowOfPlans(r.chain.Head, heed.PlansOf(runs), err == nil)
	if err != nil {
		return nil, err
	}
	event.Notice(r.rec, "%s has lost the state of version %d: %s, and the next version is fitted to them", r.Topics.State,
		r.chain.Head.Version, what)
	return w, nil
}
