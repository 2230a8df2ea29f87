package examples

import (
	"errors"
	"testing"

	"github.com/stagewise/stagewise/schemas/wire"
)

// joined is what a message says of rows that wait, and text is that in its header.
func joined() (j *Joined, text string) {
	return &Joined{Rule: "4e1f", Rows: []JoinInput{{Partition: 2, Time: 900, From: 4, Since: 100}},
			Outcomes: []JoinInput{{Partition: 1, Next: 7, Last: "0123456789ab", Time: 800, From: 5, Since: -9223372036854775808}},
			Joins: []JoinCursor{{Partition: -1, Due: JoinPlace{700, 2, 3}, Applied: JoinPlace{600, 1, 6}, Labelled: 8,
				Counts: JoinCounts{Rows: 9, Absent: 4, Outcomes: 7, Matched: 5, Late: 1, Disorder: 60}}}},
		`{"rule":"4e1f","rows":[{"partition":2,"next":0,"time":900,"from":4,"since":100}],` +
			`"outcomes":[{"partition":1,"next":7,"last":"0123456789ab","time":800,"from":5,"since":-9223372036854775808}],` +
			`"joins":[{"partition":-1,"due":{"time":700,"partition":2,"offset":3},"applied":{"time":600,"partition":1,"offset":6},"labelled":8,` +
			`"counts":{"rows":9,"absent":4,"outcomes":7,"matched":5,"late":1,"disorder":60}}]}`
}

// How far rows were joined is read as it was written, and damage is an error.
func TestJoined(t *testing.T) {
	j, text := joined()
	h := j.Header()
	if h != (wire.Header{Key: "stagewise-joined", Value: text}) {
		t.Errorf("the header is %+v", h)
	}
	if read, err := JoinedOf(wire.Message{Headers: []wire.Header{h}}); err != nil || !read.Equal(j) {
		t.Errorf("%+v is read, %v", read, err)
	}
	other, _ := joined()
	other.Joins[0].Labelled++
	if none, err := JoinedOf(wire.Message{}); err != nil || !none.Equal(nil) || none.Equal(j) || j.Equal(none) || j.Equal(other) {
		t.Errorf("%+v is read of a message without the header, %v", none, err)
	}
	for _, text := range []string{"[", "[]", `{"rows":[{"partition":-1}]}`, `{"outcomes":[{"from":-1}]}`, `{"outcomes":[{"next":-1}]}`} {
		if _, err := JoinedOf(wire.Message{Headers: []wire.Header{{Key: "stagewise-joined", Value: text}}}); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Counts of joins together do not depend on their order, also if one of them is behind.
func TestTogether(t *testing.T) {
	ahead, near, behind := JoinCounts{Rows: 9, Outcomes: 100, Matched: 9}, JoinCounts{Rows: 8, Outcomes: 60, Matched: 6, Late: 3}, JoinCounts{Outcomes: 10, Matched: 1}
	for _, c := range []struct {
		joins []JoinCounts
		want  JoinCounts
	}{
		{nil, JoinCounts{}},
		{[]JoinCounts{ahead, near}, JoinCounts{Rows: 17, Outcomes: 100, Matched: 19, Late: 5}},
		{[]JoinCounts{ahead, near, behind}, JoinCounts{Rows: 17, Outcomes: 19, Matched: 16, Late: 3}},
		{[]JoinCounts{behind, near, ahead}, JoinCounts{Rows: 17, Outcomes: 19, Matched: 16, Late: 3}},
	} {
		if got := Together(c.joins); got != c.want {
			t.Errorf("%+v: %+v, expected %+v", c.joins, got, c.want)
		}
	}
}
