package client

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// largeVersions makes the versions of a publisher ten blocks of 1024 features of 50 inputs, with ten classes.
func largeVersions(p *publisher) *publisher {
	p.stages, p.features, p.inputs, p.classes = 10, 1024, 50, nil
	for class := range 10 {
		p.classes = append(p.classes, fmt.Sprint(class))
	}
	return p
}

// embedded returns a publisher of large versions on an embedded broker.
func embedded(t testing.TB) *publisher {
	return largeVersions(newPublisher(t, kafkalog.Options{DataDir: t.TempDir()}))
}

// A follower keeps the model that it offers, and no other.
func TestFollowerKeepsOneModel(t *testing.T) {
	p, cluster := brokers(t)
	f := follow(t, p.options(cluster))
	var models []weak.Pointer[model.Model]
	for range 10 {
		await(t, f, p.publish())
		models = append(models, weak.Make(f.Model()))
	}
	runtime.GC()
	runtime.GC() // what pools had
	alive := 0
	for _, m := range models {
		if m.Value() != nil {
			alive++
		}
	}
	if alive > 1 {
		t.Errorf("%d models are alive, expected that of the newest version", alive)
	}
	runtime.KeepAlive(f)
}

// BenchmarkReady is from Follow to the first model, with 200 versions on the topic. "versions" is that time in units of that of reading the
// only version of another topic and predicting with it once.
func BenchmarkReady(b *testing.B) {
	one, many := embedded(b), embedded(b)
	one.publish()
	for range 200 {
		many.publish()
		if err := many.Prune(b.Context(), 200); err != nil {
			b.Fatal(err)
		}
	}
	var single, ready time.Duration
	for b.Loop() {
		began := time.Now()
		m, err := topics.Open(one.log, "p", nil).Model(b.Context(), "1")
		if err != nil {
			b.Fatal(err)
		}
		m.Predict(make([]float32, m.Width()), nil)
		between := time.Now()
		f, err := FollowOn(b.Context(), many.log, Options{Name: "p"})
		if err != nil {
			b.Fatal(err)
		}
		<-f.Ready()
		single += between.Sub(began)
		ready += time.Since(between)
		if version(f) != 200 {
			b.Fatalf("version %d is ready", version(f))
		}
		f.Close()
	}
	b.ReportMetric(float64(ready.Milliseconds())/float64(b.N), "ms/ready")
	b.ReportMetric(float64(ready)/float64(single), "versions")
}

// BenchmarkOffered is from the end of a run, which makes its version count, to the follower that offers it. "median-ms" is the measure.
func BenchmarkOffered(b *testing.B) {
	p := embedded(b)
	f, err := FollowOn(b.Context(), p.log, Options{Name: "p"})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	var took []time.Duration
	for b.Loop() {
		place := p.write()
		changed := f.Changed()
		began := time.Now()
		p.end(place)
		<-changed
		took = append(took, time.Since(began))
		if version(f) != place.Version {
			b.Fatalf("version %d is offered, expected %d", version(f), place.Version)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
}

// BenchmarkMemory reports how much memory a follower adds while it takes versions, in units of a model that is in use.
func BenchmarkMemory(b *testing.B) {
	p := embedded(b)
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return float64(stats.HeapAlloc)
	}
	p.publish()
	before := heap()
	m, err := topics.Open(p.log, "p", nil).Model(b.Context(), "1")
	if err != nil {
		b.Fatal(err)
	}
	m.Predict(make([]float32, m.Width()), nil)
	size := heap() - before
	runtime.KeepAlive(m)
	m = nil
	before = heap()
	f, err := FollowOn(b.Context(), p.log, Options{Name: "p"})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	await(b, f, 1)
	var most float64
	for b.Loop() {
		await(b, f, p.publish())
		most = max(most, heap()-before)
	}
	b.ReportMetric(size/(1<<20), "MiB/model")
	b.ReportMetric(most/size, "models")
}
