package pipeline

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// A schema registry that is away for ten minutes loses no message: ingest waits, says so once in a while, and goes on.
func TestFollowWaitsForTheRegistry(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 0)
	registry := srfake.New()
	defer registry.Close()
	const schema = `{"type":"record","name":"Click","fields":[{"name":"label","type":"string"},{"name":"side","type":"int"},{"name":"at","type":"int"}]}`
	registry.SeedSchema("clicks-value", 1, 1, sr.Schema{Schema: schema})
	job.Examples.Format, job.Examples.Registry.URL, job.Examples.Columns.Use = "avro", registry.URL(), []string{"side", "at"}
	for i := range 40 {
		content := must(avro.MustParse(schema).Encode(map[string]any{"label": string(rune('a' + i%2)), "side": i % 2, "at": i}))(t)
		m := kafkalog.Message{Value: append([]byte{0, 0, 0, 0, 1}, content...)}
		must(log.Append(t.Context(), "clicks", i%5, m))(t)
	}
	registry.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return true
	})
	p := topics.Open(log, job.Name, nil)
	noError(t, topics.Create(t.Context(), p, &job))
	recorder := &eventRecorder{}
	f := source.NewFollow(p, job, true, event.Serialised(recorder))
	var mutex sync.Mutex
	var waited time.Duration
	f.Pause = func(_ context.Context, d time.Duration) error {
		mutex.Lock()
		defer mutex.Unlock()
		if waited += d; waited > 10*time.Minute {
			registry.ClearInterceptors()
		}
		return nil
	}
	noError(t, f.Run(t.Context()))
	checkCounted(t, log, job, 40)
	if quarantined := eventsOf[event.Quarantined](recorder); len(quarantined) > 0 {
		t.Errorf("%v in quarantine", quarantined)
	}
	said := func(what string) bool {
		return slices.ContainsFunc(eventsOf[event.Noticed](recorder), func(n event.Noticed) bool { return strings.Contains(n.Text, what) })
	}
	if !said("waits for the schema registry; no message is skipped") || !said("answers 503") || !said("answers again") {
		t.Errorf("notices %v", eventsOf[event.Noticed](recorder))
	}
}
