//go:build kafka

package pipeline

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/score"
)

// openKafka connects to real Kafka, and returns a pipeline's name that nobody uses there.
func openKafka(t *testing.T) (*kafkalog.Log, string) {
	t.Helper()
	brokers := os.Getenv("STAGEWISE_KAFKA")
	assert.Need(t, brokers != "", "STAGEWISE_KAFKA is not set: start Kafka with make kafka-up, which prints the value")
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: strings.Split(brokers, ",")}))(t)
	name := fmt.Sprintf("test-%d", time.Now().UnixNano())
	t.Cleanup(func() {
		ctx := context.Background()
		all, err := log.Topics(ctx, name+".")
		assert.Fails(t, err, nil)
		for _, topic := range all {
			assert.NoError(t, log.Delete(ctx, topic.Name))
		}
		assert.NoError(t, log.Close())
	})
	return log, name
}

// A run on real Kafka has the same bits as on the embedded broker, even if it is interrupted and resumed.
func TestKafkaRunHasTheSameDigest(t *testing.T) {
	want, _ := train(t, openEmbedded(t), newMultiStageJob(t))
	log, name := openKafka(t)
	job := newMultiStageJob(t)
	job.Name = name
	trainUntil(t, log, job, func(e event.Event) bool { s, ok := e.(event.StageEnded); return ok && s.Stage == 1 })
	recorder := &eventRecorder{}
	first, _ := trainRecorded(t, log, job, recorder.Record)
	began := eventsOf[event.Began](recorder)
	assert.True(t, len(began) == 1 && began[0].Resumed, "got events %+v, expected one run that is resumed", began)
	second, model := train(t, log, job)
	for _, r := range []*schemas.Report{first, second} {
		assert.Equal(t, r.WeightsDigest, want.WeightsDigest, "the digest of version %d, and on the embedded broker", r.Version)
		assert.Equal(t, r.Rows, want.Rows, "rows of version %d", r.Version)
	}
	assert.True(t, first.Version == 1 && second.Version == 2 && model.Manifest.Version == 2,
		"versions %d and %d, model version %d; expected 1, 2, 2", first.Version, second.Version, model.Manifest.Version)
}

// The program of Kafka Streams in examples/streams writes the rows and labels that examples.outcome joins, each once, also where another
// process with nothing on its disk goes on.
func TestKafkaStreamsJoinsAsOutcomeDoes(t *testing.T) {
	const partitions, joined = 2, "joined"
	log, name := openKafka(t)
	job := viewJob(t, log, name+".", partitions, partitions)
	job.Name = name
	other, reads := openKafka(t)
	of := viewJob(t, other, reads+".", 1, 1)
	of.Name = reads
	of.Examples.FromTopic, of.Examples.Label, of.Examples.Outcome = name+"."+joined, "kind", ingest.Defaults().Outcome
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: of.Examples.FromTopic, Partitions: partitions}))
	messages := storm(rand.New(rand.NewPCG(3, 7)), 300, partitions)
	since := time.Now().Add(-2*time.Hour).UnixMilli() - day // brokers delete what is older than a week
	written := make([]timed, len(messages))
	for i, m := range messages {
		m.topic, m.time = name+"."+m.topic, m.time+since
		written[i] = m
	}
	var first, second []timed // some outcomes come before their rows, as the rows' producer was down
	for i, m := range written {
		if 3*i < len(written) || 3*i < 2*len(written) && strings.HasSuffix(m.topic, buys) {
			first = append(first, m)
		} else {
			second = append(second, m)
		}
	}
	for i, chunk := range [][]timed{first, second} {
		send(t, log, chunk...)
		followToEnd(t, log, job)
		want := labelled(t, log, job)
		joinByStreams(t, log, job.Name, of.Examples.FromTopic, len(want))
		followToEnd(t, other, of)
		assert.True(t, len(want) >= 80+200*i, "examples.outcome has joined %d rows", len(want))
		assert.Equal(t, labelled(t, other, of), want, "what Kafka Streams and examples.outcome have joined")
	}
}

