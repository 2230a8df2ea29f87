package outcome

import (
	"cmp"
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/stagewise/stagewise/schemas/examples"
)

// Never precedes all times.
const Never = math.MinInt64

// Rule configures the join.
type Rule struct {
	Within time.Duration // maximum delay of an outcome after its row
	Early  time.Duration // how far an outcome may precede its row
}

// Message is a row message: its position, and its join key.
type Message struct {
	Partition int
	Offset    int64
	Time      int64 // in milliseconds since 1970; Never: none
	Key       string
	Value     []byte // opaque: returned when the row is decided
}

// Outcome is the content of an outcome message.
type Outcome struct {
	Partition int
	Offset    int64
	Time      int64 // in milliseconds since 1970; Never: none
	Labels    []Labelled
}

// Labelled is a label with the key of its rows.
type Labelled struct{ Key, Label string }

// Decided is a row that no longer waits.
type Decided struct {
	Partition int
	Offset    int64
	Value     []byte
	Label     string
	Absent    bool // no outcome has arrived: Label is empty
}

// A Join joins rows of some partitions with outcomes of some. It is not safe for concurrent use. After an error of its
// methods, from decide or from the disk, it must not be used.
type Join struct {
	within, early  int64
	rows, outcomes map[int]*input
	waiting        *table // rows by deadline
	kept           *table // outcomes by time, which later rows may have
	unsettled      pending
	due, applied   examples.JoinPlace
	labelled, skip int // number of messages joined with the first unsettled outcome, and of those joined by an earlier process
}

// input is a partition that is read.
type input struct {
	time   int64 // latest time of its messages
	until  int64 // latest time of messages before the cursor
	passed int64 // time that it is considered to be past
	grain  int64
	marks  []mark // in offset order
}

// mark is an offset and the latest time of the messages before it.
type mark struct{ offset, time int64 }

// marksOfWait is the number of marks of a partition during the waiting time of a row.
const marksOfWait = 64

// New returns an empty join. It reads rows and outcomes from the given positions. disk stores data in excess of memory
// bytes; nil: none, and memory is unlimited.
func New(rule Rule, rows, outcomes []examples.JoinInput, cursor examples.JoinCursor, memory int64, disk *Disk) *Join {
	j := &Join{within: rule.Within.Milliseconds(), early: rule.Early.Milliseconds(), rows: map[int]*input{}, outcomes: map[int]*input{},
		due: cursor.Due, applied: cursor.Applied, labelled: cursor.Labelled, skip: cursor.Labelled}
	for _, of := range []struct {
		inputs map[int]*input
		begin  []examples.JoinInput
	}{{j.rows, rows}, {j.outcomes, outcomes}} {
		for _, b := range of.begin {
			of.inputs[b.Partition] = &input{time: b.Since, until: b.Time, passed: Never, grain: max(1, (j.within+j.early)/marksOfWait),
				marks: []mark{{b.From, b.Since}}}
		}
	}
	budget := &budget{limit: memory, disk: disk}
	j.waiting, j.kept = newTable('r', budget), newTable('o', budget)
	budget.tables = []*table{j.waiting, j.kept}
	return j
}

// Begin returns the cursor of a partition's join without decisions.
func Begin(partition int) examples.JoinCursor {
	none := examples.JoinPlace{Time: Never}
	return examples.JoinCursor{Partition: partition, Due: none, Applied: none}
}

// see records a message, and returns its time.
func (in *input) see(offset, time int64) int64 {
	if time > in.time {
		if last := in.marks[len(in.marks)-1]; last.time == Never || in.time-last.time >= in.grain {
			in.marks = append(in.marks, mark{offset, in.time})
		}
		in.time = time
	}
	return in.time
}

// before returns the last mark before which all messages have times before the given one.
func (in *input) before(time int64) mark {
	at, _ := slices.BinarySearchFunc(in.marks[1:], time, func(m mark, time int64) int { return cmp.Compare(m.time, time) })
	in.marks = in.marks[at:]
	return in.marks[0]
}

// past returns a lower bound of the times of further messages.
func (in *input) past() int64 { return max(in.time, in.passed) }

// AddRow adds a row before the cursor of New, when the join is resumed: it waits, or it was decided.
func (j *Join) AddRow(m Message) error {
	t := j.rows[m.Partition].see(m.Offset, m.Time)
	place := j.deadline(t, m)
	if compare(place, j.due) >= 0 {
		_, found, err := j.match(m.Key, t)
		if err == nil && !found {
			err = j.waiting.add(entry{place, m.Key, m.Value})
		}
		if err != nil {
			return err
		}
	}
	return j.expire()
}

