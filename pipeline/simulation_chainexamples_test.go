package pipeline

import (
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
)

// simNow is the time of the clock of every process, in milliseconds since 1970.
const simNow = 10_000

// simTimes are what producers say of when they have written messages: in the past, nothing (-1 and 0), the same again, before what they have
// written earlier, and next year.
var simTimes = []int64{1000, 2000, -1, 2000, 4000, 0, 3000, 6000, simNow + (365 * 24 * time.Hour).Milliseconds(), 8000}

// gap is so many offsets without a message, behind the message of that index: of transactions that were aborted. The markers of transactions leave
// one offset each.
type gap struct {
	after   int
	offsets int64
}

// simGaps are longer and shorter than what a backlog reads at once, and the last of them ends a partition.
var simGaps = [simPartitions][]gap{{{4, 3 * readAhead}, {6, readAhead}}, {{4, 1}, {5, readAhead + 1}, {6, 1}}}

// addExamples adds the examples of a scenario to their topic.
func (s *simulation) addExamples() {
	for n, messages := range s.messages {
		p := s.log.topics[s.topics.Examples][n]
		for i, m := range messages {
			p.append(m)
			if s.timed {
				p.last().Time = s.nextTime()
			}
			for _, g := range s.gaps[n] {
				if g.after == i {
					p.end += g.offsets
				}
			}
		}
	}
}

// nextTime returns when the next message of a producer says that it was written.
func (s *simulation) nextTime() time.Time {
	s.times++
	return time.UnixMilli(simTimes[s.times%len(simTimes)])
}

// last returns the last message.
func (p *simPartition) last() *run.Message { return &p.messages[len(p.messages)-1] }

// abort writes a transaction of a producer to a partition of the examples, and aborts it: its records and its marker have offsets, and nobody reads them.
func (s *simulation) abort() {
	topic, n, p := s.drawPartition(s.topics.Examples)
	offsets := []int64{2, readAhead, 1000}[s.random.IntN(3)]
	s.log.happen(abortion, "%s[%d] has %d offsets of an aborted transaction from offset %d on", topic, n, offsets, p.end)
	p.end += offsets
}

// withHoles returns examples of which the log has lost nothing, but whose offsets have gaps, and whose times are wrong.
func (e *simExamples) withHoles() *simExamples {
	e.timed, e.gaps = true, simGaps
	return e
}

// timeOptions make a chain whose window is of a time.
func timeOptions() RetrainOptions {
	o := chainOptions()
	o.Window = WindowOptions{Time: 5 * time.Second}
	return o
}

// manyExamples are so many messages in each partition.
func manyExamples(messages int) *simExamples {
	e := &simExamples{rows: int64(simPartitions * messages * simRows)}
	for p := range simPartitions {
		var list []schemas.Message
		for n := range messages {
			list = append(list, simMessage(p, n, schemas.Origin{}))
		}
		e.messages = append(e.messages, list)
	}
	return e
}

// driftingExamples are messages whose classes a linear function separates: the label says on which side of 0 the first feature is. In the second
// half of the messages it says the contrary.
func driftingExamples() *simExamples {
	const messages, rowsOfMessage = 10, 12
	e := &simExamples{rows: simPartitions * messages * rowsOfMessage, holdout: 0.25}
	for p := range simPartitions {
		var list []schemas.Message
		for n := range messages {
			data := rings(rowsOfMessage, 2, 2, uint64(1000+100*p+n))
			for i, row := range data.rows {
				data.labels[i] = "left"
				if (row[0] > 0) == (n < messages/2) {
					data.labels[i] = "right"
				}
			}
			rows := data.exampleRows()
			m, err := (schemas.Origin{}).Message(&rows, memory.DefaultAllocator)
			if err != nil {
				panic(err) // the rows fit into a message
			}
			list = append(list, schemas.Message{Value: m.Value})
		}
		e.messages = append(e.messages, list)
	}
	return e
}

// gatedOptions make a chain that offers a version only if its holdout rows say that it is better, and begins again when the stream changes.
func gatedOptions() RetrainOptions {
	o := chainOptions()
	o.Rows, o.Decay, o.Refresh, o.Window, o.Full = 24, 1, 2, WindowOptions{}, FullOptions{Every: 8, Drift: true}
	o.Gate.Margin = 0
	return o
}

// manyOptions make a chain of many increments, which are merged as the state topic has room for few terms.
func manyOptions() RetrainOptions {
	o := mergingOptions()
	o.Window, o.Full = WindowOptions{}, FullOptions{Every: 60}
	return o
}
