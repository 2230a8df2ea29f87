//go:build kafka

package pipeline

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
)

// secured is real Kafka that wants a certificate and a password, and allows everything to admin and nothing to others: the
// folder that scripts/kafka.sh made for it.
type secured struct{ dir string }

func securedKafka(t *testing.T) secured {
	t.Helper()
	dir := os.Getenv("STAGEWISE_KAFKA_SECURITY")
	if dir == "" {
		t.Fatal("STAGEWISE_KAFKA_SECURITY is not set: scripts/kafka.sh start --secure starts Kafka and names that folder")
	}
	return secured{dir}
}

func (s secured) file(name string) string { return filepath.Join(s.dir, name) }

func (s secured) text(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(s.file(name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(content))
}

// open connects as a user.
func (s secured) open(t *testing.T, user string) *kafkalog.Log {
	t.Helper()
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{
		Brokers: strings.Split(s.text(t, "brokers"), ","),
		Security: kafkalog.Security{
			TLS:  secure.TLS{Enabled: true, CA: s.file("ca.pem"), Certificate: s.file("client.pem"), Key: s.file("client.key")},
			SASL: secure.SASL{Mechanism: "SCRAM-SHA-512", Username: user, PasswordFile: s.file(user + ".password")},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

// allow makes ACLs, and waits until the broker goes by them.
func (s secured) allow(t *testing.T, acls []kafka.ACLEntry) {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(s.file("client.pem"), s.file("client.key"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(s.text(t, "ca.pem")))
	mechanism, err := scram.Mechanism(scram.SHA256, "admin", s.text(t, "admin.password"))
	if err != nil {
		t.Fatal(err)
	}
	transport := &kafka.Transport{TLS: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}}, SASL: mechanism}
	defer transport.CloseIdleConnections()
	admin := &kafka.Client{Addr: kafka.TCP(strings.Split(s.text(t, "brokers"), ",")...), Transport: transport}
	response, err := admin.CreateACLs(t.Context(), &kafka.CreateACLsRequest{ACLs: acls})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(response.Errors...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, acl := range acls {
		for there := false; !there; {
			found, err := admin.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
				ResourceTypeFilter: acl.ResourceType, ResourceNameFilter: acl.ResourceName, ResourcePatternTypeFilter: acl.ResourcePatternType,
				PrincipalFilter: acl.Principal, HostFilter: acl.Host, Operation: acl.Operation, PermissionType: acl.PermissionType,
			}})
			if err != nil {
				t.Fatal(err)
			}
			there = len(found.Resources) > 0
		}
	}
}

var (
	documentedACL = regexp.MustCompile(`(?m)^acl (.+)$`)
	aclOption     = regexp.MustCompile(`--([a-z-]+) (\S+)`)
)

// documented are the ACLs that docs/security.md makes for users who are called like the roles.
func documented(t *testing.T, name string) (acls []kafka.ACLEntry) {
	t.Helper()
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
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
			if err := entry.Operation.UnmarshalText([]byte(operation)); err != nil {
				t.Fatal(err)
			}
			for _, resource := range []struct {
				kind  kafka.ResourceType
				names []string
			}{{kafka.ResourceTypeTopic, options["topic"]}, {kafka.ResourceTypeGroup, options["group"]}} {
				for _, of := range resource.names {
					entry.ResourceType, entry.ResourceName = resource.kind, strings.Replace(of, "NAME", name, 1)
					acls = append(acls, entry)
				}
			}
		}
	}
	if len(acls) == 0 {
		t.Fatal("docs/security.md makes no ACLs")
	}
	return acls
}

// granted are the ACLs of roles, given to a user.
func granted(acls []kafka.ACLEntry, user string, roles ...string) (own []kafka.ACLEntry) {
	for _, acl := range acls {
		if slices.Contains(roles, strings.TrimPrefix(acl.Principal, "User:")) {
			acl.Principal = "User:" + user
			own = append(own, acl)
		}
	}
	return own
}

func denied(err error) bool {
	return errors.As(err, new(*kafkalog.AccessError)) && errors.Is(err, kafka.TopicAuthorizationFailed)
}

