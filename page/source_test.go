package page

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// clicks is a job whose examples are the messages of the topic events.
func clicks() topics.Job {
	job := digits()
	job.Name, job.Examples.Train, job.Examples.Test, job.Examples.FromTopic, job.Examples.Format = "clicks", nil, nil, "events", "csv"
	job.Stages, job.Examples.Partitions = job.Stages[:1], 2
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.After = 40, time.Second
	return job
}

// produce writes rows to the topic events, and as many messages that can't be read, which come last.
func produce(t *testing.T, log *kafkalog.Log, rows, bad int) {
	t.Helper()
	for i := range rows + bad {
		value := fmt.Appendf(nil, "%c,%d,%d", 'a'+rune(i%2), i%2, i%7)
		if i >= rows {
			value = []byte("no row")
		}
		must(log.Append(t.Context(), "events", i%3, kafkalog.Message{Value: value}))(t)
	}
}

// lagOf returns what waits on the topic of a role; −1: that is not known.
func lagOf(s *State, role string) int64 {
	i := slices.IndexFunc(s.Topics, func(topic Topic) bool { return topic.Role == role })
	if i < 0 || s.Topics[i].Lag == nil {
		return -1
	}
	return *s.Topics[i].Lag
}

// The page begins at the topic whose messages become examples: what waits there counts as behind, also what nobody
// ingests. It shows who ingests, predicts and answers, and that they are gone.
func TestSourceTopicIsShown(t *testing.T) {
	cluster := must(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	log := openOn(t, kafkalog.Options{Brokers: cluster.ListenAddrs()})
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 3}))
	produce(t, log, 60, 4)
	noError(t, source.Follow(t.Context(), log, clicks(), true, event.Ignore{}))
	board := readingOptions(t, cluster.ListenAddrs(), Options{Name: "clicks", Source: "events"})
	s := await(t, board, "a topic that is ingested", func(s *State) bool { return lagOf(s, roleSource) == 0 && lagOf(s, roleExamples) > 0 })
	if s.Topics[0].Name != "events" || s.Topics[0].Partitions != 3 {
		t.Errorf("the flow begins with %+v", s.Topics[0])
	}
	produce(t, log, 12, 0)
	s = await(t, board, "messages that nobody ingests", func(s *State) bool {
		return need(s,
			"12 messages wait on events, and no process ingests them")
	})
	if f := s.Summary.Facts[0]; s.Summary.Level != Trouble || f.Answer != "12 messages" || !strings.HasPrefix(f.Detail, fmt.Sprintf(
		"wait on events to be ingested; %d messages (batches of rows) wait on clicks.examples to be learnt; ", lagOf(s, roleExamples))) {
		t.Errorf("summary %+v", s.Summary)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	running := openOn(t, kafkalog.Options{Brokers: cluster.ListenAddrs()})
	go func() {
		_, err := pipeline.Retrain(ctx, running, openBLAS(t), clicks(), false, event.Ignore{})
		ended <- err
	}()
	server := openOn(t, kafkalog.Options{Brokers: cluster.ListenAddrs()})
	topics := protocol.TopicsOf("clicks")
	member := server.Join(topics.Servers(), topics.Plans)
	s = await(t, board, "a runner that has learnt all", func(s *State) bool {
		return lagOf(s, roleSource) == 0 && lagOf(s, roleExamples) == 0 && len(s.Staff.Runners) == 1 && len(s.Staff.Ingesters) == 1 &&
			len(s.Staff.Servers) == 1 && s.Run.State == schemas.Done
	})
	if s.Staff.Ingesters[0].Waits != "ingests events" || s.Staff.Servers[0].Waits != "answers" {
		t.Errorf("processes %+v", s.Staff)
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	noError(t, member.Leave())
	await(t, board, "that they are gone", func(s *State) bool {
		return need(s, "No process runs stagewise run: the last one") && need(s, "No process runs stagewise serve: the last one")
	})
	produce(t, log, 9, 0)
	s = await(t, board, "that nobody learns", func(s *State) bool { return need(s, "No process runs stagewise run, and 9 messages wait on events.") })
	if s.Summary.Level != Trouble || s.Summary.Verdict == "All is well." || need(s, "no process ingests them") {
		t.Errorf("summary %+v", s.Summary)
	}
}

// A runner that is gone is told too where another process has the brokers embedded: it was a member of a group.
func TestRunnerBesideEmbeddedBrokersIsGone(t *testing.T) {
	log := openLog(t)
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 3}))
	board := readingOptions(t, log.Addr(), Options{Name: "clicks", Source: "events"})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	running := openOn(t, kafkalog.Options{Brokers: log.Addr()})
	go func() {
		_, err := pipeline.Retrain(ctx, running, openBLAS(t), clicks(), false, event.Ignore{})
		ended <- err
	}()
	s := await(t, board, "a runner that waits", func(s *State) bool { return len(s.Staff.Runners) == 1 && len(s.Topics) > 0 })
	if s.Summary.Verdict != "Waiting for the first examples." || s.Summary.Facts[3].Answer != "Waiting for examples" {
		t.Errorf("summary %+v", s.Summary)
	}
	produce(t, log, 60, 0)
	await(t, board, "a runner that has learnt all", func(s *State) bool {
		return lagOf(s, roleExamples) == 0 && len(s.Versions) > 0 && s.Run.State == schemas.Done && s.Summary.Verdict == "All is well."
	})
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	produce(t, log, 9, 0)
	s = await(t, board, "that nobody learns", func(s *State) bool { return need(s, "No process runs stagewise run, and 9 messages wait on events.") })
	if s.Summary.Level != Trouble || s.Summary.Facts[3].Answer != "No active run" {
		t.Errorf("summary %+v", s.Summary)
	}
}

