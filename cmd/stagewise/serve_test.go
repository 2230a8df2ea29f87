package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/score"
)

// serving runs serve until the test ends, and returns the URL of the predictions once the log has a text.
func serving(t *testing.T, until string, args ...string) (url string) {
	t.Helper()
	s := startCommand(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	s.says(until)
	return s.says(`url=(\S+)`)
}

// asked is the answer to rows of JSON.
func asked(t *testing.T, url, rows string) (version int, labels []string) {
	t.Helper()
	response := assert.Must(http.Post(url, "application/json", strings.NewReader(rows)))(t)
	defer response.Body.Close()
	var answer struct {
		Version int
		Labels  []string
	}
	err := json.NewDecoder(response.Body).Decode(&answer)
	assert.Need(t, err == nil && response.StatusCode == http.StatusOK, "%s: %v", response.Status, err)
	return answer.Version, answer.Labels
}

// serve answers by the newest version of a pipeline, by one that is chosen, or by a file, with the labels that predict has.
func TestServe(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2), "rows.csv": "0,0,0\n5,5,5\n"})
	for range 2 {
		typed(t, exitDone, "train", "-c", "good.yaml", "--quiet", "--model", "m")
	}
	predicted, _ := typed(t, exitDone, "predict", "--model", "m", "-i", "rows.csv")
	var want []string
	for _, line := range strings.Split(strings.TrimSpace(predicted), "\n")[1:] {
		label, _, _ := strings.Cut(line, ",")
		want = append(want, label)
	}
	for _, c := range []struct {
		until   string
		args    []string
		version int
	}{
		{"url=", []string{"--model", "m"}, 2},
		{"version=2", []string{"-c", "good.yaml"}, 2},
		{"version=1", []string{"-c", "good.yaml", "--version", "1"}, 1},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			version, labels := asked(t, serving(t, c.until, c.args...), `{"rows": [[0, 0, 0], [5, 5, 5]]}`)
			assert.True(t, version == c.version && strings.Join(labels, " ") == strings.Join(want, " "),
				"version %d says %q, expected version %d and %q", version, labels, c.version, want)
		})
	}
}

