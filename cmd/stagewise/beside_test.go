package main

import (
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// A command beside a process that has the embedded broker says what to type, and that works.
func TestCommandsBesideTheEmbeddedBroker(t *testing.T) {
	long(t)
	free := valueOf(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := free.Addr().String()
	noError(t, free.Close())
	inFolder(t, map[string]string{"good.yaml": good + "listen: " + address + "\n", "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	report := trained(t)
	list := []string{"weights", "list", "-c", "good.yaml"}
	for listen, want := range map[string]string{
		"":      `: the embedded broker serves a single process. Restart that process with --set listen=127.0.0.1:9092, and connect this one`,
		address: `: its broker listens; connect to it with (--set) (brokers=` + address + `)\n`,
	} {
		log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise", Listen: listen}))(t)
		var all sync.WaitGroup
		for _, args := range [][]string{list, {"page", "-c", "good.yaml"}, {"serve", "-c", "good.yaml"}, {"runs", "list", "-c", "good.yaml"}} {
			all.Go(func() {
				code, _, stderr := stagewise(args...)
				typed := regexp.MustCompile(want).FindStringSubmatch(stderr)
				if code != exitFailed || !strings.Contains(stderr, "data directory .stagewise is in use by process") || typed == nil {
					t.Errorf("%q beside a process that listens on %q: exit code %d: %s", args, listen, code, stderr)
					return
				}
				if len(typed) > 1 && args[0] == list[0] {
					if code, stdout, stderr := stagewise(append(list, typed[1:]...)...); code != exitDone || !strings.Contains(stdout, report.Run) {
						t.Errorf("exit code %d: %s%s", code, stdout, stderr)
					}
				}
			})
		}
		all.Wait()
		noError(t, log.Close())
	}
}
