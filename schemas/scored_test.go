package schemas

import (
	"math/rand/v2"
	"testing"
)

// scoring is a process that predicts messages of the topic, divided into parts of its own size.
type scoring struct {
	state Scored // up to seen
	seen  int64
	most  int // rows per part
}

// read applies the messages on the topic.
func (w *scoring) read(topic []*Prediction) {
	for _, p := range topic[w.seen:] {
		w.state.Count(p)
	}
	w.seen = int64(len(topic))
}

// predictions returns the predictions of some messages from the writer's position; if lost is at least 0, those of the
// next generation, from that offset on. rows has the numbers of rows of messages; −1: the offset has none.
func (w *scoring) predictions(rows []int, messages int, lost int64) (list []*Prediction) {
	state := w.state
	if lost >= 0 {
		state = Scored{Next: lost, Generation: state.Generation}
	}
	next, row := state.Next, state.Row
	for ; messages > 0 && int(next) < len(rows); next, row = next+1, 0 {
		n := rows[next]
		if n < 0 {
			continue
		}
		messages--
		for from := row; from < n || from == row; from += w.most {
			p := &Prediction{Offset: next, After: state.Next, Row: from, Until: min(from+w.most, n), Rows: n, Seen: w.seen,
				Generation: state.Generation}
			if lost >= 0 {
				p.Generation, p.Lost, lost = p.Generation+1, true, -1
			}
			state.Count(p)
			list = append(list, p)
		}
	}
	return list
}

// lostFrom returns an offset from which a writer finds that messages with predictions are lost; −1 if there is none, or
// the number of losses is exhausted.
func lostFrom(random *rand.Rand, w *scoring, losses *int) int64 {
	if *losses == 0 || w.state.Next == 0 || random.IntN(5) > 0 {
		return -1
	}
	*losses--
	return random.Int64N(w.state.Next)
}

// Whatever several processes write, with parts of different sizes, and wherever they stop, each row has exactly one valid
// prediction, in message order. A later process finds the position from the last messages alone.
func TestEachRowHasOnePrediction(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 1))
		rows := make([]int, 1+random.IntN(12))
		for i := range rows {
			rows[i] = random.IntN(9) - 1
		}
		var topic []*Prediction
		writers := make([]*scoring, 1+random.IntN(4))
		for i := range writers {
			writers[i] = &scoring{most: 1 + random.IntN(5)}
		}
		var state Scored
		losses := random.IntN(4)
		done := func() bool {
			for i := int(state.Next); i < len(rows); i++ {
				if rows[i] >= 0 {
					return false
				}
			}
			return true
		}
		for counted := 0; !done(); {
			w := writers[random.IntN(len(writers))]
			switch random.IntN(4) {
			case 0: // another process replaces it, and reads what it must
				from := int64(0)
				if len(topic) > 0 {
					from = topic[len(topic)-1].Seen
				}
				*w = scoring{state: ScoredBy(topic[from:]), seen: int64(len(topic)), most: 1 + random.IntN(5)}
				if w.state != state {
					t.Fatalf("seed %d: of %d messages the last ones say %+v, all of them %+v", seed, len(topic), w.state, state)
				}
			case 1:
				w.read(topic)
			default: // it writes, possibly only a part: after and between messages of others that it has not seen
				list := w.predictions(rows, 1+random.IntN(3), lostFrom(random, w, &losses))
				another := writers[random.IntN(len(writers))]
				other := another.predictions(rows, 1+random.IntN(3), lostFrom(random, another, &losses))
				list, other = list[:len(list)-random.IntN(len(list)+1)], other[:len(other)-random.IntN(len(other)+1)]
				for len(list)+len(other) > 0 {
					from := &list
					if len(list) == 0 || len(other) > 0 && random.IntN(2) == 0 {
						from = &other
					}
					topic, *from = append(topic, (*from)[0]), (*from)[1:]
				}
				if random.IntN(5) > 0 {
					w.read(topic)
				}
			}
			for ; counted < len(topic); counted++ {
				before, p := state, topic[counted]
				if !state.Count(p) {
					continue
				}
				if p.Lost {
					before = Scored{Next: p.After}
				}
				if before.Row > 0 && (p.Offset != before.Next || p.Row != before.Row) || before.Row == 0 && p.Row > 0 {
					t.Fatalf("seed %d: after %+v counts %+v", seed, before, p)
				}
				for i := before.Next; i < p.Offset; i++ {
					if rows[i] >= 0 {
						t.Fatalf("seed %d: message %d is passed over", seed, i)
					}
				}
			}
		}
	}
}

// A prediction with the reason why the rest of a message has none completes that message.
func TestReasonEndsAMessage(t *testing.T) {
	s := Scored{Next: 4, Row: 2}
	if s.Count(&Prediction{Offset: 5, After: 5}) || !s.Count(&Prediction{Offset: 4, After: 4, Row: 2, Until: 2, Rows: 9,
		Reason: "deleted"}) || s != (Scored{Next: 5}) {
		t.Errorf("%+v", s)
	}
}
