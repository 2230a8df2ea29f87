//go:build unix

package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

func request(key uint16, correlation uint32, content string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(content)))
	b = binary.BigEndian.AppendUint16(b, key)
	b = binary.BigEndian.AppendUint16(b, 9) // the API's version
	return append(binary.BigEndian.AppendUint32(b, correlation), content...)
}

func answer(correlation uint32, content string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(content)))
	return append(binary.BigEndian.AppendUint32(b, correlation), content...)
}

const fetchKey = 1

// through opens a connection through a proxy on in-memory pipes, so that a test controls time.
func through(p *proxy) (client, broker net.Conn) {
	client, inner := net.Pipe()
	outer, broker := net.Pipe()
	p.group.Go(func() { p.relay(inner, outer) })
	return client, broker
}

func send(t *testing.T, c net.Conn, frame []byte) {
	t.Helper()
	assert.Must(c.Write(frame))(t)
}

func expect(t *testing.T, c net.Conn, frame []byte) {
	t.Helper()
	got := make([]byte, len(frame))
	_, err := io.ReadFull(c, got)
	assert.Need(t, err == nil && bytes.Equal(got, frame), "%q, %v; expected %q", got, err, frame)
}

// passes sends a frame on one side and expects it on the other.
func passes(t *testing.T, from, to net.Conn, frame []byte) {
	t.Helper()
	sent := make(chan error, 1)
	go func() {
		_, err := from.Write(frame)
		sent <- err
	}()
	expect(t, to, frame)
	assert.NoError(t, <-sent)
}

func expectBroken(t *testing.T, c net.Conn) {
	t.Helper()
	n, err := c.Read(make([]byte, 1))
	assert.Need(t, n == 0 && err != nil, "%d bytes, %v; expected a broken connection", n, err)
}

// Frames pass unchanged and without delay, and when one side closes, the other is closed too.
func TestFramesPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := unconnected(), time.Now()
		client, broker := through(p)
		for i, content := range []string{"", "a", string(make([]byte, 1<<20))} {
			passes(t, client, broker, request(produceKey, uint32(i), content))
			passes(t, broker, client, answer(uint32(i), content))
		}
		assert.Equal(t, time.Since(began), 0, "time that was taken")
		broker.Close()
		expectBroken(t, client)
		p.group.Wait()
	})
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unconnected()
		client, broker := through(p)
		for _, latency := range []time.Duration{300 * time.Millisecond, 0} {
			p.Delay(latency)
			began := time.Now()
			passes(t, client, broker, request(fetchKey, 1, "which"))
			passes(t, broker, client, answer(1, "this"))
			assert.Equal(t, time.Since(began), 2*latency, "the round trip")
		}
		// A reset does not wait for delayed frames.
		p.Delay(time.Hour)
		began := time.Now()
		send(t, client, request(fetchKey, 2, ""))
		p.Reset()
		expectBroken(t, broker)
		p.group.Wait()
		assert.Equal(t, time.Since(began), 0, "the time of a reset")
	})
}

func TestResetBreaksEveryConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unconnected()
		client, broker := through(p)
		otherClient, otherBroker := through(p)
		synctest.Wait()
		assert.Equal(t, p.Reset(), 2, "connections")
		for _, c := range []net.Conn{client, broker, otherClient, otherBroker} {
			expectBroken(t, c)
		}
		p.group.Wait()
		assert.Equal(t, p.Reset(), 0, "connections that are left")
		client, broker = through(p)
		passes(t, client, broker, request(fetchKey, 1, ""))
		client.Close()
		p.group.Wait()
	})
}

