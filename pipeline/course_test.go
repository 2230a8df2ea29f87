package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/stagewise/stagewise/schemas"
)

// Segments are fed one share after the other, those of the last shares in turn, and each share's in order.
func TestOrderOfSegments(t *testing.T) {
	shares := func(segments ...int) (all []*share) {
		for p, n := range segments {
			s := &share{span: schemas.Span{Partition: p}}
			for range n {
				s.segments = append(s.segments, &segment{batches: []*batch{}})
			}
			all = append(all, s)
		}
		return all
	}
	for _, test := range []struct {
		benches int
		shares  []*share
		want    string
	}{
		{2, shares(), "[]"},
		{1, shares(2, 1, 2), "[00 01 10 20 21]"},
		{2, shares(3), "[00 01 02]"},
		{2, shares(2, 2), "[00 10 01 11]"},
		{2, shares(2, 2, 1, 3), "[00 01 10 11 20 30 31 32]"},
		{2, shares(1, 0, 2), "[00 20 21]"},
		{3, shares(2, 2, 2, 2), "[00 01 10 20 30 11 21 31]"},
		{8, shares(2, 1), "[00 10 01]"},
	} {
		c := &course{
			sweep: &sweep{plan: &schemas.Plan{}}, ahead: semaphore.NewWeighted(1), fed: make(chan *load, 20),
			outcomes: make(chan *shared, test.benches), tokens: make(chan struct{}, 20),
		}
		if err := c.feed(context.Background(), test.shares); err != nil {
			t.Fatal(err)
		}
		got := []string{}
		for l := range c.fed {
			got = append(got, fmt.Sprintf("%d%d", l.share.span.Partition, l.at))
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%d benches: %v, want %s", test.benches, got, test.want)
		}
		if held := len(c.tokens); held != len(got) {
			t.Errorf("%d benches: %d tokens for %d segments", test.benches, held, len(got))
		}
	}
	// Who ends the sweep ends the feed, wherever it is.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := &course{sweep: &sweep{plan: &schemas.Plan{}}, ahead: semaphore.NewWeighted(1), fed: make(chan *load), outcomes: make(chan *shared, 2), tokens: make(chan struct{})}
	if err := c.feed(ctx, shares(2, 2, 2)); !errors.Is(err, context.Canceled) {
		t.Errorf("a feed that is cancelled ends with %v", err)
	}
}