// joinByStreams runs the program of examples/streams, as it is configured there but for names and times, until its topic has so many rows.
func joinByStreams(t *testing.T, log *kafkalog.Log, name, joined string, rows int) {
	t.Helper()
	configuration := assert.Must(os.ReadFile("../examples/streams/join.properties"))(t)
	folder := t.TempDir()
	file := filepath.Join(folder, "join.properties")
	// A later key stands in place of an earlier one. The group waits for the process before until its session is over.
	text := string(configuration) + fmt.Sprintf("join.rows=%s\njoin.outcomes=%s\njoin.joined=%s\njoin.within=PT1M\njoin.early=PT5S\njoin.grace=PT10S\n"+
		"application.id=%s\nbootstrap.servers=%s\nstate.dir=%s\nsession.timeout.ms=6000\n", name+"."+views, name+"."+buys, joined,
		name+".join", strings.Join(log.Addr(), ","), folder)
	assert.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	program, output := exec.Command("../scripts/streams.sh", file), &strings.Builder{}
	program.Env = append(os.Environ(), "JAVA_OPTS=-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1")
	program.Stdout, program.Stderr = output, output
	assert.NoError(t, program.Start())
	ended := make(chan error, 1)
	go func() { ended <- program.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	counted := make(chan error, 1)
	go func() { counted <- countRows(ctx, log, joined, rows) }()
	var failed error
	select {
	case failed = <-ended:
		failed = fmt.Errorf("it has ended: %w", errors.Join(failed, errors.New(output.String())))
		cancel()
		<-counted
	case failed = <-counted:
		cancel()
		assert.NoError(t, program.Process.Signal(syscall.SIGTERM))
		<-ended // with the status of the signal
	}
	assert.Need(t, failed == nil, "join by Kafka Streams: %v\n%s", failed, output)
}

// countRows waits until a topic has so many messages, without those of transactions that are open or aborted.
func countRows(ctx context.Context, log *kafkalog.Log, topic string, rows int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(log.Addr()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer client.Close()
	for read := 0; read < rows; {
		fetched := client.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			return fmt.Errorf("%d of %d rows were written: %w", read, rows, err)
		}
		read += fetched.NumRecords()
	}
	return nil
}

// storm draws rows and outcomes: keys recur now and then, outcomes come several times, early, late or never, and some messages move the
// time on alone. Some messages come later than their times. At the end each partition of the outcomes is past all rows.
func storm(random *rand.Rand, rows, partitions int) (messages []timed) {
	type due struct {
		at int64
		m  timed
	}
	var later []due
	place := func(key string) int {
		sum := 0
		for _, c := range key {
			sum = sum*31 + int(c)
		}
		return sum % partitions
	}
	now := int64(0)
	for n := range rows {
		now += random.Int64N(2000)
		key := fmt.Sprint("view-", n)
		if n > 0 && random.IntN(20) == 0 {
			key = fmt.Sprint("view-", random.IntN(n))
		}
		later = append(later, due{now, view(place(key), key, n, now)})
		for range []int{0, 0, 1, 1, 1, 2}[random.IntN(6)] {
			at := max(0, now-6000+random.Int64N(80_000))
			later = append(later, due{at, buy(place(key), key, []string{"book", "film"}[random.IntN(2)], at)})
		}
		if random.IntN(10) == 0 {
			later = append(later, due{now, timed{buys, random.IntN(partitions), "tick", "", now}})
		}
	}
	slices.SortStableFunc(later, func(a, b due) int { return cmp.Compare(a.at, b.at) })
	for _, d := range later {
		if random.IntN(6) == 0 {
			d.m.time = max(0, d.m.time-random.Int64N(30_000))
		}
		messages = append(messages, d.m)
	}
	for p := range partitions {
		messages = append(messages, timed{buys, p, "tick", "", now + 200_000})
	}
	return messages
}

// labelled returns the labels of the rows that a run counts by their second feature. It is an error if one counts twice.
func labelled(t *testing.T, log *kafkalog.Log, job topics.Job) map[int]string {
	t.Helper()
	labels := map[int]string{}
	eachCounted(t, log, job, func(row int, label string) {
		before, twice := labels[row]
		assert.True(t, !twice, "row %d counts twice, first with %s", row, before)
		labels[row] = label
	})
	return labels
}

// secured is a real Kafka that requires a certificate and a password. It allows everything to the user admin, and nothing to
// others without an ACL. dir is the folder with its certificates and passwords, which scripts/kafka.sh makes.
type secured struct{ dir string }

func openSecured(t *testing.T) secured {
	t.Helper()
	dir := os.Getenv("STAGEWISE_KAFKA_SECURITY")
	assert.Need(t, dir != "", "STAGEWISE_KAFKA_SECURITY is not set: start Kafka with scripts/kafka.sh start --secure, which prints the value")
	return secured{dir}
}

func (s secured) file(name string) string { return filepath.Join(s.dir, name) }

func (s secured) text(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(string(assert.Must(os.ReadFile(s.file(name)))(t)))
}

// open connects as a user.
func (s secured) open(t *testing.T, user string) *kafkalog.Log {
	t.Helper()
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{
		Brokers: strings.Split(s.text(t, "brokers"), ","),
		Security: kafkalog.Security{
			TLS:  secure.TLS{Enabled: true, CA: s.file("ca.pem"), Certificate: s.file("client.pem"), Key: s.file("client.key")},
			SASL: secure.SASL{Mechanism: "SCRAM-SHA-512", Username: user, PasswordFile: s.file(user + ".password")},
		},
	}))(t)
	t.Cleanup(func() { assert.NoError(t, log.Close()) })
	return log
}

