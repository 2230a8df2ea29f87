package page

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/stagewise/stagewise/schemas"
)

// simulated returns the state of a chain of so many versions that so many workers with ten partitions each work on.
// number is that of the state: each adds a version, and goes on with the run.
func simulated(versions, workers, number int) *State {
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Now()
	ago := func(seconds int) int64 { return now.Add(-time.Duration(seconds) * time.Second).UnixMilli() }
	value := func(v float64) *float64 { return &v }
	s := &State{Topics: []Topic{}, Quarantine: Quarantine{Held: 3, Read: 3,
		Reasons: []Reason{{"decode label: \"seven\" is no class: expected one of 10", 2, ago(400)},
			{"decode features: 49 columns, expected 50", 1, ago(2000)}}}}
	for i, topic := range []struct {
		role, behind string
		held         int64
		rate         float64
		lag          int64
	}{
		{"source", "messages that are not ingested", 98_310_412, 3904, 218}, {"examples", "messages that no version has learnt", 1_204_331, 412, 1904}, {"residuals", "", 880, 0, -1}, {"statistics", "partitions that the visit still lacks", 48_112, 96, 12},
		{"weights", "", 3_310, 2.4, -1}, {"versions", "versions newer than the one that subscribers get", 7_031, 0.6, 0}, {"state", "", 9_204, 8.1, -1}, {"plans", "", 512, 0.8, -1},
		{"forget", "", 0, 0, -1}, {"quarantine", "", 3, 0, -1}, {"predictions", "", 1_180_007, 409, -1},
	} {
		t := Topic{Role: topic.role, Name: "clicks." + topic.role, Partitions: 1, Held: topic.held + int64(number), Rate: topic.rate,
			Behind: topic.behind}
		if i == 0 {
			t.Name = "click-events"
		}
		if i < 4 {
			t.Partitions = max(10*workers, 4)
		}
		if lag := topic.lag; lag >= 0 {
			t.Lag = &lag
		}
		for range maxRates {
			t.Rates = append(t.Rates, topic.rate*(0.7+0.6*random.Float64()))
		}
		s.Topics = append(s.Topics, t)
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
	run := &Run{ID: "3d202c815183", Kind: schemas.RunFull, State: stateRunning,
		Waits: fmt.Sprintf("for workers to visit 12 of %d partitions", 10*workers), News: ago(1), Stage: 3, Visit: number,
		Of: 10 * workers, Have: 10*workers - 12, Missing: []int{3, 7, 12}, Queue: []string{}}
	loss := 2.3
	for t := range 6 {
		step := Step{Stage: t, Link: "softmax", Block: "1024 rff", Most: 12, Planned: t > 3}
		var passes []schemas.PassReport
		for pass := range 8 {
			loss *= 0.9
			e := 30 * loss / 2.3 * loss
			if t == 3 && pass < 5+number%4 {
				step.Passes = append(step.Passes, schemas.PassReport{Pass: pass + 1, TrainError: e * 0.8, TrainLoss: loss, TestError: value(e),
					TestLoss: value(loss * 1.1)})
			}
			passes = append(passes, schemas.PassReport{Pass: pass + 1, TrainError: e * 0.8, TrainLoss: loss, TestError: value(e),
				TestLoss: value(loss * 1.1)})
		}
		if t < 3 {
			last := passes[len(passes)-1]
			step.Done = &schemas.StageReport{Stage: t, Link: "softmax", Passes: 8, Seconds: 4.2, ByPass: passes,
				Measured: schemas.Measured{TrainError: last.TrainError, TrainLoss: last.TrainLoss, TestError: last.TestError, TestLoss: last.TestLoss}}
		}
		run.Stages = append(run.Stages, step)
	}
	s.Run = run
	q := &Quality{Version: versions + number, Split: "train", Before: true, SplitReport: schemas.SplitReport{Rows: 4096, Error: 2.41,
		LogLoss: new(0.081), Brier: new(0.036), ECE: new(0.004)}}
	for i := range 10 {
		q.Labels = append(q.Labels, fmt.Sprint(i))
		row := make([]int64, 10)
		for j := range row {
			if row[j] = int64(random.IntN(6)); i == j {
				row[j] = 390 + int64(random.IntN(30))
			}
		}
		q.Confusion = append(q.Confusion, row)
	}
	for b := range 15 {
		c := (float64(b) + 0.5) / 15
		q.Reliability = append(q.Reliability, schemas.ReliabilityBin{Weight: 1 + 300*c*c*c, Confidence: c, Accuracy: min(1, c+
			0.08*(random.Float64()-0.5))})
	}
	for m := range 64 {
		q.Curve = append(q.Curve, CurvePoint{Rows: 64 * int64(m+1), Error: 2.4 * (0.6 + 0.8*random.Float64())})
	}
	s.Quality, s.Staff = q, Staff{Hidden: []string{}, Members: map[string][]Worker{}}
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
	s.Staff.Members["solve"] = []Worker{{ID: "5e1f03aa", Host: "10.0.9.1", Partitions: []int{0},
		Waits: "waits for 10.0.0.10, 10.0.0.11, and 10.0.0.12"}, {ID: "71c2d9b0", Host: "10.0.9.2", Partitions: []int{}, Waits: "stands by"}}
	s.Staff.Members["run"] = []Worker{{ID: "aa03c7f1", Host: "10.0.9.3", Partitions: []int{0}, Waits: "waits for the run"}}
	s.Staff.Members["ingest"] = []Worker{{ID: "aa03c7f1", Host: "10.0.9.3", Partitions: []int{0}, Waits: "ingests click-events"}}
	s.Staff.Members["score"] = []Worker{{ID: "90b1c4d2", Host: "10.0.9.4", Partitions: []int{0, 1, 2, 3}, Waits: "predicts"}}
	s.Staff.Members["serve"] = []Worker{{ID: "11fe02ab", Host: "10.0.9.5", Partitions: []int{0}, Waits: "answers"},
		{ID: "2c7710de", Host: "10.0.9.6", Partitions: []int{}, Waits: "answers"}}
	for i := range 3 {
		s.Quarantine.Recent = append(s.Quarantine.Recent, BadMessage{ago(400 + 800*i), "clicks.examples", 41, int64(5120 - i), 11_204,
			s.Quarantine.Reasons[i/2].Reason})
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
