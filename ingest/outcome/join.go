package outcome

import (
	"cmp"
	"container/heap"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/stagewise/stagewise/schemas/examples"
)

// Never precedes all times.
const Never = math.MinInt64

// Message is a row message: its position, and its join key.
type Message struct {
	Partition int
	Offset    int64
	Time      int64  // in milliseconds since 1970; Never: none
	Bytes     string // of the key, as they were read
	Key       string
	Value     []byte // opaque: returned when the row is decided
}

// Outcome is the content of an outcome message.
type Outcome struct {
	Partition int
	Offset    int64
	Time      int64  // in milliseconds since 1970; Never: none
	Bytes     string // of its only key, as they were read
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
	First          int64 // time of the topic's first rows; Never: unknown
	within, early  int64
	grace          int64
	rows, outcomes map[int]*input
	waiting        *table  // rows by deadline; settled ones have been decided
	kept           *table  // outcomes by time, which later rows may have; settled ones have had a row
	decided        *memory // rows after their deadlines
	counts         examples.JoinCounts
	row, alone     Message // the last row, and the last outcome without a row. Values and labels are left out.
	unsettled      queue[*waitingOutcome]
	due, applied   examples.JoinPlace
	labelled, skip int // number of messages joined with the first unsettled outcome, and of those joined by an earlier process
	cursor         examples.JoinCursor
	Again          bool // messages before the cursor are read again: what they decide was decided by an earlier process
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

// keptShare is the divisor of the memory for outcomes that later rows may have: most wait less long than rows, and are smaller.
const keptShare = 4

// marksOfWait is the number of marks of a partition during the waiting time of a row.
const marksOfWait = 64

// New returns an empty join that continues at a cursor. It is one of several, which share the memory of the options; number
// selects its folder. [Join.Read] adds its partitions.
func New(o Options, number, of int, cursor examples.JoinCursor) *Join {
	memory := int64(o.Memory) / int64(max(of, 1))
	j := &Join{First: Never, within: o.Within.Milliseconds(), early: o.Early.Milliseconds(), grace: o.Grace.Milliseconds(),
		rows: map[int]*input{}, outcomes: map[int]*input{}, decided: newMemory(memory),
		due: cursor.Due, applied: cursor.Applied, cursor: cursor, Again: true}
	limit, folder := int64(0), ""
	if o.Folder != "" {
		limit, folder = memory, filepath.Join(o.Folder, strconv.Itoa(number))
	}
	j.waiting, j.kept = newTable(limit-limit/keptShare, folder), newTable(limit/keptShare, folder)
	return j
}

// Read adds a partition of the rows, or of the outcomes, whose messages come from a position on. Until [Join.Resume], messages before
// the cursor are read again.
func (j *Join) Read(ofRows bool, from examples.JoinInput) {
	j.inputs(ofRows)[from.Partition] = &input{time: from.Since, until: from.Time, passed: Never,
		grain: max(1, (j.within+j.early+j.grace)/marksOfWait), marks: []mark{{from.From, from.Since}}}
}

// Begin returns the cursor of a partition's join without decisions.
func Begin(partition int) examples.JoinCursor {
	none := examples.JoinPlace{Time: Never}
	return examples.JoinCursor{Partition: partition, Due: none, Applied: none}
}

// see records a message. It returns the latest time of the partition, and how far the message's own time is behind it.
func (in *input) see(offset, time int64) (latest, behind int64) {
	if time > in.time {
		if last := in.marks[len(in.marks)-1]; last.time == Never || in.time-last.time >= in.grain {
			in.marks = append(in.marks, mark{offset, in.time})
		}
		in.time = time
	}
	if time == Never {
		return in.time, 0
	}
	return in.time, in.time - time
}

// before returns the last mark before which all messages have times before the given one.
func (in *input) before(time int64) mark {
	at, _ := slices.BinarySearchFunc(in.marks[1:], time, func(m mark, time int64) int { return cmp.Compare(m.time, time) })
	in.marks = in.marks[at:]
	return in.marks[0]
}

// past returns a lower bound of the times of further messages.
func (in *input) past() int64 { return max(in.time, in.passed) }

// Resume ends the second reading of messages before the cursor. The last examples may have only some of the rows of an outcome.
func (j *Join) Resume(decide func(Decided) error) error {
	j.Again, j.counts, j.labelled, j.skip = false, j.cursor.Counts, j.cursor.Labelled, j.cursor.Labelled
	for _, inputs := range []map[int]*input{j.rows, j.outcomes} {
		for _, in := range inputs {
			in.time = max(in.time, in.until) // of deleted messages
		}
	}
	if err := j.end(j.due, nil); err != nil {
		return err
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

// Time returns the latest time of the messages read from a partition of the rows, or of the outcomes; Never: there is none.
func (j *Join) Time(ofRows bool, partition int) int64 { return j.inputs(ofRows)[partition].time }

// inputs returns the partitions of the rows, or of the outcomes.
func (j *Join) inputs(ofRows bool) map[int]*input {
	if ofRows {
		return j.rows
	}
	return j.outcomes
}

// FirstDeadline returns a lower bound of the deadlines of undecided rows; false if no row waits.
func (j *Join) FirstDeadline() (time int64, ok bool) {
	row := j.waiting.first(examples.JoinPlace{Time: math.MaxInt64})
	if row == nil || j.Waiting() == 0 {
		return 0, false
	}
	return row.place.Time, true
}

// joins reports whether a row has an outcome with its key. All times are those of the messages. An outcome that is farther
// behind than the grace period comes in time if the row still waits; one for a row that is farther behind, if it is still kept.
func (j *Join) joins(row, o *entry) bool {
	t, latest := j.timeOf(row), o.place.Time
	return j.near(t, latest-o.behind) && latest <= row.place.Time && latest >= minus(t+row.behind, j.early+j.grace)
}

// timeOf returns the time of a row's message.
func (j *Join) timeOf(row *entry) int64 { return minus(row.place.Time, j.within+j.grace) }

// near reports whether the difference between the times of a row and an outcome is as configured.
func (j *Join) near(row, outcome int64) bool {
	return outcome >= minus(row, j.early) && outcome <= plus(row, j.within)
}

// Row adds a row. It calls decide if the row need not wait.
func (j *Join) Row(m Message, decide func(Decided) error) error {
	latest, behind := j.rows[m.Partition].see(m.Offset, m.Time)
	deadline := examples.JoinPlace{Time: plus(latest-behind, j.within+j.grace), Partition: m.Partition, Offset: m.Offset}
	row := &entry{place: deadline, behind: behind, key: m.Key, value: m.Value}
	j.row, j.row.Value = m, nil
	label, found, err := j.match(row)
	if err != nil {
		return err
	}
	past := compare(row.place, j.due) < 0
	if row.settled = found || past && !j.Again; row.settled {
		if err := j.decide(row, label, !found, decide); err != nil {
			return err
		}
	}
	if row.settled || past {
		row.value = nil
	}
	if past && !j.Again {
		j.decided.add(row, j.timeOf(row), !found)
	} else if err := j.waiting.add(row); err != nil {
		return err
	}
	return j.expire()
}

// decide decides a row, unless it is read again.
func (j *Join) decide(row *entry, label string, absent bool, decide func(Decided) error) error {
	if j.Again {
		return nil
	}
	if err := decide(Decided{row.place.Partition, row.place.Offset, row.value, label, absent}); err != nil {
		return err
	}
	if j.counts.Rows++; absent {
		j.counts.Absent++
	}
	return nil
}

// Outcome adds an outcome, and decides the rows that no longer wait. One without labels only advances the time.
func (j *Join) Outcome(o Outcome, decide func(Decided) error) error {
	latest, behind := j.outcomes[o.Partition].see(o.Offset, o.Time)
	place := examples.JoinPlace{Time: latest, Partition: o.Partition, Offset: o.Offset}
	heap.Push(&j.unsettled, &waitingOutcome{place, behind, o.Bytes, o.Labels})
	return j.Advance(decide)
}

// Pass marks partitions of the outcomes, or of the rows, as past a time, because they are silent: see the package.
func (j *Join) Pass(ofRows bool, partition int, time int64) {
	if in := j.inputs(ofRows)[partition]; in != nil {
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
	if j.Again {
		return j.expire()
	}
	frontier := examples.JoinPlace{Time: frontier(j.outcomes)}
	if err := j.end(frontier, decide); err != nil {
		return err
	}
	j.due = later(j.due, frontier)
	return j.expire()
}

// end removes the rows with deadlines before a place, of which those that are not settled have no outcome. decide is nil if an earlier
// process has decided them.
func (j *Join) end(before examples.JoinPlace, decide func(Decided) error) error {
	for row := j.waiting.first(before); row != nil; row = j.waiting.first(before) {
		if !row.settled && decide != nil {
			if err := j.decide(row, "", true, decide); err != nil {
				return err
			}
		}
		if err := j.waiting.remove(row); err != nil {
			return err
		}
		j.decided.add(row, j.timeOf(row), !row.settled)
		j.due = later(j.due, next(row.place))
	}
	return nil
}

// settled reports whether no outcome before this position can arrive, or, before Resume, whether an earlier process found this.
func (j *Join) settled(p examples.JoinPlace) bool {
	if j.Again {
		return compare(p, j.applied) < 0
	}
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
	entries := o.entries()
	had, late := make([]bool, len(entries)), make([]bool, len(entries)) // a row has it; it comes too late for a row that waits
	for i, e := range entries {
		rows, err := j.waiting.get(e.key)
		if err != nil {
			return err
		}
		for _, row := range rows {
			joins := j.joins(row, e)
			had[i] = had[i] || joins
			switch {
			case !joins:
				late[i] = late[i] || !row.settled && e.place.Time > row.place.Time && j.near(j.timeOf(row), e.place.Time-e.behind)
				continue
			case row.settled:
				continue
			case j.skip > 0:
				j.skip--
			default:
				if err := j.decide(row, string(e.value), false, decide); err != nil {
					return err
				}
				j.labelled++
			}
			j.waiting.settle(row, nil)
		}
	}
	heap.Pop(&j.unsettled)
	j.labelled, j.skip, j.applied = 0, 0, later(j.applied, next(o.place))
	for i, e := range entries {
		if e.settled = j.count(e, had[i], late[i]); !e.settled {
			j.alone = Message{Partition: o.place.Partition, Offset: o.place.Offset, Time: o.place.Time - o.behind, Bytes: o.bytes, Key: e.key}
		}
		if e.place.Time >= j.floor() { // later rows may have it
			if err := j.kept.add(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// count counts an outcome, and reports whether it belongs to a row, which may have been decided before. had means that a row has it as its
// outcome, and late that it arrived too late for one.
func (j *Join) count(o *entry, had, late bool) bool {
	if !had && !late {
		had, late = j.decided.has(o.key, func(row int64) bool { return j.near(row, o.place.Time-o.behind) })
	}
	switch {
	case late:
		j.counts.Late++
		j.counts.Disorder = max(j.counts.Disorder, o.behind)
	case had:
		j.counts.Matched++
	case j.precedes(o):
		j.counts.Early++
		return false
	}
	j.counts.Outcomes++
	return had || late
}

// precedes reports whether an outcome is too early for the topic's first rows, so that its row is no longer there.
func (j *Join) precedes(o *entry) bool { return o.place.Time-o.behind < minus(j.First, j.early) }

// match returns the outcome of a row among the kept ones.
func (j *Join) match(row *entry) (label string, found bool, err error) {
	outcomes, err := j.kept.get(row.key)
	for _, o := range outcomes {
		if !j.joins(row, o) {
			continue
		}
		if !found {
			label, found = string(o.value), true
		}
		if o.settled {
			continue
		}
		j.kept.settle(o, o.value)
		if j.counts.Matched++; j.precedes(o) {
			j.counts.Outcomes, j.counts.Early = j.counts.Outcomes+1, j.counts.Early-1
		}
	}
	return label, found, err
}

// floor is the time before which no outcome can belong to a later row.
func (j *Join) floor() int64 { return minus(frontier(j.rows), j.early+j.grace) }

// expire drops outcomes that no later row can have.
func (j *Join) expire() error {
	floor := examples.JoinPlace{Time: j.floor()}
	for o := j.kept.first(floor); o != nil; o = j.kept.first(floor) {
		if err := j.kept.remove(o); err != nil {
			return err
		}
	}
	return nil
}

// Cursor returns which rows and outcomes are processed.
func (j *Join) Cursor() examples.JoinCursor {
	return examples.JoinCursor{Partition: j.cursor.Partition, Due: j.due, Applied: j.applied, Labelled: j.labelled, Counts: j.counts}
}

// From returns the position in a partition of the rows, or of the outcomes, from which to resume the join at the cursor.
func (j *Join) From(ofRows bool, partition int) examples.JoinInput {
	earliest := minus(min(j.due.Time, j.floor()), j.within+j.grace) // of a row that may be waiting, or has had a kept outcome
	if !ofRows {
		earliest = minus(j.due.Time, j.within+j.grace)
		for _, rows := range j.rows {
			earliest = min(earliest, minus(rows.time, j.grace)) // of a later row
		}
		earliest = min(minus(earliest, j.early), j.applied.Time)
	}
	in := j.inputs(ofRows)[partition]
	m := in.before(earliest)
	return examples.JoinInput{Partition: partition, Time: in.time, From: m.offset, Since: m.time}
}

// Waiting returns the number of waiting rows.
func (j *Join) Waiting() int { return j.waiting.open }

// Keys returns the last row, and the last outcome without a row when it was joined. ok is false if there are none.
func (j *Join) Keys() (row, outcome Message, ok bool) {
	return j.row, j.alone, j.row.Key != "" && j.alone.Key != ""
}

// Counts returns the numbers of rows and outcomes so far.
func (j *Join) Counts() examples.JoinCounts { return j.counts }

// Close removes the join's data on disk.
func (j *Join) Close() error { return errors.Join(j.waiting.disk.close(), j.kept.disk.close()) }

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

func later(all ...examples.JoinPlace) examples.JoinPlace { return slices.MaxFunc(all, compare) }

// next returns the position after that of a message.
func next(p examples.JoinPlace) examples.JoinPlace {
	p.Offset++
	return p
}

// waitingOutcome is an unsettled outcome.
type waitingOutcome struct {
	place  examples.JoinPlace
	behind int64
	bytes  string
	labels []Labelled
}

func (o *waitingOutcome) at() examples.JoinPlace { return o.place }

// entries returns the outcome's entry for each key, with the first label of the key.
func (o *waitingOutcome) entries() []*entry {
	entries := make([]*entry, 0, len(o.labels))
	for _, l := range o.labels {
		if !slices.ContainsFunc(entries, func(e *entry) bool { return e.key == l.Key }) {
			entries = append(entries, &entry{place: o.place, behind: o.behind, key: l.Key, value: []byte(l.Label)})
		}
	}
	return entries
}

// maxTime is a timestamp beyond all valid ones: larger values are due to a clock in other units.
const maxTime = 32503680000000 // the year 3000

// TimeOf returns the timestamp of a message in milliseconds since 1970; [Never] if it has none.
func TimeOf(t time.Time) int64 {
	if t := t.UnixMilli(); t > 0 && t < maxTime {
		return t
	}
	return Never
}