// deleteAfter deletes topics after the test.
func deleteAfter(t *testing.T, admin *kafkalog.Log, topics ...kafkalog.Topic) {
	t.Cleanup(func() {
		for _, topic := range topics {
			assert.NoError(t, admin.Delete(context.Background(), topic.Name))
		}
	})
}

// allow creates ACLs, and waits until the broker has them.
func (s secured) allow(t *testing.T, acls []kafka.ACLEntry) {
	t.Helper()
	certificate := assert.Must(tls.LoadX509KeyPair(s.file("client.pem"), s.file("client.key")))(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(s.text(t, "ca.pem")))
	mechanism := assert.Must(scram.Mechanism(scram.SHA256, "admin", s.text(t, "admin.password")))(t)
	transport := &kafka.Transport{TLS: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}}, SASL: mechanism}
	defer transport.CloseIdleConnections()
	admin := &kafka.Client{Addr: kafka.TCP(strings.Split(s.text(t, "brokers"), ",")...), Transport: transport}
	assert.NoError(t, errors.Join(assert.Must(admin.CreateACLs(t.Context(), &kafka.CreateACLsRequest{ACLs: acls}))(t).Errors...))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, acl := range acls {
		for known := false; !known; {
			found := assert.Must(admin.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
				ResourceTypeFilter: acl.ResourceType, ResourceNameFilter: acl.ResourceName, ResourcePatternTypeFilter: acl.ResourcePatternType,
				PrincipalFilter: acl.Principal, HostFilter: acl.Host, Operation: acl.Operation, PermissionType: acl.PermissionType,
			}}))(t)
			known = len(found.Resources) > 0
		}
	}
}

var (
	documentedACL = regexp.MustCompile(`(?m)^acl (.+)$`)
	aclOption     = regexp.MustCompile(`--([a-z-]+) (\S+)`)
)

// documentedACLs returns the ACLs that docs/security.md lists for a pipeline. Each user there has the name of a role.
func documentedACLs(t *testing.T, name string) (acls []kafka.ACLEntry) {
	t.Helper()
	page := assert.Must(os.ReadFile("../docs/security.md"))(t)
	for _, line := range documentedACL.FindAllStringSubmatch(string(page), -1) {
		options := map[string][]string{}
		for _, o := range aclOption.FindAllStringSubmatch(line[1], -1) {
			options[o[1]] = append(options[o[1]], o[2])
		}
		entry := kafka.ACLEntry{
			Principal: options["allow-principal"][0], Host: "*", PermissionType: kafka.ACLPermissionTypeAllow,
			ResourcePatternType: kafka.PatternTypeLiteral,
		}
		if slices.Contains(options["resource-pattern-type"], "prefixed") {
			entry.ResourcePatternType = kafka.PatternTypePrefixed
		}
		for _, operation := range options["operation"] {
			assert.NoError(t, entry.Operation.UnmarshalText([]byte(operation)))
			for _, resource := range []struct {
				kind  kafka.ResourceType
				names []string
			}{{kafka.ResourceTypeTopic, options["topic"]}, {kafka.ResourceTypeGroup, options["group"]}} {
				for _, resourceName := range resource.names {
					entry.ResourceType, entry.ResourceName = resource.kind, strings.Replace(resourceName, "NAME", name, 1)
					acls = append(acls, entry)
				}
			}
		}
	}
	assert.Need(t, len(acls) != 0, "docs/security.md lists no ACLs")
	return acls
}