// A version answers beside the offered one, to a topic of its own, and a pipeline that learns from these answers reports its served
// error, as a naive count has it: the recipe "Shadow" of docs/retraining.md.
func TestShadow(t *testing.T) {
	long(t)
	cluster := assert.Must(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	brokers := "brokers: [" + cluster.ListenAddrs()[0] + "]\n"
	const keys = "stages: [{features: {kind: columns}, link: softmax}]\n"
	var past strings.Builder
	past.WriteString("a,b,kind\n")
	for i := range 120 {
		fmt.Fprintf(&past, "%d,%d,%s\n", i%7, i%5, []string{"buys", "leaves"}[i%7/4])
	}
	inFolder(t, map[string]string{
		"clicks.yaml": "name: clicks\n" + brokers + keys + "examples: {train: [past.csv], label: kind}\n", "past.csv": past.String(),
		"shadow.yaml": "name: shadow\n" + brokers + keys + "retrain: {rows: 50, full: {every: 0, growth: 0}}\nexamples:\n" +
			"  {partitions: 1, from_topic: clicks-shadow, format: json, rows: features, columns: {use: [a, b]},\n" +
			"   batch_rows: 20, served: {label: prediction.label, version: version},\n" +
			"   outcome: {topic: clicks-outcomes, format: json, label: kind, within: 1h, absent: skip}}\n",
	})
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: cluster.ListenAddrs()}))(t)
	defer func() { assert.NoError(t, log.Close()) }()
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: "clicks-outcomes", Partitions: 1},
		kafkalog.Topic{Name: "clicks-shadow", Partitions: 1}))
	for _, passes := range []string{"1", "8"} {
		typed(t, exitDone, "train", "-c", "clicks.yaml", "--quiet", "--set", "stages.0.passes="+passes)
	}
	url := serving(t, "version=1", "-c", "clicks.yaml", "--version", "1", "--set", "serve.answers.topic=clicks-shadow")
	wrong := make([]bool, 200)
	for i := range wrong {
		body := strings.NewReader(fmt.Sprintf(`{"rows": [{"a": %d, "b": %d}]}`, i%7, i%5))
		request := assert.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, url, body))(t)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("X-Request-Id", fmt.Sprint("click-", i))
		response := assert.Must(http.DefaultClient.Do(request))(t)
		content := assert.Must(io.ReadAll(response.Body))(t)
		assert.NoError(t, response.Body.Close())
		truth := []string{"buys", "leaves"}[i%5/3] // customers do no longer what they did
		wrong[i] = !strings.Contains(string(content), truth)
		outcome := kafkalog.Message{Key: fmt.Append(nil, "click-", i), Value: fmt.Appendf(nil, `{"kind": %q}`, truth)}
		_ = assert.Must(log.Append(t.Context(), "clicks-outcomes", 0, outcome))(t)
	}
	typed(t, exitDone, "run", "-c", "shadow.yaml", "--quiet", "--until", "end", "--report", "shadow.json")
	var report struct {
		Updates []struct {
			Kind   string
			Rows   int
			Served []schemas.ServedReport
		}
	}
	assert.NoError(t, json.Unmarshal(assert.Must(os.ReadFile("shadow.json"))(t), &report))
	at := 0
	for _, u := range report.Updates {
		n := 0
		for _, is := range wrong[at : at+u.Rows] {
			if is {
				n++
			}
		}
		want := []schemas.ServedReport{{Version: 1, Rows: int64(u.Rows), Error: 100 * float64(n) / float64(u.Rows)}}
		if u.Kind == schemas.RunFull { // which reports none
			want = nil
		}
		assert.Equal(t, u.Served, want, "rows %d to %d: served", at, at+u.Rows)
		at += u.Rows
	}
	assert.True(t, at == len(wrong) && len(report.Updates) >= 2,
		"%d of %d rows are learnt by %d versions", at, len(wrong), len(report.Updates))
}

// An address for metrics answers Prometheus and probes without a token, and nothing else. The address for requests needs the token.
func TestServeMetricsAddress(t *testing.T) {
	token := strings.Repeat("t", 32)
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2), "token": token})
	typed(t, exitDone, "train", "-c", "good.yaml", "--quiet", "--model", "m")
	s := startCommand(t, "serve", "--listen", "127.0.0.1:0", "-c", "good.yaml", "--model", "m", "--set", "metrics.listen=127.0.0.1:0", "--set",
		"serve.token_file=token")
	metrics, requests := strings.TrimSuffix(s.says(metricsAt), "/metrics"), strings.TrimSuffix(s.says(`url=(\S+)`), "/predict")
	for url, want := range map[string]int{metrics + "/metrics": 200, metrics + "/live": 200, metrics + "/ready": 200, metrics + "/predict": 404,
		metrics + "/model": 404, requests + "/metrics": 401, requests + "/live": 200} {
		response := assert.Must(http.Get(url))(t)
		content, err := io.ReadAll(response.Body)
		err = errors.Join(err, response.Body.Close())
		assert.True(t, err == nil && response.StatusCode == want, "%s: %s, expected %d: %v", url, response.Status, want, err)
		assert.True(t, !strings.HasSuffix(url, "/metrics") || want != 200 ||
			strings.Contains(string(content), "stagewise_serving_version_age_seconds{"), "%s: %s", url, content)
	}
}

// scored returns of how many rows predictions count in a data folder. It fails the test if they are not all of the first version.
func scored(t *testing.T, topic string) (rows int) {
	t.Helper()
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"}))(t)
	defer func() { assert.Fails(t, log.Close(), nil) }()
	client := protocol.NewClient(log, "blobs", nil)
	partitions := assert.Must(log.Partitions(t.Context(), topic))(t)
	for n := range partitions {
		for p, err := range score.Read(t.Context(), client.Log, topic, n, nil) {
			assert.NoError(t, err)
			assert.Need(t, p.Version == 1 && p.Reason == "", "version %d, reason %q", p.Version, p.Reason)
			rows += p.Until - p.Row
		}
	}
	return rows
}

