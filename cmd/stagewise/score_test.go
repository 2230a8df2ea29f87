package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/score"
)

// scored returns a digest of the predictions that count in a data folder, and how many rows they are of. It fails the
// test if they are not all of the first version.
func scored(t *testing.T, topic string) (digest string, rows int) {
	t.Helper()
	log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"}))(t)
	defer func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}()
	client, sum := protocol.NewClient(log, "blobs", nil), sha256.New()
	partitions := valueOf(log.Partitions(t.Context(), topic))(t)
	for n := range partitions {
		for p, err := range score.Read(t.Context(), client.Log, topic, n, nil) {
			noError(t, err)
			if p.Version != 1 || p.Reason != "" {
				t.Fatalf("version %d, reason %q", p.Version, p.Reason)
			}
			for _, v := range []any{int64(n), p.Offset, int64(p.Row), p.Classes, p.Probabilities} {
				noError(t, binary.Write(sum, binary.LittleEndian, v))
			}
			_, _ = io.WriteString(sum, strings.Join(p.Labels, " ")) // a hash takes everything
			rows += p.Until - p.Row
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), rows
}

// A program that is killed ten times while it writes predictions leaves what one leaves that is not: each row once.
func TestKilledScorers(t *testing.T) {
	long(t)
	const trained = 12_000
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(trained, 1), "test.csv": blobs(90, 2)})
	if code, _, stderr := stagewise("train", "-c", "good.yaml", "--quiet", "--set", "examples.batch_rows=16"); code != exitDone {
		t.Fatal(stderr)
	}
	if code, _, stderr := stagewise("score", "-c", "good.yaml", "--until", "end", "--to", "undisturbed"); code != exitDone ||
		!strings.Contains(stderr, "predictions for 12,090 rows of 756 messages of blobs.examples are on undisturbed") {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	want, rows := scored(t, "undisturbed")
	if rows != trained+90 {
		t.Fatalf("%d rows", rows)
	}
	kills := 0
	for tries := 0; kills < 10; tries++ {
		if tries == 100 {
			t.Fatalf("the program ended 100 times, and was killed only %d times before", kills)
		}
		cmd, _, _ := program(t, "score", "-c", "good.yaml", "--until", "end", "--log", "json")
		lines, wait := started(t, cmd)
		for lines.Scan() {
			if strings.Contains(lines.Text(), `"scored"`) {
				_ = cmd.Process.Kill() // it may have ended
			}
		}
		wait()
		if !cmd.ProcessState.Exited() {
			kills++
			continue
		}
		if code := cmd.ProcessState.ExitCode(); code != exitDone {
			t.Fatalf("exit code %d", code)
		}
		if digest, _ := scored(t, "blobs.predictions"); digest != want { // it was faster than the kill
			t.Fatalf("after %d kills the predictions have digest %s, expected %s", kills, digest, want)
		}
		deleteTopic(t, "blobs.predictions")
	}
	if code, _, stderr := stagewise("score", "-c", "good.yaml", "--until", "end"); code != exitDone {
		t.Fatal(stderr)
	}
	if digest, rows := scored(t, "blobs.predictions"); digest != want || rows != trained+90 {
		t.Errorf("after %d kills the predictions have %d rows and digest %s, expected %s", kills, rows, digest, want)
	}
}