// Each role can do its work with the ACLs that docs/security.md lists for it, and none the work of another. What is optional
// may be missing.
func TestKafkaACLs(t *testing.T) {
	want, _ := train(t, openEmbedded(t), resumable(t))
	kafkas, job := securedKafka(t), resumable(t)
	job.Name = fmt.Sprintf("test-%d", time.Now().UnixNano())
	admin, topics := kafkas.open(t, "admin"), run.TopicsOf(job.Name)
	t.Cleanup(func() {
		for _, topic := range Topics(job) {
			if err := admin.Delete(context.Background(), topic.Name); err != nil {
				t.Error(err)
			}
		}
	})
	acls := documented(t, job.Name)
	submitter := kafkas.open(t, "train")

	if err := Ingest(t.Context(), submitter, job, &events{}); !denied(err) {
		t.Fatalf("ingest without permission: %v", err)
	}
	kafkas.allow(t, slices.DeleteFunc(granted(acls, "train", "train"), func(acl kafka.ACLEntry) bool {
		return acl.Operation == kafka.ACLOperationTypeDescribeConfigs
	}))
	if err := Ingest(t.Context(), submitter, job, &events{}); err != nil {
		t.Fatalf("ingest: %v", err)
	}
	if _, _, err := Train(t.Context(), submitter, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, &events{}); err == nil || !strings.Contains(err.Error(), "check the ACLs of User:train") {
		t.Errorf("a submitter at the work of others: %v", err)
	}

	kafkas.allow(t, granted(acls, "train", "work", "solve"))
	for _, retention := range []bool{false, true} {
		if retention {
			kafkas.allow(t, granted(acls, "train", "train"))
		}
		recorder := &events{}
		report, _, err := Train(t.Context(), submitter, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, recorder)
		if err != nil {
			t.Fatal(err)
		}
		if report.WeightsDigest != want.WeightsDigest || report.Rows != want.Rows {
			t.Errorf("digest %s, %d rows; on the embedded broker %s, %d", report.WeightsDigest, report.Rows, want.WeightsDigest, want.Rows)
		}
		noticed := slices.ContainsFunc(of[event.Noticed](recorder), func(e event.Noticed) bool { return strings.Contains(e.Text, "is not checked") })
		if noticed == retention {
			t.Errorf("with permission to see retention %v, without a check of it %v", retention, noticed)
		}
	}

	kafkas.allow(t, granted(acls, "subscribe", "subscribe"))
	subscriber := kafkas.open(t, "subscribe")
	model, err := LoadModel(t.Context(), subscriber, job.Name, run.Latest)
	if err != nil || model.Manifest.Version != 2 {
		t.Fatalf("subscribe: %v", err)
	}
	if _, err := subscriber.Append(t.Context(), topics.Weights, 0, kafkalog.Message{Value: []byte("x")}); !denied(err) {
		t.Errorf("a subscriber writes weights: %v", err)
	}
	if _, _, err := subscriber.Bounds(t.Context(), topics.Examples, 0); !denied(err) {
		t.Errorf("a subscriber looks at examples: %v", err)
	}
}

// The roles as processes of users of their own, each with the ACLs of its role
// and nothing else, make the same weights as one process.
func TestKafkaRolesOfUsers(t *testing.T) {
	want, _ := train(t, openEmbedded(t), resumable(t))
	kafkas, job := securedKafka(t), resumable(t)
	job.Name = fmt.Sprintf("test-%d", time.Now().UnixNano())
	admin := kafkas.open(t, "admin")
	t.Cleanup(func() {
		for _, topic := range Topics(job) {
			if err := admin.Delete(context.Background(), topic.Name); err != nil {
				t.Error(err)
			}
		}
	})
	acls := documented(t, job.Name)
	for _, user := range []string{"train", "work", "solve"} {
		kafkas.allow(t, granted(acls, user, user))
	}
	submitter := kafkas.open(t, "train")
	id, err := Submit(t.Context(), submitter, openBLAS(t), job, TrainOptions{}, event.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	work, solve := kafkas.open(t, "work"), kafkas.open(t, "solve")
	working(t, work, job)
	working(t, kafkas.open(t, "work"), job)
	solving(t, solve, job)
	report, _, err := Attach(t.Context(), submitter, job.Name, id, event.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	if report.WeightsDigest != want.WeightsDigest || report.Rows != want.Rows {
		t.Errorf("digest %s, %d rows; on the embedded broker %s, %d", report.WeightsDigest, report.Rows, want.WeightsDigest, want.Rows)
	}
	// what is not theirs to write
	for user, own := range map[string][]string{
		"work":  {run.TopicsOf(job.Name).Statistics, run.TopicsOf(job.Name).Residuals, run.TopicsOf(job.Name).Quarantine},
		"solve": {run.TopicsOf(job.Name).Weights, run.TopicsOf(job.Name).Plans},
	} {
		log := map[string]*kafkalog.Log{"work": work, "solve": solve}[user]
		for _, topic := range Topics(job) {
			_, err := log.Append(t.Context(), topic.Name, 0, kafkalog.Message{Key: []byte("x"), Value: []byte("x")})
			if mine := slices.Contains(own, topic.Name); mine && err != nil || !mine && err == nil {
				t.Errorf("%s as %s: %v", topic.Name, user, err)
			}
		}
	}
}
