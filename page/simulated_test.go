package page

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stagewise/stagewise/schemas"
)

// simulated returns the state of a chain of so many versions that so many workers with ten partitions each work on: testdata/state.json,
// whose times are milliseconds before now, with the versions and the workers. number is that of the state: each adds a version, and goes
// on with the run.
func simulated(t testing.TB, versions, workers, number int) *State {
	t.Helper()
	s := &State{}
	noError(t, json.Unmarshal(must(os.ReadFile("testdata/state.json"))(t), s))
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	ago := func(seconds int) int64 { return now.Add(-time.Duration(seconds) * time.Second).UnixMilli() }
	value := func(v float64) *float64 { return &v }
	for i := range s.Topics {
		if s.Topics[i].Held += int64(number); i < 4 {
			s.Topics[i].Partitions = max(10*workers, 4)
		}
	}
	for i := range s.Quarantine.Reasons {
		s.Quarantine.Reasons[i].Last += now.UnixMilli()
	}
	for i := range s.Quarantine.Recent {
		s.Quarantine.Recent[i].At += now.UnixMilli()
	}
	for n := 1; n <= versions+number; n++ {
		drift := n == 640
		level := 4.5*math.Exp(-float64(n)/60) + 2.4
		if since := n - 640; since >= 0 {
			level += 14 * math.Exp(-float64(since)/20)
		}
		v := Version{
			Version: n, Run: fmt.Sprintf("%012x", random.Uint64()>>16), Written: ago(30 * (versions + number - n)), Kind: schemas.RunUpdate,
			Parent: fmt.Sprint(n - 1), Rows: 4096,
			PrequentialError: value(level * (0.9 + 0.2*random.Float64())), HoldoutError: value(level * (0.85 + 0.2*random.Float64())),
			TrainError: value(level * 0.6),
			Offered:    n%97 != 0 && (n < 640 || n > 646), Drift: drift, Seconds: 1.2, Digest: fmt.Sprintf("%012x", random.Uint64()>>16),
		}
		if n%100 == 1 {
			v.Kind, v.PrequentialError, v.Rows = schemas.RunFull, nil, 0
		}
		s.Versions = append(s.Versions, v)
	}
	s.Versions[len(s.Versions)-1].Latest, s.Versions[len(s.Versions)-1].Offered = true, true
	s.Run.Waits, s.Run.Visit = fmt.Sprintf("for workers to visit 12 of %d partitions", 10*workers), number
	s.Run.Of, s.Run.Have, s.Run.News = 10*workers, 10*workers-12, s.Run.News+now.UnixMilli()
	s.Run.Stages[3].Passes = s.Run.Stages[3].Passes[:5+number%4]
	s.Quality.Version = versions + number
	for w := range workers {
		worker := Worker{ID: fmt.Sprintf("%08x", random.Uint32()), Host: fmt.Sprintf("10.0.%d.%d", w/50, w%50+10),
			Waits: "waits for other workers"}
		for p := range 10 {
			worker.Partitions = append(worker.Partitions, 10*w+p)
		}
		if worker.Have = 10; w < 2 {
			worker.Have, worker.Waits = number%10, fmt.Sprintf("works on visit %d of stage 4 of 6: %d of 10 partitions are published",
				number+1, number%10)
		}
		s.Staff.Members["work"] = append(s.Staff.Members["work"], worker)
	}
	s.Summary = summaryOf(s)
	return s
}

// summaryOf is the summary of a simulated state, which no reader has read.
func summaryOf(s *State) Summary {
	r := &reader{options: Options{Name: "clicks", Brokers: "Kafka at 10.0.0.1:9092"}, now: time.Now}
	for _, v := range s.Versions {
		r.places = append(r.places, schemas.Place{Run: v.Run, Version: v.Version})
		if v.Latest {
			r.offered = v.Run
		}
	}
	m := Summary{Pipeline: r.options.Name, Brokers: r.options.Brokers, Facts: []Fact{r.behind(s), errorOf(s), r.offeredOf(s), underWay(s)}}
	needsOfVersions(s, func(level Level, about, format string, values ...any) {
		m.Needs = append(m.Needs, Need{level, fmt.Sprintf(format, values...), about})
	})
	m.Needs = append(m.Needs, Need{Notice, "2 messages could not be used in the last hour. Most common reason: " +
		s.Quarantine.Reasons[0].Reason + ".", aboutQuarantine})
	m.Level, m.Verdict = verdict(m.Needs, s)
	return m
}
