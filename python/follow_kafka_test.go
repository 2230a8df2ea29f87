//go:build kafka

package python

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/pipeline"
)

// kafka returns the addresses of brokers.
func kafka(t *testing.T) string {
	t.Helper()
	addresses := os.Getenv("STAGEWISE_KAFKA")
	if addresses == "" {
		t.Fatal("STAGEWISE_KAFKA is not set: start Kafka with make kafka-up, which prints the value")
	}
	return addresses
}

// A follower in Python has each version that counts, as its file has it: of every link, with trees, of chains, pinned, and of topics that
// are made anew. A version that was removed goes.
func TestKafkaPythonFollows(t *testing.T) {
	brokers, p := kafka(t), newPython(t)
	name := fmt.Sprintf("python-%d", time.Now().UnixNano())
	configure := p.pipeline(brokers, name)
	stage := options{"features": options{"size": 64}, "passes": 3, "ridge": 1e-3}
	first := configure("first.yaml", options{"stages": []options{stage}})
	calibrated := configure("calibrated.yaml", options{"stages": []options{stage, {"features": options{"size": 32},
		"link": "calibrated", "scores": true, "passes": 3}}})
	chain := configure("chain.yaml", options{"stages": []options{stage, stage}, "retrain": options{"rows": 200}})

	f := p.follow(brokers, name)
	f.ask("error", "run stagewise train first, or check name and brokers")
	p.stagewise("train", "-c", first)
	defer func() { p.stagewise("topics", "delete", "-c", first, "--yes") }()
	f.awaitModel(1, first)
	p.stagewise("train", "-c", calibrated)
	f.awaitModel(2, calibrated)
	p.stagewise("weights", "pin", "-c", first, "1")
	f.ask("version", 1)
	p.stagewise("weights", "pin", "-c", first, "--off")
	f.ask("version", 2)
	p.stagewise("weights", "remove", "-c", first, "2", "--even-latest")
	f.ask("version", 1)
	var report pipeline.Retraining
	if err := json.Unmarshal(p.execute(p.folder, p.program, "run", "-c", chain, "--until", "end", "--report", "-"), &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Updates) < 5 {
		t.Fatalf("a chain of %d versions", len(report.Updates))
	}
	f.awaitModel(report.Updates[len(report.Updates)-1].Version, chain)
	p.stagewise("topics", "delete", "-c", first, "--yes")
	p.stagewise("train", "-c", first)
	f.awaitModel(1, first)

	trees := options{"features": options{"kind": "trees", "size": 64, "leaves": 8}}
	grown := configure("trees.yaml", options{"stages": []options{trees, stage}, "retrain": options{"rows": 400}})
	p.stagewise("train", "-c", grown)
	f.awaitModel(2, grown)
	if err := json.Unmarshal(p.execute(p.folder, p.program, "run", "-c", grown, "--until", "end", "--report", "-"), &report); err != nil {
		t.Fatal(err)
	}
	f.awaitModel(report.Updates[len(report.Updates)-1].Version, grown)
}

// The programs of the package's page work as they are written, but for the address of the brokers.
func TestKafkaPythonPage(t *testing.T) {
	brokers, p := kafka(t), newPython(t)
	name := fmt.Sprintf("flowers-%d", time.Now().UnixNano())
	p.writeRows("new.csv", 200)
	p.write("flowers.yaml", fmt.Sprintf("name: %s\nbrokers: [%s]\nexamples: {train: [new.csv], label: kind, categorical: "+
		"[colour], missing: mean}\nstages: [{features: {size: 64}}]\n", name, brokers))
	p.stagewise("train", "-c", "flowers.yaml", "--model", "flowers.model")
	defer p.stagewise("topics", "delete", "-c", "flowers.yaml", "--yes")
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("localhost:9092", brokers, `"flowers"`, strconv.Quote(name)).Replace(string(page))
	programs := regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(text, -1)
	for _, program := range programs {
		if out := string(p.execute(p.folder, p.interpreter, "-c", program[1])); !strings.Contains(out, "'iris'") {
			t.Errorf("%s\nwrote\n%s", program[1], out)
		}
	}
	if len(programs) != 2 {
		t.Errorf("the page has %d programs", len(programs))
	}
}