// When an answer is lost the broker has the whole request and the client no byte of the answer. Answers to other requests arrive.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := unconnected()
		p.LoseAnswers(1)
		client, broker := through(p)
		passes(t, client, broker, request(fetchKey, 1, "which"))
		passes(t, broker, client, answer(1, "this"))
		passes(t, client, broker, request(produceKey, 2, "keep"))
		go broker.Write(answer(2, "kept")) // the connection breaks during the write
		expectBroken(t, client)
		p.group.Wait()

		client, broker = through(p)
		passes(t, client, broker, request(produceKey, 2, "keep"))
		passes(t, broker, client, answer(2, "kept"))
		client.Close()
		p.group.Wait()
	})
}

// On sockets, clients see a reset connection, also when the broker is down; after Close nothing listens.
func TestProxyOnSockets(t *testing.T) {
	broker := assert.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := assert.Must(newProxy())(t)
	p.Serve(func() (net.Conn, error) { return net.Dial("tcp", broker.Addr().String()) })
	client := assert.Must(net.Dial("tcp", p.Addr()))(t)
	defer client.Close()
	accepted := assert.Must(broker.Accept())(t)
	defer accepted.Close()
	send(t, client, request(fetchKey, 1, "which"))
	expect(t, accepted, request(fetchKey, 1, "which"))
	assert.Equal(t, p.Reset(), 1, "connections")
	assert.MustFail(client.Read(make([]byte, 1)))(t, syscall.ECONNRESET)
	broker.Close()
	if c, err := net.Dial("tcp", p.Addr()); err == nil { // Dial may see the reset already
		expectBroken(t, c)
		c.Close()
	}
	p.Close()
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		c.Close()
		t.Error("the proxy still listens")
	}
}

const seeds = 2000

// A schedule is a function of its seed. It has enough faults, in order, at moments that exist, and brokers fail at most once.
func TestScheduleLaws(t *testing.T) {
	const records = 30
	for seed := range uint64(seeds) {
		faults, early, brokers := schedule(seed, records), 0, 0
		again := schedule(seed, records)
		assert.Need(t, reflect.DeepEqual(faults, again), "seed %d: %v and %v", seed, faults, again)
		for i, f := range faults {
			assert.True(t, i == 0 || f.at >= faults[i-1].at, "seed %d: fault %d is out of order in %v", seed, i, faults)
			if f.at < records {
				early++
			}
			if f.kind.ofBrokers() {
				brokers++
			}
			assert.True(t, !f.again || f.at <= records/4, "seed %d: %v: repeats the command when the run may have ended", seed, f)
			assert.True(t, f.at >= 0 && f.at <= records && f.after >= 0 && f.after <= maxAfter && f.lasts >= 0 && f.lasts <= maxLongStop &&
				f.target >= 0 && f.amount >= 1,
				"seed %d: %v", seed, f)
		}
		assert.True(t, early >= minFaults && len(faults) <= maxFaults+1,
			"seed %d: %d faults, %d before the last record", seed, len(faults), early)
		assert.True(t, brokers <= 1, "seed %d: brokers fail %d times", seed, brokers)
	}
}

// In a long campaign each kind of fault comes in the survey, in each part of a run and at the end.
func TestSchedulesReachEverything(t *testing.T) {
	const records, part = 30, 5
	type where struct {
		kind kind
		part int
	}
	seen, longStops, killed := map[where]int{}, 0, 0
	for seed := range uint64(seeds) {
		for _, f := range schedule(seed, records) {
			seen[where{f.kind, (f.at + part - 1) / part}]++
			if f.lasts >= minLongStop {
				longStops++
			}
			if f.kind == killFront {
				killed++
			}
			if f.at == records {
				seen[where{f.kind, records}]++
			}
		}
	}
	for _, k := range kinds() {
		for _, at := range []int{0, 1, 2, 3, 4, 5, 6, records} {
			if k.weight == 0 || at == records && k.kind.ofBrokers() { // the run would end before the broker's failure has an effect
				continue
			}
			assert.True(t, seen[where{k.kind, at}] != 0, "%s never comes in part %d", k.kind, at)
		}
	}
	assert.True(t, longStops >= seeds/10 && killed >= seeds/2,
		"%d schedules stop %d processes for longer than their sessions, and kill %d that submit or retrain", seeds, longStops, killed)
}

