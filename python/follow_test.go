//go:build python

package python

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/assert"
)

// cluster returns a broker, which ends with the test.
func cluster(t *testing.T) *kfake.Cluster {
	t.Helper()
	c := assert.Must(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(c.Close)
	return c
}

// While brokers fail, a follower in Python keeps its model and says why it knows nothing. Then it goes on.
func TestPythonOutlivesTrouble(t *testing.T) {
	cluster := cluster(t)
	p, brokers := newPython(t), strings.Join(cluster.ListenAddrs(), ",")
	configuration := p.pipeline(brokers, "p")("p.yaml", options{"stages": []options{{"features": options{"size": 64}, "passes": 2}}})
	f := p.follow(brokers, "p")
	a := f.ask("error", "run stagewise train first, or check name and brokers")
	assert.True(t, a.Version == 0, "before there are topics the follower has version %d, and says %q", a.Version, a.Error)
	p.run("-c", troubles, brokers)
	p.stagewise("train", "-c", configuration)
	f.awaitModel(1, configuration)
	outage := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets, kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: -1})
	a = f.ask("error", "p.plans")
	assert.True(t, a.Version == 1, "the follower has version %d, and says %q", a.Version, a.Error)
	outage.Remove()
	p.stagewise("train", "-c", configuration)
	f.awaitModel(2, configuration)
	p.stagewise("weights", "remove", "-c", configuration, "2", "--even-latest")
	f.ask("version", 1)
}

// troubles is a program that follows what is not there.
const troubles = `import stagewise, sys, unittest
t = unittest.TestCase()
for brokers, name, timeout, kind, text in (
    (sys.argv[1], "p", 60, stagewise.BrokersError, "p.plans.*; run stagewise train first, or check name and brokers"),
    ("127.0.0.1:1", "p", 0.3, TimeoutError, "no version after 0.3 seconds: reach Kafka at 127.0.0.1:1: .*connection refused"),
    (sys.argv[1], "p q", 60, ValueError, "^name: .p q.: expected"),
    ("localhost", "p", 60, ValueError, "expected host:port"),
):
    with t.assertRaisesRegex(kind, text):
        stagewise.follow(brokers, name, timeout=timeout)
for mechanism in ("NONE", "\U0001f600"):
    with t.assertRaisesRegex(ValueError, "security.sasl.mechanism: .*: expected"):
        stagewise.follow(sys.argv[1], "p", security={"sasl": {"mechanism": mechanism}})
with stagewise.follow("127.0.0.1:1", "p", timeout=0) as follower:
    t.assertRegex(str(follower.status().error), "connection refused")
    t.assertRegex(follower.stale(), "there is no version: reach Kafka at 127.0.0.1:1")
    with t.assertRaises(ConnectionError):
        follower.predict([[1]])
with stagewise.follow(sys.argv[1], "p", timeout=0) as follower:
    with t.assertRaises(stagewise.NoVersionError):
        follower.predict([[1]])
with t.assertRaises(stagewise.NoVersionError):
    follower.predict([[1]])`

// The programs of the package's page work as they are written, but for the address of the brokers.
func TestPythonPage(t *testing.T) {
	p, brokers := newPython(t), strings.Join(cluster(t).ListenAddrs(), ",")
	p.writeRows("new.csv", 200)
	p.write("flowers.yaml", fmt.Sprintf("name: flowers\nbrokers: [%s]\nexamples: {train: [new.csv], label: kind, categorical: "+
		"[colour], missing: mean}\nstages: [{features: {size: 64}}]\n", brokers))
	p.stagewise("train", "-c", "flowers.yaml", "--model", "flowers.model")
	page := assert.Must(os.ReadFile("README.md"))(t)
	text := strings.ReplaceAll(string(page), "localhost:9092", brokers)
	programs := regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(text, -1)
	for _, program := range programs {
		out := string(p.execute(p.folder, p.interpreter, "-c", program[1]))
		assert.True(t, strings.Contains(out, "'iris'"), "%s\nwrote\n%s", program[1], out)
	}
	assert.True(t, len(programs) == 2, "the page has %d programs", len(programs))
}

// follower is a process that follows a pipeline in Python. tests/follower.py says what it can be told.
type follower struct {
	*python
	in  io.Writer
	out *bufio.Scanner
}

// answer is what a follower says.
type answer struct {
	Version int
	Same    bool
	Error   string
}

// follow starts a follower, which ends with the test.
func (p *python) follow(brokers, name string) *follower {
	p.Helper()
	command := exec.Command(p.interpreter, "tests/follower.py", brokers, name)
	command.Env = p.environment()
	command.Stderr = os.Stderr
	in := assert.Must(command.StdinPipe())(p)
	out := assert.Must(command.StdoutPipe())(p)
	assert.NoError(p, command.Start())
	p.Cleanup(func() {
		_ = in.Close() // ends the follower
		assert.Fails(p, command.Wait(), nil)
	})
	return &follower{p, in, bufio.NewScanner(out)}
}

// ask tells the follower to wait for something, and returns what it says then.
func (f *follower) ask(what ...any) (a answer) {
	f.Helper()
	assert.Must(fmt.Fprintln(f.in, what...))(f)
	assert.Need(f, f.out.Scan(), "the follower has ended, before %v", what)
	assert.NoError(f, json.Unmarshal(f.out.Bytes(), &a))
	return a
}

// awaitModel waits until the follower predicts as a version does that is written to a file.
func (f *follower) awaitModel(version int, configuration string) {
	f.Helper()
	file := filepath.Join(f.folder, fmt.Sprint(version, ".model"))
	f.stagewise("weights", "export", "-c", configuration, "--version", fmt.Sprint(version), "-o", file)
	assert.True(f, f.ask("version", version, file).Same, "version %d is another model than that of its file", version)
}

// pipeline returns a function that writes configurations of a pipeline, with some keys.
func (p *python) pipeline(brokers, name string) func(file string, o options) string {
	p.Helper()
	digits := assert.Must(filepath.Abs("../examples/digits/digits-train.csv.gz"))(p)
	return func(file string, o options) string {
		p.Helper()
		whole := options{
			"name": name, "brokers": strings.Split(brokers, ","),
			"examples": options{"train": []string{digits}, "format": "csv", "label": 0, "batch_rows": 64, "partitions": 2},
		}
		for key, value := range o {
			whole[key] = value
		}
		p.write(file, string(assert.Must(json.Marshal(whole))(p)))
		return file
	}
}
