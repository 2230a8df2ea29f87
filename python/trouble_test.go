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
	p.stagewise("train", "-c", configuration)
	f := p.follow(brokers, "p")
	f.awaitModel(1, configuration)
	outage := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets, kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: -1})
	if a := f.ask("error"); a.Version != 1 || !strings.Contains(a.Error, "topic p.plans") {
		t.Errorf("the follower has version %d, and says %q", a.Version, a.Error)
	}
	outage.Remove()
	p.stagewise("train", "-c", configuration)
	f.awaitModel(2, configuration)
}