func TestCheckVersions(t *testing.T) {
	for _, test := range []struct {
		there   []int // versions, of which version n is of run n
		version int
		wrong   string
	}{
		{[]int{1}, 1, ""}, {[]int{1, 2}, 2, ""}, {[]int{2, 3}, 3, ""}, {[]int{1, 2, 3}, 3, ""},
		{[]int{1, 1}, 2, "version 2"}, {[]int{1, 3}, 3, "version 2"}, {[]int{1}, 2, "version 2"}, {[]int{3}, 3, "1 versions"}, {nil, 1, "0 versions"},
	} {
		var list []protocol.Finished
		for _, n := range test.there {
			list = append(list, protocol.Finished{Manifest: schemas.Manifest{Version: n, Run: strconv.Itoa(n)}})
		}
		err := checkVersions(list, test.version, strconv.Itoa(test.version), 2)
		assert.True(t, (err == nil) == (test.wrong == "") && (err == nil || strings.Contains(err.Error(), test.wrong)),
			"%v: %v, expected %q", test.there, err, test.wrong)
	}
}

func TestSameVersions(t *testing.T) {
	want := []version{{1, false, "[0]", "a"}, {2, true, "[1]", "b"}}
	assert.NoError(t, sameVersions(want, []version{want[0], want[1]}))
	for name, got := range map[string][]version{
		"missing": want[:1], "more": {want[0], want[1], {3, true, "[2]", "c"}}, "digest": {want[0], {2, true, "[1]", "c"}},
		"spans": {want[0], {2, true, "[2]", "b"}}, "kind": {want[0], {2, false, "[1]", "b"}}, "none": nil,
	} {
		assert.True(t, sameVersions(want, got) != nil, "%s: not seen", name)
	}
}

func TestCompare(t *testing.T) {
	of := func(change func(*schemas.Report)) *schemas.Report {
		r := &schemas.Report{
			Version: 1, Run: "a", Rows: 10, Seconds: 3, WeightsDigest: "d",
			Stages: []schemas.StageReport{{Seconds: 1, Measured: schemas.Measured{TrainLoss: 0.5}}},
			Splits: map[string]schemas.SplitReport{"train": {Rows: 10, Confusion: [][]int64{{5, 0}, {1, 4}}}},
		}
		change(r)
		return r
	}
	base := of(func(*schemas.Report) {})
	assert.Fails(t, compare(base, of(func(r *schemas.Report) {
		r.Version, r.Run, r.Seconds, r.IngestSeconds, r.Stages[0].Seconds = 2, "b", 4, 1, 2
	})), nil)
	for name, change := range map[string]func(*schemas.Report){
		"digest":    func(r *schemas.Report) { r.WeightsDigest = "e" },
		"rows":      func(r *schemas.Report) { r.Rows = 11 },
		"loss":      func(r *schemas.Report) { r.Stages[0].TrainLoss = 0.51 },
		"confusion": func(r *schemas.Report) { r.Splits["train"].Confusion[0][1] = 1 },
	} {
		assert.True(t, compare(base, of(change)) != nil, "compare does not see another %s", name)
	}
}