// aclsOf returns the ACLs of roles, for a user.
func aclsOf(acls []kafka.ACLEntry, user string, roles ...string) (granted []kafka.ACLEntry) {
	for _, acl := range acls {
		if slices.Contains(roles, strings.TrimPrefix(acl.Principal, "User:")) {
			acl.Principal = "User:" + user
			granted = append(granted, acl)
		}
	}
	return granted
}

// isDenied reports whether an error says that a topic's ACLs forbid a request.
func isDenied(err error) bool {
	return errors.As(err, new(*kafkalog.AccessError)) && errors.Is(err, kafka.TopicAuthorizationFailed)
}

// With the ACLs that docs/security.md lists for it, each role can do its own work, and not that of another role. Optional ACLs may
// be missing.
func TestKafkaACLs(t *testing.T) {
	want, _ := train(t, openEmbedded(t), newMultiStageJob(t))
	cluster, job := openSecured(t), newMultiStageJob(t)
	job.Name = fmt.Sprintf("test-%d", time.Now().UnixNano())
	administrator, topicNames := cluster.open(t, "admin"), protocol.TopicsOf(job.Name)
	deleteAfter(t, administrator, topics.Topics(job)...)
	acls := documentedACLs(t, job.Name)
	submitter := cluster.open(t, "train")

	err := source.Ingest(t.Context(), submitter, job, ignore)
	assert.Need(t, isDenied(err), "ingest without permission: got error %v, expected that it is denied", err)
	needed := slices.DeleteFunc(slices.Clone(acls),
		func(acl kafka.ACLEntry) bool { return acl.Operation == kafka.ACLOperationTypeDescribeConfigs })
	cluster.allow(t, aclsOf(needed, "train", "train"))
	assert.NoError(t, source.Ingest(t.Context(), submitter, job, ignore))
	_, _, err = Train(t.Context(), submitter, openBLAS(t), job, dispatch.TrainOptions{Allocator: assert.Allocator(t)}, ignore)
	assert.Fails(t, err, "check the ACLs of User:train") // as it also works and solves

	cluster.allow(t, aclsOf(needed, "train", "work", "solve"))
	for _, retention := range []bool{false, true} {
		if retention {
			cluster.allow(t, aclsOf(acls, "train", "train"))
		}
		recorder := &eventRecorder{}
		report, _, err := Train(t.Context(), submitter, openBLAS(t), job, dispatch.TrainOptions{Allocator: assert.Allocator(t)}, recorder.Record)
		assert.NoError(t, err)
		assert.Equal(t, report.WeightsDigest, want.WeightsDigest, "the digest, and on the embedded broker")
		assert.Equal(t, report.Rows, want.Rows, "rows")
		assert.Equal(t, said(recorder, "is not checked"), !retention, "a notice that the retention is not checked")
	}

	chain := chainJob(t, "softmax")
	chain.Name, chain.Retrain.Rows = job.Name, 500
	chain.Examples.Train = []string{rings(1500, 3, 3, 3).writeCSV(t, t.TempDir(), "later.csv")} // as wide as the rows before
	chain.Stages = chain.Stages[:1]
	cluster.allow(t, aclsOf(acls, "train", "run"))
	retrained, err := Retrain(t.Context(), submitter, openBLAS(t), chain, true, nil)
	assert.Need(t, err == nil && len(retrained.Updates) >= 2, "a chain: got %+v, error %v, expected several updates", retrained, err)

	cluster.allow(t, aclsOf(acls, "solve", "forget"))
	done, err := source.Forget(t.Context(), topics.Open(cluster.open(t, "solve"), chain.Name, nil), chain,
		source.ToForget{Rows: rowsNamed(t, chain, topicNames.Examples+"/0/0/0")})
	assert.Need(t, err == nil && len(done.Learnt) > 0 && len(done.Stays) == 5,
		"forget a row: got %+v, error %v, expected that versions have learnt from it", done, err)
	retrained, err = Retrain(t.Context(), submitter, openBLAS(t), chain, true, nil)
	assert.Need(t, err == nil && len(retrained.Updates) == 1, "a chain after that: got %+v, error %v, expected a full run", retrained, err)

	cluster.allow(t, aclsOf(acls, "subscribe", "subscribe"))
	subscriber := cluster.open(t, "subscribe")
	model, err := topics.Open(subscriber, job.Name, nil).Model(t.Context(), protocol.Latest)
	assert.Need(t, err == nil && model.Manifest.Version >= 4, "a subscriber loads the newest model: error %v, expected that of the chain", err)
	_, err = subscriber.Append(t.Context(), topicNames.Versions, 0, kafkalog.Message{Value: []byte("x")})
	assert.True(t, isDenied(err), "a subscriber writes a version: got error %v, expected that it is denied", err)
	_, _, err = subscriber.Bounds(t.Context(), topicNames.Examples, 0)
	assert.True(t, isDenied(err), "a subscriber reads examples: got error %v, expected that it is denied", err)
}