// A service goes on with partitions that are added to the examples: the topic of predictions gets as many.
func TestScoreGoesOnWithAddedPartitions(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(30, 2)})
	trained(t)
	address := free(t)
	scores := startCommand(t, "score", "-c", "good.yaml", "--log", "text", "--set", "listen="+address, "--set", "metrics.listen=127.0.0.1:0")
	until := func(want int) {
		t.Helper()
		for {
			rows := 0
			for _, found := range regexp.MustCompile(` rows=(\d+)`).FindAllStringSubmatch(scores.log.String(), -1) {
				rows += assert.Must(strconv.Atoi(found[1]))(t)
			}
			assert.Need(t, rows <= want, "%d rows have predictions, expected %d", rows, want)
			if rows == want {
				return
			}
			scores.await(fmt.Sprint("predictions for ", want, " rows"))
		}
	}
	until(330)
	client := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: []string{address}}))(t)
	defer client.Close()
	var message kafkalog.Message
	for m, err := range client.Range(t.Context(), "blobs.examples", 0, 0, 1) {
		message = assert.Must(m, err)(t)
	}
	examples := assert.Must(examples.Decode(message.Value, memory.DefaultAllocator))(t)
	assert.NoError(t, client.AddPartitions(t.Context(), "blobs.examples", 6))
	assert.Must(client.Append(t.Context(), "blobs.examples", 5, message))(t)
	until(330 + examples.Rows)
	scores.stop()
	assert.Equal(t, scored(t, "blobs.predictions"), 330+examples.Rows, "rows that have predictions that count")
}

// scoredBy writes the predictions for the examples of a pipeline, which are all of this model, and returns for how many
// rows. They must be what the model file predicts for each message.
func scoredBy(t *testing.T, configuration, name, file string) (rows int) {
	t.Helper()
	typed(t, exitDone, "score", "-c", configuration, "--until", "end")
	content := assert.Must(os.Open(file))(t)
	defer content.Close()
	m := assert.Must(model.Read(content))(t)
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"}))(t)
	defer func() { assert.Fails(t, log.Close(), nil) }()
	client, predictor := protocol.NewClient(log, name, nil), m.Predictor(kernel.Gonum())
	topics := client.Topics
	partitions := assert.Must(log.Partitions(t.Context(), topics.Predictions))(t)
	for n := range partitions {
		for p, err := range score.Read(t.Context(), client.Log, topics.Predictions, n, nil) {
			assert.NoError(t, err)
			assert.Need(t, p.Reason == "" && slices.Equal(p.Labels, m.Labels()) && p.Task == m.Task(), "%+v", p)
			for message, err := range client.Between(t.Context(), topics.Examples, n, p.Offset, p.Offset+1) {
				assert.NoError(t, err)
				batch := assert.Must(examples.Decode(message.Value, client.Memory))(t)
				if p.Task == examples.Numbers {
					_, want := predictor.PredictRows(batch)
					assert.Need(t, slices.Equal(p.Numbers, want), "%v, expected %v", p.Numbers, want)
					rows += p.Until - p.Row
					continue
				}
				want, _ := predictor.PredictRows(batch)
				for i := range want {
					assert.Need(t, want[i] == p.Probabilities[i], "%v, expected %v", p.Probabilities[i], want[i])
				}
				k := len(p.Labels)
				for i := range p.Until - p.Row {
					var given []int32
					for c := range p.Labels {
						if p.Task == examples.SeveralLabels && p.Given[i*k+c] {
							given = append(given, int32(c))
						}
					}
					of := m.Given(nil, want[i*k:(i+1)*k])
					assert.Need(t, p.Task != examples.SeveralLabels || slices.Equal(given, of) || len(given)+len(of) == 0,
						"row %d is given %v, expected %v", i, given, of)
				}
				rows += p.Until - p.Row
			}
		}
	}
	return rows
}