// The error along the rows of a version has one point for messages that came at about the same time, and goes on from row to row.
func TestErrorAlongRows(t *testing.T) {
	bin := func(offset, rows int64, weight, err float64) statistics.ErrorBin {
		return statistics.ErrorBin{Offset: offset, Rows: rows, Weight: weight, Error: err}
	}
	got := alongRows([]statistics.ErrorBin{bin(0, 10, 10, 50), bin(0, 10, 30, 10), bin(1, 5, 0, 0), bin(2, 20, 20, 5)})
	if want := []CurvePoint{{20, 20}, {45, 5}}; !slices.Equal(got, want) {
		t.Errorf("got %v, expected %v", got, want)
	}
}

// The page says which right it lacks, shows the rest, and does not take that for brokers that do not answer.
func TestMissingRightIsNamed(t *testing.T) {
	const password = "p4ssword"
	may := func(operation kmsg.ACLOperation, pattern kmsg.ACLResourcePatternType, name string) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: pattern, Operation: operation, Allow: true}
	}
	events := may(kmsg.ACLOperationDescribe, kmsg.ACLResourcePatternTypeLiteral, "events")
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", password),
		kfake.User("PLAIN", "no-events", password, may(kmsg.ACLOperationRead, kmsg.ACLResourcePatternTypePrefixed, "clicks.")),
		kfake.User("PLAIN", "no-examples", password, may(kmsg.ACLOperationDescribe, kmsg.ACLResourcePatternTypePrefixed, "clicks."), events),
		kfake.User("PLAIN", "no-weights", password, may(kmsg.ACLOperationRead, kmsg.ACLResourcePatternTypePrefixed, "clicks.p"),
			may(kmsg.ACLOperationRead, kmsg.ACLResourcePatternTypePrefixed, "clicks.examples"), events),
		kfake.User("PLAIN", "nothing", password))
	noError(t, err)
	t.Cleanup(cluster.Close)
	as := func(user string) *kafkalog.Log {
		o := kafkalog.Options{Brokers: cluster.ListenAddrs()}
		o.Security.SASL.Mechanism, o.Security.SASL.Username, o.Security.SASL.Password = "PLAIN", user, kafkalog.NewSecret(password)
		return openOn(t, o)
	}
	admin := as("admin")
	noError(t, admin.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 3}))
	produce(t, admin, 60, 0)
	noError(t, source.Follow(t.Context(), admin, clicks(), true, event.Ignore{}))
	for user, want := range map[string][]string{
		"no-events":   {"Part of this page is empty: the right Describe on the topic events is missing: check the ACLs of User:no-events"},
		"no-examples": {"Part of this page is empty: the right Read on the topic clicks.examples is missing: check the ACLs of User:no-examples"},
		"no-weights": {"Part of this page is empty: the right Describe on the topic clicks.weights is missing: check the ACLs of User:no-weights",
			"the right Describe on the topic clicks.quarantine is missing"},
		"nothing": {"find clicks.plans"},
	} {
		r := newReader(as(user), Options{Name: "clicks", Source: "events"}, NewBoard())
		now := time.Now()
		r.now = func() time.Time { return now }
		ctx, stop := context.WithCancel(t.Context())
		go func() {
			<-r.changed // it has asked once
			stop()
		}()
		now = now.Add(time.Hour)
		r.repeat(ctx, partTopics, func(ctx context.Context) error { return r.pollTopics(ctx) })
		stop()
		s := r.state()
		for _, want := range want {
			if !need(s, want) {
				t.Errorf("%s: %+v", user, s.Summary.Needs)
			}
		}
		level := Notice
		if user == "nothing" {
			level = Trouble
		}
		if need(s, "have not answered") || s.Summary.Level != level || user == "no-events" && (lagOf(s, roleExamples) <= 0 || lagOf(s, roleSource) != -1) {
			t.Errorf("%s: summary %+v, topics %+v", user, s.Summary, s.Topics)
		}
	}
}