// Circumstances are a function of the seed, each comes often, and brokers lose messages once in a chain where nothing else happens to them.
func TestCircumstances(t *testing.T) {
	const records = 18
	counts := map[kind]int{}
	for seed := range uint64(seeds) {
		in := circumstancesOf(seed)
		faults := in.schedule(seed, records)
		again := circumstancesOf(seed)
		assert.Need(t, reflect.DeepEqual(faults, again.schedule(seed, records)), "seed %d: another schedule the second time", seed)
		for k, of := range map[kind]bool{skewClocks: in.skewed, electBehind: in.behind} {
			if of {
				counts[k]++
			}
		}
		elected, brokers := 0, 0
		for i, f := range faults {
			assert.True(t, i == 0 || f.at >= faults[i-1].at, "seed %d: fault %d is out of order in %v", seed, i, faults)
			if f.kind == electBehind {
				elected++
				assert.True(t, f.lasts >= minBehind && f.lasts <= maxBehind && f.at < records*2/3, "seed %d: %v", seed, f)
			}
			if f.kind.ofBrokers() {
				brokers++
			}
		}
		assert.True(t, elected > 0 == in.behind && brokers <= 1, "seed %d: %+v with %v", seed, in, faults)
	}
	for _, k := range []kind{skewClocks, electBehind} {
		assert.True(t, counts[k] >= seeds/10, "%s comes in %d of %d chains", k, counts[k], seeds)
	}
}

// shell returns a fleet whose processes run a shell script.
func shell(t *testing.T, script string) *fleet {
	t.Helper()
	folder := t.TempDir()
	program := folder + "/program"
	assert.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	f := newFleet(folder, program, "", nil, map[role]int{})
	t.Cleanup(f.close)
	return f
}

func started(t *testing.T, f *fleet) *process {
	t.Helper()
	assert.NoError(t, f.start(worker))
	all := f.all(worker)
	return all[len(all)-1]
}

func TestProcessesThatEndOnTheirOwnAreReported(t *testing.T) {
	f := shell(t, "exit 3")
	assert.NoError(t, f.start(worker))
	p := <-f.unexpected
	assert.True(t, p.err != nil && len(f.all(worker)) == 0, "%v, %d are left", p.err, len(f.all(worker)))
}

// A held process is not taken as a target, can be released, and can be killed while it is held.
func TestHeldProcesses(t *testing.T) {
	f := shell(t, "while :; do :; done")
	p := started(t, f)
	p.hold()
	assert.True(t, f.take(worker, 0) == nil, "take returns a held process")
	p.release()
	assert.True(t, f.take(worker, 0) == p, "take does not return a released process")
	p.hold()
	f.kill(p)
	p.release() // the process has ended
	assert.Equal(t, len(f.unexpected), 0, "killed processes that are reported")
}

func TestLeaving(t *testing.T) {
	for script, wrong := range map[string]string{
		"trap 'exit 0' TERM; echo ready; while :; do :; done": "",
		"trap 'exit 4' TERM; echo ready; while :; do :; done": "exit status 4",
	} {
		f := shell(t, script)
		p := started(t, f)
		for ready := false; !ready; {
			ready = len(assert.Must(os.ReadFile(p.log))(t)) > 0
		}
		err := f.leave(p)
		assert.True(t, (err == nil) == (wrong == "") && (err == nil || strings.Contains(err.Error(), wrong)),
			"%s: %v, expected %q", script, err, wrong)
	}
}

// watched returns a client of a pipeline on an embedded broker, which has a run, and a watch of what comes.
func watched(t *testing.T) (*protocol.Client, *watch) {
	t.Helper()
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()}))(t)
	t.Cleanup(func() { assert.NoError(t, log.Close()) })
	client := protocol.NewClient(log, "test", nil)
	for _, topic := range []string{client.Topics.Plans, client.Topics.Weights} {
		assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: topic, Partitions: 1}))
	}
	publish(t, client, client.Topics.Plans, planOf(t, 1)...)
	return client, assert.Must(newWatch(t.Context(), log, "test"))(t)
}

func publish(t *testing.T, client *protocol.Client, topic string, messages ...wire.Message) {
	t.Helper()
	assert.Must(client.Log.Append(t.Context(), topic, 0, messages...))(t)
}

func plan(seed uint64) *schemas.Plan {
	stage := solve.Defaults()
	stage.Features = stages.Defaults()
	return &schemas.Plan{
		Name: "test", Spans: coverage.Spans{{To: 4}}, Foreign: true, Prepare: schemas.Prepare{Scale: stages.ScaleNone},
		Stages: []schemas.Stage{stage, stage}, Seed: seed, Segment: 2,
	}
}