// Roles that run as different users, each with only the ACLs of its role, make the same weights as one process.
func TestKafkaRolesOfUsers(t *testing.T) {
	want, _ := train(t, openEmbedded(t), newMultiStageJob(t))
	cluster, job := openSecured(t), newMultiStageJob(t)
	job.Name = fmt.Sprintf("test-%d", time.Now().UnixNano())
	deleteAfter(t, cluster.open(t, "admin"), topics.Topics(job)...)
	acls := documentedACLs(t, job.Name)
	for _, user := range []string{"train", "work", "solve"} {
		cluster.allow(t, aclsOf(acls, user, user))
	}
	submitter := cluster.open(t, "train")
	id := assert.Must(Submit(t.Context(), submitter, openBLAS(t), job, dispatch.TrainOptions{}, nil))(t)
	work, solve := cluster.open(t, "work"), cluster.open(t, "solve")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	for _, s := range []*service{startWorker(t, work, job), startWorker(t, cluster.open(t, "work"), job), startSolver(t, solve, job)} {
		s.onEnd(cancel)
	}
	report, _, err := dispatch.Attach(ctx, topics.Open(submitter, job.Name, nil), id, nil)
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	assert.NoError(t, err)
	assert.Equal(t, report.WeightsDigest, want.WeightsDigest, "the digest, and on the embedded broker")
	assert.Equal(t, report.Rows, want.Rows, "rows")
	// A role can write to its own topics, and to no others.
	for user, own := range map[string][]string{
		"work": {protocol.TopicsOf(job.Name).Statistics, protocol.TopicsOf(job.Name).Residuals, protocol.TopicsOf(job.Name).Quarantine},
		"solve": {protocol.TopicsOf(job.Name).Weights, protocol.TopicsOf(job.Name).Versions, protocol.TopicsOf(job.Name).State,
			protocol.TopicsOf(job.Name).Plans, protocol.TopicsOf(job.Name).Quarantine},
	} {
		log := map[string]*kafkalog.Log{"work": work, "solve": solve}[user]
		for _, topic := range topics.Topics(job) {
			_, err := log.Append(t.Context(), topic.Name, 0, kafkalog.Message{Key: []byte("x"), Value: []byte("x")})
			mine := slices.Contains(own, topic.Name)
			assert.True(t, mine == (err == nil), "user %s writes to %s: error %v, allowed is %v", user, topic.Name, err, mine)
		}
	}
}

