//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// Faults that a chain has from its beginning, or to which its topics are set up.
const (
	brokerDown  kind = "make the topics with a broker down"
	skewClocks  kind = "skew the clocks"
	electBehind kind = "elect a lagging leader"
)

// circumstances are what a chain is made under, beside the faults of its schedule.
type circumstances struct {
	// down says that a broker is down while the topics are made, so that they get two replicas.
	down bool
	// skewed says that the clock of each process is wrong by up to maxSkew.
	skewed bool
	// behind says that a partition whose replicas are not in sync gets a leader nevertheless (unclean.leader.election.enable),
	// so that brokers lose what they have acknowledged.
	behind bool
	draw   *rand.Rand
}

// circumstancesOf draws the circumstances of a chain. They are a function of the seed.
func circumstancesOf(seed uint64) circumstances {
	draw := rand.New(rand.NewPCG(seed, 2))
	c := circumstances{draw: draw}
	switch draw.IntN(5) {
	case 0, 1:
		c.down = true
	case 2:
		c.behind = true
	}
	c.skewed = draw.IntN(2) == 0
	return c
}

// schedule returns the faults of a chain under the circumstances. Brokers that fail in other ways too could all be
// down at once, and would lose more than is to be lost.
func (c circumstances) schedule(seed uint64, visits []int) []fault {
	list := schedule(seed, chainKinds(), visits)
	if c.down || c.behind {
		list = slices.DeleteFunc(list, func(f fault) bool { return f.kind.ofBrokers() })
	}
	if c.behind {
		at := drawMoment(c.draw, visits[:max(len(visits)*2/3, 1)]) // so that the chain goes on after it
		f := fault{kind: electBehind, at: at, lasts: between(c.draw, minBehind, maxBehind), target: c.draw.IntN(1 << 16)}
		place := slices.IndexFunc(list, func(o fault) bool { return f.at.before(o.at) })
		if place < 0 {
			place = len(list)
		}
		list = slices.Insert(list, place, f)
	}
	return list
}

// replicas returns the arguments for topics that have two replicas, if the circumstances want that.
func (c circumstances) replicas() []string {
	if c.down || c.behind {
		return []string{"--set", "topics.replication=2"}
	}
	return nil
}

// brokerSession is longer than a broker's session, broker.session.timeout.ms of kafka.sh.
const brokerSession = 6 * time.Second

// Until a broker's session has run out, the others wait for it with each write. Then it gets further and further behind.
const minBehind, maxBehind = brokerSession, 2 * brokerSession

// ingest makes the topics of a chain and writes the examples. A broker that is down meanwhile is started again by the function that it
// returns.
func (c *campaign) ingest(ctx context.Context, in circumstances, named []string) (repair func() error, err error) {
	repair = func() error { return nil }
	command := append([]string{"ingest"}, named...)
	if in.down {
		node := in.draw.IntN(nodes)
		c.journal.note("%s: broker %d", brokerDown, node+1)
		if err := c.cluster.kill(ctx, node); err != nil {
			return repair, err
		}
		repair = func() error { return c.cluster.revive(ctx, node) }
		if err := c.awaitDown(ctx); err != nil {
			return repair, err
		}
		if _, err := c.call(ctx, command...); err == nil || !strings.Contains(err.Error(), "topics.replication") {
			return repair, fmt.Errorf("topics made with a broker down: %v, expected an error that names topics.replication", err)
		}
	}
	if _, err := c.call(ctx, append(command, in.replicas()...)...); err != nil {
		return repair, err
	}
	if !in.behind {
		return repair, nil
	}
	list, err := c.log.Topics(ctx, c.name+".")
	for _, topic := range list {
		err = errors.Join(err, c.log.Configure(ctx, topic.Name, map[string]string{
			"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}))
	}
	return repair, err
}

// awaitDown waits until the cluster knows that a broker is down: after its session, and if it was the controller after an
// election. Until then topics with three replicas can be made, as the probes are.
func (c *campaign) awaitDown(ctx context.Context) error {
	for n := 0; ; n++ {
		err := c.log.Create(ctx, kafkalog.Topic{Name: fmt.Sprintf("%s-probe-%d", c.name, n), Partitions: 1})
		known := errors.As(err, new(*kafkalog.ReplicationError))
		if err != nil && !known {
			return err
		}
		select {
		case <-time.After(time.Second): // also once one broker knows, for the others
		case <-ctx.Done():
			return ctx.Err()
		}
		if known {
			return nil
		}
	}
}

// electBehind has brokers lose what they have acknowledged: one is down until its replicas are behind, then the one that
// has led alone goes down, and the first comes back and leads.
func (i *injector) electBehind(ctx context.Context, f fault) bool {
	behind, ahead := f.target%nodes, (f.target+1)%nodes
	if err := i.cluster.kill(ctx, behind); err != nil {
		i.check(err)
		return false
	}
	i.later(f, func() error {
		if err := errors.Join(i.cluster.kill(ctx, ahead), i.cluster.revive(ctx, behind)); err != nil {
			return err
		}
		i.sleep(brokerSession) // until the session of the other has run out, and the first leads
		return i.cluster.revive(ctx, ahead)
	})
	return true
}