func deleteTopic(t *testing.T, topic string) {
	t.Helper()
	log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"}))(t)
	if err := log.Delete(t.Context(), topic); err != nil {
		t.Error(err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// Ctrl-C interrupts a program that writes predictions; SIGTERM is how a service ends.
func TestSignalsToScore(t *testing.T) {
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(30, 2)})
	trained(t)
	for signal, want := range map[os.Signal]int{syscall.SIGINT: exitInterrupted, syscall.SIGTERM: exitDone} {
		cmd, _, _ := program(t, "score", "-c", "good.yaml", "--log", "text")
		cmd.Stderr = nil // a pipe instead
		stderr := valueOf(cmd.StderrPipe())(t)
		noError(t, cmd.Start())
		lines := bufio.NewScanner(stderr)
		var last string
		for rows := 0; lines.Scan(); {
			last = lines.Text()
			var n int
			if _, of, found := strings.Cut(last, " rows="); found {
				_, _ = fmt.Sscan(of, &n) // 0 is not counted
			}
			if rows += n; n > 0 && rows == 330 {
				noError(t, cmd.Process.Signal(signal))
			}
		}
		_ = cmd.Wait() // the exit code is checked below
		if code := cmd.ProcessState.ExitCode(); code != want || (want == exitInterrupted) != strings.Contains(last,
			"interrupted; to resume, run the same command again") {
			t.Errorf("%v: exit code %d, expected %d: %s", signal, code, want, last)
		}
		if _, rows := scored(t, "blobs.predictions"); rows != 330 {
			t.Errorf("%d rows have predictions, expected 330", rows)
		}
		deleteTopic(t, "blobs.predictions")
	}
}

// A service goes on with partitions that are added to the examples: the topic of predictions gets as many.
func TestScoreGoesOnWithAddedPartitions(t *testing.T) {
	long(t)
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(300, 1), "test.csv": blobs(30, 2)})
	trained(t)
	free := valueOf(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := free.Addr().String()
	noError(t, free.Close())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	lines, log := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := execute(ctx, []string{"score", "-c", "good.yaml", "--log", "text", "--set", "listen=" + address, "--set",
			"metrics.listen=127.0.0.1:0"}, io.Discard, log)
		log.Close()
		ended <- code
	}()
	rows, scanner := 0, bufio.NewScanner(lines)
	until := func(want int) {
		t.Helper()
		for rows < want && scanner.Scan() {
			if _, of, found := strings.Cut(scanner.Text(), " rows="); found {
				var n int
				_, _ = fmt.Sscan(of, &n) // 0 is not counted
				rows += n
			}
		}
		if rows != want {
			t.Fatalf("%d rows have predictions, expected %d", rows, want)
		}
	}
	until(330)
	client := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: []string{address}}))(t)
	defer client.Close()
	message := valueOf(client.Range("blobs.examples", 0, 0, 1).Next(t.Context()))(t)
	examples := valueOf(examples.Decode(message.Value, memory.DefaultAllocator))(t)
	noError(t, client.AddPartitions(t.Context(), "blobs.examples", 6))
	valueOf(client.Append(t.Context(), "blobs.examples", 5, message))(t)
	until(330 + examples.Rows)
	go func() { _, _ = io.Copy(io.Discard, lines) }() // it ends with the program
	stop()
	<-ended
	if _, counted := scored(t, "blobs.predictions"); counted != 330+examples.Rows {
		t.Errorf("%d rows have predictions that count, expected %d", counted, 330+examples.Rows)
	}
}

// scoredBy writes the predictions for the examples of a pipeline, which are all of this model, and returns for how many
// rows. They must be what the model file predicts for each message.
func scoredBy(t *testing.T, configuration, name, file string) (rows int) {
	t.Helper()
	if code, _, stderr := stagewise("score", "-c", configuration, "--until", "end"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	content := valueOf(os.Open(file))(t)
	defer content.Close()
	m := valueOf(model.Read(content))(t)
	log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"}))(t)
	defer func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}()
	client, predictor := protocol.NewClient(log, name, nil), m.Predictor(kernel.Gonum())
	topics := client.Topics
	partitions := valueOf(log.Partitions(t.Context(), topics.Predictions))(t)
	for n := range partitions {
		for p, err := range score.Read(t.Context(), client.Log, topics.Predictions, n, nil) {
			noError(t, err)
			if p.Reason != "" || !slices.Equal(p.Labels, m.Labels()) || p.Task != m.Task() {
				t.Fatalf("%+v", p)
			}
			noError(t, client.Between(t.Context(), topics.Examples, n, p.Offset, p.Offset+1, func(message protocol.Message) error {
				batch, err := client.Codec.DecodeExamples(message.Value)
				if err != nil {
					return err
				}
				defer batch.Release()
				features := kernel.NewDense(batch.Rows, batch.Width)
				batch.Features(features.Data, batch.Width)
				if p.Task == examples.Numbers {
					_, want := predictor.PredictRows(&examples.Rows{Rows: batch.Rows, Cols: batch.Width, Floats: features.Data})
					if !slices.Equal(p.Numbers, want) {
						t.Fatalf("%v, expected %v", p.Numbers, want)
					}
					rows += p.Until - p.Row
					return nil
				}
				want := predictor.Probabilities(features)
				for i := range want.Data {
					if want.Data[i] != p.Probabilities[i] {
						t.Fatalf("%v, expected %v", p.Probabilities[i], want.Data[i])
					}
				}
				for i := range p.Until - p.Row {
					var given []string
					for c, label := range p.Labels {
						if p.Task == examples.SeveralLabels && p.Given[i*len(p.Labels)+c] {
							given = append(given, label)
						}
					}
					if p.Task == examples.SeveralLabels && !slices.Equal(given, m.Given(want.Row(i))) && len(given)+len(m.Given(want.Row(i))) > 0 {
						t.Fatalf("row %d is given %q, expected %q", i, given, m.Given(want.Row(i)))
					}
				}
				rows += p.Until - p.Row
				return nil
			}))
		}
	}
	return rows
}
