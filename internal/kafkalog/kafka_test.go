//go:build kafka

package kafkalog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog/secure"
)

// TestKafka runs the tests of every log against real brokers.
func TestKafka(t *testing.T) {
	testLog(t, openKafka, func(t *testing.T, l *Log, topic string) {
		// Brokers only compact closed segments, and roll a segment when a message arrives after segment.ms. The partition is
		// compacted when it has fewer messages than the test wrote.
		ctx := testContext(t)
		tick := time.NewTicker(300 * time.Millisecond)
		defer tick.Stop()
		for {
			left, err := read(t, l, topic, 0, bounds(t, l, topic, 0).End)
			if len(left) < 30 {
				return
			}
			select {
			case <-tick.C:
				assert.Must(l.Append(ctx, topic, 0, Message{Key: []byte("!"), Value: []byte("!")}))(t)
			case <-ctx.Done():
				t.Fatalf("not compacted: %d messages are left, %v", len(left), err)
			}
		}
	})
}

// With message.timestamp.type=LogAppendTime messages have the brokers' timestamps, as with franz-go.
func TestKafkaLogAppendTime(t *testing.T) {
	ctx, l := testContext(t), openKafka(t)
	topic := fmt.Sprintf("test-%x", rand.Uint64())
	t.Cleanup(func() { assert.NoError(t, l.Delete(testContext(t), topic)) })
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 1, Config: map[string]string{"message.timestamp.type": "LogAppendTime"}}))
	const n = 20
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.ZstdCompression()} {
		producer := foreign(t, l, kgo.ProducerBatchCompression(codec))
		var failure error
		for i := range n {
			r := &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: time.UnixMilli(1_000_000 + int64(i)*1000)}
			producer.Produce(ctx, r, func(_ *kgo.Record, err error) { failure = errors.Join(failure, err) })
		}
		assert.NoError(t, producer.Flush(ctx))
		assert.NoError(t, failure)
	}
	consumer := foreign(t, l, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	var want []time.Time
	for len(want) < 2*n {
		fetches := consumer.PollFetches(ctx)
		assert.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { want = append(want, r.Timestamp) })
	}
	for i, at := range times(t, l, topic, 2*n) {
		assert.True(t, at.Equal(want[i]) && time.Since(at) <= time.Minute, "message %d is of %v, want %v", i, at, want[i])
	}
}

func TestKafkaDeadMember(t *testing.T) {
	l := openKafka(t)
	l.session, l.heartbeat = 6*time.Second, 500*time.Millisecond // the minimum session timeout of brokers
	topic := fmt.Sprintf("test-%x", rand.Uint64())
	t.Cleanup(func() { assert.NoError(t, l.Delete(testContext(t), topic)) })
	testDeadMember(t, l, topic)
}

func openKafka(t testing.TB) *Log {
	t.Helper()
	brokers := os.Getenv("STAGEWISE_KAFKA")
	assert.Need(t, brokers != "",
		"STAGEWISE_KAFKA is not set: run `scripts/kafka.sh start` and set it to the addresses that the script prints")
	l := assert.Must(Open(testContext(t), Options{Brokers: strings.Split(brokers, ",")}))(t)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

// TestKafkaSecurity connects with each mechanism, and checks that nothing less is accepted. Package pipeline tests topic ACLs.
func TestKafkaSecurity(t *testing.T) {
	dir := os.Getenv("STAGEWISE_KAFKA_SECURITY")
	assert.Need(t, dir != "",
		"STAGEWISE_KAFKA_SECURITY is not set: run `scripts/kafka.sh start --secure` and set it to the folder that the script prints")
	brokers := strings.Split(strings.TrimSpace(string(assert.Must(os.ReadFile(filepath.Join(dir, "brokers")))(t))), ",")
	trust := secure.TLS{Enabled: true, CA: filepath.Join(dir, "ca.pem"), Certificate: filepath.Join(dir, "client.pem"),
		Key: filepath.Join(dir, "client.key")}
	secret := filepath.Join(dir, "admin.password")
	for _, mechanism := range []string{mechanismPlain, mechanismScram256, mechanismScram512} {
		l := openSecured(t, brokers, Security{TLS: trust, SASL: secure.SASL{Mechanism: mechanism, Username: "admin", PasswordFile: secret}})
		assert.Must(l.Topics(testContext(t), ""))(t)
		denied := refused(t, brokers, Security{TLS: trust, SASL: as(mechanism, "admin", password)}, "")
		assert.Fails(t, denied, kafka.SASLAuthenticationFailed)
	}
	// The brokers' validator accepts unsigned tokens, and checks their user and expiry.
	for _, from := range []func(*testing.T, time.Time) secure.SASL{tokenFile, tokenEndpoint} {
		l := openSecured(t, brokers, Security{TLS: trust, SASL: from(t, time.Now().Add(time.Hour))})
		topic := fmt.Sprintf("test-%x", rand.Uint64())
		assert.NoError(t, l.Create(testContext(t), Topic{Name: topic, Partitions: 1})) // only allowed for admin
		assert.NoError(t, l.Delete(testContext(t), topic))
		denied := refused(t, brokers, Security{TLS: trust, SASL: from(t, time.Now().Add(-time.Hour))}, "")
		assert.True(t, errors.Is(denied, kafka.SASLAuthenticationFailed) && strings.Contains(denied.Check, "OAUTHBEARER"),
			"an expired token: %v", denied)
	}
	admin := secure.SASL{Mechanism: mechanismPlain, Username: "admin", PasswordFile: secret}
	other := newAuthority(t)
	other.issue(t, "client", false)
	for name, c := range map[string]struct {
		security Security
		check    string
	}{
		"no TLS":               {Security{SASL: admin}, "security.tls.enabled"},
		"neither TLS nor user": {Security{}, "security.tls.enabled"},
		"no user":              {Security{TLS: trust}, "security.sasl"},
		"another CA": {Security{TLS: secure.TLS{Enabled: true, CA: other.file("ca.pem"), Certificate: trust.Certificate,
			Key: trust.Key}, SASL: admin}, "security.tls.ca"},
		"no certificate": {Security{TLS: secure.TLS{Enabled: true, CA: trust.CA}, SASL: admin}, "security.tls.certificate"},
		"a client of another CA": {Security{TLS: secure.TLS{Enabled: true, CA: trust.CA, Certificate: other.file("client.pem"),
			Key: other.file("client.key")}, SASL: admin}, "security.tls.certificate"},
	} {
		t.Run(name, func(t *testing.T) { refused(t, brokers, c.security, c.check) })
	}
	if open := os.Getenv("STAGEWISE_KAFKA"); open != "" {
		refused(t, strings.Split(open, ","), Security{TLS: trust, SASL: admin}, "security.tls.enabled")
	}
}
