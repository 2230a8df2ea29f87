//go:build kafka

package client

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
)

// On real brokers a version is offered soon after the message that makes it count.
func TestKafkaOffersSoon(t *testing.T) {
	addresses := os.Getenv("STAGEWISE_KAFKA")
	assert.Need(t, addresses != "", "STAGEWISE_KAFKA is not set: start Kafka with make kafka-up, which prints the value")
	o := Options{Name: fmt.Sprintf("test-%d", time.Now().UnixNano()), Brokers: strings.Split(addresses, ",")}
	p := largeVersions(newPublisherOf(t, kafkalog.Options{Brokers: o.Brokers}, o.Name))
	defer func() { assert.NoError(t, p.delete()) }()
	f := follow(t, o)
	late := 0 // versions that are offered after more than 200 ms, and after three times what their writing took: others may use the machine
	for range 21 {
		before := time.Now()
		place := p.write()
		changed := f.Changed()
		began := time.Now()
		p.end(place)
		<-changed
		took, wrote := time.Since(began), began.Sub(before)
		t.Logf("a version is written in %v, and offered after %v", wrote, took)
		if took > max(200*time.Millisecond, 3*wrote) {
			late++
		}
		assert.Need(t, version(f) == place.Version, "version %d is offered, expected %d", version(f), place.Version)
	}
	assert.True(t, late <= 10, "%d of 21 versions are offered late", late)
}

// largeVersions makes the versions of a publisher ten blocks of 1024 features of 50 inputs, with ten classes.
func largeVersions(p *publisher) *publisher {
	p.stages, p.features, p.inputs, p.classes = 10, 1024, 50, nil
	for class := range 10 {
		p.classes = append(p.classes, fmt.Sprint(class))
	}
	return p
}