// A user with the permissions of score alone writes predictions.
func TestKafkaScoreOfAUser(t *testing.T) {
	cluster, job := openSecured(t), newMultiStageJob(t)
	job.Name = fmt.Sprintf("test-%d", time.Now().UnixNano())
	topicNames, admin := protocol.TopicsOf(job.Name), cluster.open(t, "admin")
	deleteAfter(t, admin, append(topics.Topics(job), kafkalog.Topic{Name: topicNames.Predictions})...)
	report, _, err := Train(t.Context(), admin, openBLAS(t), job, dispatch.TrainOptions{}, nil)
	assert.NoError(t, err)
	cluster.allow(t, aclsOf(documentedACLs(t, job.Name), "score", "score"))
	log := cluster.open(t, "score")
	partitions, err := log.Partitions(t.Context(), topicNames.Examples)
	if err == nil {
		err = log.Create(t.Context(), topics.PredictionsTopic(job, topicNames.Predictions, partitions))
	}
	assert.NoError(t, err)
	client := protocol.NewClient(log, job.Name, nil)
	m := assert.Must(client.Model(t.Context(), protocol.Latest))(t)
	group := log.Join(topicNames.Predictions, topicNames.Examples)
	err = score.Run(t.Context(), client, score.Options{From: topicNames.Examples, To: topicNames.Predictions, UntilEnd: true},
		score.Fixed(m), group, nil)
	assert.NoError(t, errors.Join(err, group.Leave()))
	rows := int64(0)
	for n := range partitions {
		for p, err := range score.Read(t.Context(), client.Log, topicNames.Predictions, n, nil) {
			assert.NoError(t, err)
			rows += int64(p.Until - p.Row)
		}
	}
	assert.True(t, rows >= report.Rows, "%d rows have predictions, expected the %d training rows and those for testing", rows, report.Rows)
	_, err = log.Append(t.Context(), topicNames.Examples, 0, kafkalog.Message{Value: []byte("x")})
	assert.True(t, err != nil, "the user score may write examples")
}

// A user with the permissions of ingest alone follows a topic, beside others if it may not be a member of their group.
func TestKafkaFollowOfAUser(t *testing.T) {
	cluster, name := openSecured(t), fmt.Sprintf("test-%d", time.Now().UnixNano())
	admin := cluster.open(t, "admin")
	job := clicksOn(t, admin, name+".clicks", 40)
	job.Name = name
	deleteAfter(t, admin, append(topics.Topics(job), kafkalog.Topic{Name: job.Examples.FromTopic})...)
	cluster.allow(t, append(aclsOf(documentedACLs(t, name), "train", "train"), kafka.ACLEntry{
		Principal: "User:train", Host: "*", PermissionType: kafka.ACLPermissionTypeAllow, ResourcePatternType: kafka.PatternTypeLiteral,
		ResourceType: kafka.ResourceTypeTopic, ResourceName: job.Examples.FromTopic, Operation: kafka.ACLOperationTypeRead,
	}))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	told := ""
	err := source.Follow(ctx, cluster.open(t, "train"), job, false, func(e event.Event) {
		switch e := e.(type) {
		case event.Noticed:
			told += e.Text + "\n"
		case event.Ingested:
			if e.Rows == 40 {
				stop()
			}
		}
	})
	assert.True(t, errors.Is(err, context.Canceled) && strings.Contains(told, "ingesting it anyway"),
		"got error %v and the notices %q, expected an interruption, and that it does not know of others", err, told)
}

// service is a role in the background, and its events.
type service struct {
	*eventRecorder
	stop  func()          // stops the role, and waits until it has returned
	ended context.Context // ends with the role's error as its cause
}

// onEnd calls f with the role's error when the role has ended.
func (s *service) onEnd(f func(error)) {
	context.AfterFunc(s.ended, func() { f(context.Cause(s.ended)) })
}

// startRole starts a role, which stops when the test ends.
func startRole(t *testing.T, role func(ctx context.Context, rec event.Recorder) error) *service {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended, end := context.WithCancelCause(context.Background())
	s := &service{eventRecorder: &eventRecorder{}, ended: ended}
	go func() { end(role(ctx, s.Record)) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		<-ended.Done()
		assert.Fails(t, context.Cause(ended), context.Canceled)
	})
	t.Cleanup(s.stop)
	return s
}

func startWorker(t *testing.T, log *kafkalog.Log, job topics.Job) *service {
	return startRole(t, func(ctx context.Context, rec event.Recorder) error {
		return dispatch.Work(ctx, log, openBLAS(t), job, rec)
	})
}

func startSolver(t *testing.T, log *kafkalog.Log, job topics.Job) *service {
	return startRole(t, func(ctx context.Context, rec event.Recorder) error {
		return dispatch.Solve(ctx, log, openBLAS(t), job, rec)
	})
}
