// Loop is the world around a model that is served: it asks the server about customers, and knows a moment later what they did. The server
// writes what it answered to a topic, loop writes what happened to another one, and a run learns from both.
//
//	loop -history FILE                           customers of the past, with what they did, as JSON lines
//	loop -brokers HOST:PORT -create              makes the topic of what happened
//	loop -brokers HOST:PORT -url URL -rows N     asks about N customers
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"
)

// topic has what customers did. Its keys are the ids of requests, as those of the answers, so its partitions are as many.
const (
	topic      = "loop-outcomes"
	partitions = 2
)

// customer is what a request says of one.
type customer struct {
	Spend  float64 `json:"spend"`
	Visits float64 `json:"visits"`
	Age    float64 `json:"age"`
}

func draw(random *rand.Rand) customer {
	return customer{100 * random.Float64(), float64(random.IntN(20)), 18 + float64(random.IntN(60))}
}

// does returns what a customer does. Once it was those who spent much who bought; now it is those who come often.
func (c customer) does(now bool) string {
	if now && c.Visits > 9 || !now && c.Spend > 50 {
		return "buys"
	}
	return "leaves"
}

func main() {
	history := flag.String("history", "", "write customers of the past to this `file`")
	brokers := flag.String("brokers", "localhost:9092", "addresses of the brokers, with commas between them")
	create := flag.Bool("create", false, "make the topic of what happened")
	url := flag.String("url", "http://127.0.0.1:8474", "address of the server")
	rows := flag.Int("rows", 6000, "number of customers to ask about")
	rate := flag.Int("rate", 200, "customers a second")
	flag.Parse()
	addresses := strings.Split(*brokers, ",")
	var err error
	switch {
	case *history != "":
		err = remember(*history)
	case *create:
		err = createTopic(addresses)
	default:
		err = serveAll(addresses, *url, *rows, *rate)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "loop:", err)
		os.Exit(1)
	}
}

// remember writes customers of the past.
func remember(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	random, out := rand.New(rand.NewPCG(1, 1)), bufio.NewWriter(file)
	for range 500 {
		c := draw(random)
		line, err := json.Marshal(struct {
			customer
			Kind string `json:"kind"`
		}{c, c.does(false)})
		if err != nil {
			return err
		}
		out.Write(append(line, '\n')) // Flush has its error
	}
	return errors.Join(out.Flush(), file.Close())
}

func createTopic(brokers []string) error {
	client := &kafka.Client{Addr: kafka.TCP(brokers...), Timeout: 10 * time.Second}
	answer, err := client.CreateTopics(context.Background(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
		{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}}})
	if err == nil && !errors.Is(answer.Errors[topic], kafka.TopicAlreadyExists) {
		err = answer.Errors[topic]
	}
	return err
}

// serveAll asks about customers, a few at a time, and writes what each of them does a moment later.
func serveAll(brokers []string, url string, rows, rate int) error {
	// The partitions are those in which the server has the answers: both are chosen as Kafka's clients for Java do.
	writer := &kafka.Writer{Addr: kafka.TCP(brokers...), Topic: topic, Balancer: kafka.Murmur2Balancer{}, RequiredAcks: kafka.RequireAll,
		BatchTimeout: 10 * time.Millisecond}
	random, tick := rand.New(rand.NewPCG(2, 2)), time.NewTicker(time.Second/time.Duration(rate))
	defer tick.Stop()
	asking, ctx := errgroup.WithContext(context.Background())
	asking.SetLimit(16)
	for i := 0; i < rows && ctx.Err() == nil; i++ {
		<-tick.C
		c, id := draw(random), fmt.Sprintf("visit-%06d", i)
		asking.Go(func() error {
			if err := ask(ctx, url, id, c); err != nil {
				return err
			}
			return writer.WriteMessages(ctx, kafka.Message{Key: []byte(id), Value: fmt.Appendf(nil, `{"kind": %q}`, c.does(true))})
		})
	}
	return errors.Join(asking.Wait(), writer.Close())
}

// ask asks the server about a customer. What it answers is on the topic of the answers, under the id.
func ask(ctx context.Context, url, id string, c customer) error {
	body, err := json.Marshal(map[string][]customer{"rows": {c}})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/predict", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Request-Id", id)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return err
}