// AddOutcome adds an outcome before the cursor of New.
func (j *Join) AddOutcome(o Outcome) error {
	place := j.placeOf(o)
	if compare(place, j.applied) >= 0 {
		heap.Push(&j.unsettled, waitingOutcome{place, o.Labels})
		return nil
	}
	for _, l := range o.Labels {
		rows, err := j.matched(l.Key, place.Time)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := j.waiting.remove(row); err != nil {
				return err
			}
		}
	}
	return j.keep(place, o.Labels)
}

// Resume completes AddRow and AddOutcome: the last examples may have only some of the rows of an outcome.
func (j *Join) Resume(decide func(Decided) error) error {
	for _, inputs := range []map[int]*input{j.rows, j.outcomes} {
		for _, in := range inputs {
			in.time = max(in.time, in.until) // of deleted messages
		}
	}
	if j.labelled > 0 && len(j.unsettled) > 0 {
		if err := j.apply(decide); err != nil {
			return err
		}
	}
	return j.Advance(decide)
}

// See records a rows message without usable rows.
func (j *Join) See(partition int, offset, time int64) { j.rows[partition].see(offset, time) }

// RowTime returns the latest time of the messages read from a rows partition; Never: there is none.
func (j *Join) RowTime(partition int) int64 { return j.rows[partition].time }

// OutcomeTime is RowTime for the outcomes.
func (j *Join) OutcomeTime(partition int) int64 { return j.outcomes[partition].time }

// FirstDeadline returns the earliest deadline of undecided rows; false if no row waits.
func (j *Join) FirstDeadline() (time int64, ok bool, err error) {
	row, ok, err := j.waiting.first(examples.JoinPlace{Time: math.MaxInt64})
	return row.place.Time, ok, err
}

// deadline returns the position of a row at time t among the waiting ones.
func (j *Join) deadline(t int64, m Message) examples.JoinPlace {
	return examples.JoinPlace{Time: plus(t, j.within), Partition: m.Partition, Offset: m.Offset}
}

func (j *Join) placeOf(o Outcome) examples.JoinPlace {
	return examples.JoinPlace{Time: j.outcomes[o.Partition].see(o.Offset, o.Time), Partition: o.Partition, Offset: o.Offset}
}

// Row adds a row. It calls decide if the row need not wait.
func (j *Join) Row(m Message, decide func(Decided) error) error {
	t := j.rows[m.Partition].see(m.Offset, m.Time)
	label, found, err := j.match(m.Key, t)
	if err != nil {
		return err
	}
	place := j.deadline(t, m)
	switch {
	case found:
		err = decide(Decided{m.Partition, m.Offset, m.Value, label, false})
	case compare(place, j.due) < 0:
		err = decide(Decided{m.Partition, m.Offset, m.Value, "", true})
	default:
		err = j.waiting.add(entry{place, m.Key, m.Value})
	}
	if err != nil {
		return err
	}
	return j.expire()
}

// Outcome adds an outcome, and decides the rows that it allows. One without labels only advances the time.
func (j *Join) Outcome(o Outcome, decide func(Decided) error) error {
	heap.Push(&j.unsettled, waitingOutcome{j.placeOf(o), o.Labels})
	return j.Advance(decide)
}

// Pass marks partitions of the outcomes, or of the rows, as past a time, because they are silent: see the package.
func (j *Join) Pass(ofRows bool, partition int, time int64) {
	inputs := j.outcomes
	if ofRows {
		inputs = j.rows
	}
	if in := inputs[partition]; in != nil {
		in.passed = max(in.passed, time)
	}
}

// Advance decides all rows that can be decided.
func (j *Join) Advance(decide func(Decided) error) error {
	for len(j.unsettled) > 0 && j.settled(j.unsettled[0].place) {
		if err := j.apply(decide); err != nil {
			return err
		}
	}
	frontier := examples.JoinPlace{Time: frontier(j.outcomes)}
	for {
		row, ok, err := j.waiting.first(frontier)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := decide(Decided{row.place.Partition, row.place.Offset, row.value, "", true}); err != nil {
			return err
		}
		if err := j.waiting.remove(row); err != nil {
			return err
		}
		j.due = next(row.place)
	}
	if compare(j.due, frontier) < 0 {
		j.due = frontier
	}
	return j.expire()
}

// settled reports whether no outcome before this position can arrive.
func (j *Join) settled(p examples.JoinPlace) bool {
	for partition, in := range j.outcomes {
		if past := in.past(); past < p.Time || past == p.Time && partition < p.Partition {
			return false
		}
	}
	return true
}

