package pipeline

import (
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// simNow is the time of the clock of every process, in milliseconds since 1970.
const simNow = 10_000

// simTimes are what producers say of when they have written messages: in the past, nothing (-1 and 0), the same again,
// before what they have written earlier, and next year.
var simTimes = []int64{1000, 2000, -1, 2000, 4000, 0, 3000, 6000, simNow + (365 * 24 * time.Hour).Milliseconds(), 8000}

// gap is so many offsets without a message, behind the message of that index: of transactions that were aborted. The
// markers of transactions leave one offset each.
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
func (p *simPartition) last() *protocol.Message { return &p.messages[len(p.messages)-1] }

// abort writes a transaction of a producer to a partition of the examples, and aborts it: its records and its marker
// have offsets, and nobody reads them.
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
func timeOptions() topics.RetrainOptions {
	o := chainOptions()
	o.Window = topics.WindowOptions{Time: 5 * time.Second}
	return o
}

// manyExamples are so many messages in each partition.
func manyExamples(messages int) *simExamples {
	e := &simExamples{rows: int64(simPartitions * messages * simRows)}
	for p := range simPartitions {
		var list []wire.Message
		for n := range messages {
			list = append(list, simMessage(p, n, schemas.Origin{}))
		}
		e.messages = append(e.messages, list)
	}
	return e
}

// driftingExamples are messages whose classes a linear function separates: the label says on which side of 0 the first
// feature is. In the second half of the messages it says the contrary, and in one before also in the rows that are not
// for tests.
func driftingExamples() *simExamples {
	const messages, rowsOfMessage = 10, 16
	e := &simExamples{rows: simPartitions * messages * rowsOfMessage / 2, tested: true}
	for p := range simPartitions {
		var list []wire.Message
		for n := range messages {
			data := rings(rowsOfMessage, 2, 2, uint64(1000+100*p+n))
			var splits []examples.Split
			for i, row := range data.rows {
				splits = append(splits, []examples.Split{examples.Train, examples.Test}[i%2])
				data.labels[i] = "left"
				if wrong := n == 3 && splits[i] == examples.Train; (row[0] > 0) == (n < messages/2 && !wrong) {
					data.labels[i] = "right"
				}
			}
			rows := data.exampleRows()
			rows.Splits = splits
			m, err := (schemas.Origin{}).Message(&rows, memory.DefaultAllocator)
			if err != nil {
				panic(err) // the rows fit into a message
			}
			list = append(list, wire.Message{Value: m.Value})
		}
		e.messages = append(e.messages, list)
	}
	return e
}

// lateClassExamples are messages of which the first have one class only, and one has a row that overflows.
func lateClassExamples() *simExamples {
	e := &simExamples{rows: simPartitions * 6 * simRows}
	for p := range simPartitions {
		var list []wire.Message
		for n := range 6 {
			rows := rings(simRows, 2, 2, uint64(2000+10*p+n)).exampleRows()
			for i := range rows.Rows {
				if n < 2 {
					rows.Words[i] = "ring0"
				}
			}
			if n == 3 && p == 1 {
				rows.Floats[2] = 3e38
			}
			m, err := (schemas.Origin{}).Message(&rows, memory.DefaultAllocator)
			if err != nil {
				panic(err) // the rows fit into a message
			}
			list = append(list, wire.Message{Value: m.Value})
		}
		e.messages = append(e.messages, list)
	}
	return e
}

// gatedOptions make a chain that offers a version only if its holdout rows say that it is better, and begins again when the stream changes.
func gatedOptions() topics.RetrainOptions {
	o := chainOptions()
	o.Rows, o.Decay, o.Refresh, o.Window, o.Full = 32, 1, 2, topics.WindowOptions{}, topics.FullOptions{Every: 8, Drift: true}
	o.Gate.Margin, o.Gate.Split = 0, examples.Test.String()
	return o
}

// manyOptions make a chain of many increments, which are joined as the state topic has room for few terms.
func manyOptions() topics.RetrainOptions {
	o := joiningOptions()
	o.Window, o.Full = topics.WindowOptions{}, topics.FullOptions{Every: 60}
	return o
}
