//go:build python

package python

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// While brokers fail, a follower in Python keeps its model and says why it knows nothing. Then it goes on.
func TestPythonOutlivesTrouble(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	p, brokers := newPython(t), strings.Join(cluster.ListenAddrs(), ",")
	configuration := p.pipeline(brokers, "p")("p.yaml", options{"stages": []options{{"features": options{"size": 64}, "passes": 2}}})
	f := p.follow(brokers, "p")
	if a := f.ask("error", "run stagewise train first, or check name and brokers"); a.Version != 0 {
		t.Errorf("before there are topics the follower has version %d, and says %q", a.Version, a.Error)
	}
	p.run("-c", troubles, brokers)
	p.stagewise("train", "-c", configuration)
	f.awaitModel(1, configuration)
	outage := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets, kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: -1})
	if a := f.ask("error", "p.plans"); a.Version != 1 {
		t.Errorf("the follower has version %d, and says %q", a.Version, a.Error)
	}
	outage.Remove()
	p.stagewise("train", "-c", configuration)
	f.awaitModel(2, configuration)
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
with t.assertRaisesRegex(ValueError, "security.sasl.mechanism: .*: expected"):
    stagewise.follow(sys.argv[1], "p", security={"sasl": {"mechanism": "NONE"}})
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