// apply joins the first unsettled outcome with the rows that wait for it, and keeps it for later rows.
func (j *Join) apply(decide func(Decided) error) error {
	o := j.unsettled[0]
	for _, l := range o.labels {
		rows, err := j.matched(l.Key, o.place.Time)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if j.skip > 0 {
				j.skip--
			} else {
				if err := decide(Decided{row.place.Partition, row.place.Offset, row.value, l.Label, false}); err != nil {
					return err
				}
				j.labelled++
			}
			if err := j.waiting.remove(row); err != nil {
				return err
			}
		}
	}
	heap.Pop(&j.unsettled)
	if j.labelled, j.skip = 0, 0; compare(j.applied, next(o.place)) < 0 {
		j.applied = next(o.place)
	}
	return j.keep(o.place, o.labels)
}

// matched returns the rows that wait for an outcome with a key and a time, in order.
func (j *Join) matched(key string, time int64) ([]entry, error) {
	rows, err := j.waiting.get(key)
	return slices.DeleteFunc(rows, func(row entry) bool {
		return time > row.place.Time || time < minus(row.place.Time, j.within+j.early)
	}), err
}

// match returns the outcome of a row at time t among the kept ones.
func (j *Join) match(key string, t int64) (label string, found bool, err error) {
	outcomes, err := j.kept.get(key)
	for _, o := range outcomes {
		if o.place.Time >= minus(t, j.early) && o.place.Time <= plus(t, j.within) {
			return string(o.value), true, err
		}
	}
	return "", false, err
}

// keep keeps an outcome for later rows.
func (j *Join) keep(place examples.JoinPlace, labels []Labelled) error {
	if place.Time < j.floor() {
		return nil
	}
	known := map[string]bool{}
	for _, l := range labels {
		if known[l.Key] { // the first counts
			continue
		}
		known[l.Key] = true
		if err := j.kept.add(entry{place, l.Key, []byte(l.Label)}); err != nil {
			return err
		}
	}
	return nil
}

// floor is the time before which no outcome can belong to a later row.
func (j *Join) floor() int64 { return minus(frontier(j.rows), j.early) }

// expire drops outcomes that no later row can have.
func (j *Join) expire() error {
	floor := examples.JoinPlace{Time: j.floor()}
	for {
		o, ok, err := j.kept.first(floor)
		if err != nil || !ok {
			return err
		}
		if err := j.kept.remove(o); err != nil {
			return err
		}
	}
}

// Cursor returns which rows and outcomes are processed.
func (j *Join) Cursor(partition int) examples.JoinCursor {
	return examples.JoinCursor{Partition: partition, Due: j.due, Applied: j.applied, Labelled: j.labelled}
}

// RowsFrom returns the position in a rows partition from which to resume the join at the cursor.
func (j *Join) RowsFrom(partition int) examples.JoinInput {
	in := j.rows[partition]
	m := in.before(minus(j.due.Time, j.within))
	return examples.JoinInput{Partition: partition, Time: in.time, From: m.offset, Since: m.time}
}

// OutcomesFrom is RowsFrom for an outcomes partition.
func (j *Join) OutcomesFrom(partition int) examples.JoinInput {
	in := j.outcomes[partition]
	earliest := minus(j.due.Time, j.within) // of a row that may be waiting, or of a later one
	for _, rows := range j.rows {
		earliest = min(earliest, rows.time)
	}
	m := in.before(min(minus(earliest, j.early), j.applied.Time))
	return examples.JoinInput{Partition: partition, Time: in.time, From: m.offset, Since: m.time}
}

// Waiting returns the number of waiting rows.
func (j *Join) Waiting() int { return j.waiting.count }

// Close removes the join's data on disk.
func (j *Join) Close() error { return j.waiting.budget.disk.close() }

// frontier returns a lower bound of the times of further messages in any of the partitions.
func frontier(inputs map[int]*input) int64 {
	time := int64(math.MaxInt64)
	for _, in := range inputs {
		time = min(time, in.past())
	}
	return time
}

// plus and minus shift a time, unless it is Never or the maximum.
func plus(time, by int64) int64 {
	if time == Never || time > math.MaxInt64-by {
		return time
	}
	return time + by
}

func minus(time, by int64) int64 {
	if time == math.MaxInt64 || time < Never+by {
		return time
	}
	return time - by
}

func compare(a, b examples.JoinPlace) int {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
}

// next returns the position after that of a message.
func next(p examples.JoinPlace) examples.JoinPlace {
	p.Offset++
	return p
}

// waitingOutcome is an unsettled outcome.
type waitingOutcome struct {
	place  examples.JoinPlace
	labels []Labelled
}

// pending is a heap of outcomes.
type pending []waitingOutcome

func (p pending) Len() int           { return len(p) }
func (p pending) Less(a, b int) bool { return compare(p[a].place, p[b].place) < 0 }
func (p pending) Swap(a, b int)      { p[a], p[b] = p[b], p[a] }
func (p *pending) Push(x any)        { *p = append(*p, x.(waitingOutcome)) }
func (p *pending) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}
