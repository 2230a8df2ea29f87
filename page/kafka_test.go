//go:build kafka

package page

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
)

// On real brokers a page shows what other processes do.
func TestKafkaProcessesAreShown(t *testing.T) {
	addresses := os.Getenv("STAGEWISE_KAFKA")
	assert.Need(t, addresses != "", "STAGEWISE_KAFKA is not set: start Kafka with make kafka-up, which prints the value")
	brokers, name := strings.Split(addresses, ","), fmt.Sprintf("test-%d", time.Now().UnixNano())
	log := openOn(t, kafkalog.Options{Brokers: brokers})
	t.Cleanup(func() {
		topics, err := log.Topics(context.Background(), name+".")
		assert.Fails(t, err, nil)
		for _, topic := range topics {
			assert.Fails(t, log.Delete(context.Background(), topic.Name), nil)
		}
	})
	processesAreShown(t, brokers, name)
}