func planOf(t *testing.T, seed uint64) []wire.Message {
	t.Helper()
	return assert.Must(plan(seed).Messages())(t)
}

// record is what a solver publishes for a visit; final is not nil in the record that ends a stage.
func record(kind wire.Kind, seed uint64, stage, visit int, final *schemas.Final) wire.Message {
	w := schemas.Weights{Identity: wire.Identity{Kind: kind, Run: plan(seed).Run(), Stage: stage, Visit: visit}, Final: final}
	messages, err := wire.RecordOf[float32](&w).EncodeWithin(wire.MaxMessage, memory.DefaultAllocator)
	if err != nil {
		panic(err)
	}
	return messages[0]
}

func ended(seed uint64, state string, version int) wire.Message {
	end := &schemas.End{Run: plan(seed).Run(), State: state}
	if version > 0 {
		end.Version = &schemas.Place{Run: end.Run, Version: version}
	}
	return end.Message()
}

// A watch follows the first run that is planned after it. Records of other runs and repeated records change nothing.
func TestWatchFollowsOneRun(t *testing.T) {
	client, w := watched(t)
	var following errgroup.Group
	following.Go(func() error { return w.follow(t.Context()) })
	weights, final := client.Topics.Weights, &schemas.Final{Visit: 1}
	await := func(records int) {
		t.Helper()
		there := w.await(t.Context(), records)
		w.mutex.Lock()
		defer w.mutex.Unlock()
		assert.Need(t, there && len(w.records) == records, "%d records, expected %d", len(w.records), records)
	}
	publish(t, client, client.Topics.Plans, append(planOf(t, 2), planOf(t, 3)...)...)
	await(0)
	publish(t, client, weights, record(schemas.KindWeights, 1, 4, 5, final), record(statistics.KindPrepare, 2, wire.Survey, 0, nil))
	await(1)
	publish(t, client, weights, record(statistics.KindPrepare, 2, wire.Survey, 0, nil), record(schemas.KindWeights, 2, 0, 1, nil))
	await(2)
	publish(t, client, weights, record(schemas.KindWeights, 2, 0, 2, final))
	await(3)
	publish(t, client, client.Topics.Plans, ended(1, schemas.Done, 1), ended(2, schemas.Failed, 0))
	assert.True(t, !w.await(t.Context(), 9), "await returns true after the end of the run")
	assert.NoError(t, following.Wait())
	run, end := w.state()
	assert.True(t, end.State == schemas.Failed && run == plan(2).Run(), "run %s, %+v", run, end)
}

// A watch of a chain counts the records of all of its runs, each once, and has no end of its own.
func TestWatchFollowsAChain(t *testing.T) {
	client, w := watched(t)
	defer w.plans.Close()
	w.chain = true
	plans, weights := client.Topics.Plans, client.Topics.Weights
	for _, step := range []struct {
		topic   string
		m       wire.Message
		records int
	}{
		{plans, planOf(t, 2)[0], 0},
		{weights, record(statistics.KindPrepare, 2, wire.Survey, 0, nil), 1},
		{weights, record(schemas.KindWeights, 2, 0, 1, nil), 2},
		{plans, ended(2, schemas.Done, 1), 2},
		{plans, planOf(t, 3)[0], 2},
		{weights, record(schemas.KindWeights, 3, 0, 1, nil), 3},
		{weights, record(schemas.KindWeights, 3, 0, 1, nil), 3}, // written twice
		{plans, ended(3, schemas.Done, 2), 3},
	} {
		publish(t, client, step.topic, step.m)
		d, _, err := w.plans.Deliver(t.Context(), protocol.MaxPatience)
		assert.NoError(t, err)
		w.see(d.Message.Message)
		assert.Need(t, len(w.records) == step.records && w.end == nil, "%v after %v, expected %d", w, step.m.Headers, step.records)
	}
}
