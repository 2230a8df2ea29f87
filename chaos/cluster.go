//go:build unix

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stagewise/stagewise/chaos/proxy"
)

const (
	nodes = 3
	// heap of a broker. These topics are small, and three brokers share the machine with all that uses them.
	heap = "256m"
	// patience is how many seconds a broker may take to start, on a machine that others keep busy.
	patience = "300"
	// advertised is how far the port of the listener that a proxy stands before is from the broker's other one (kafka.sh).
	advertised = 300
)

// cluster is brokers, each with a proxy that its clients go through.
type cluster struct {
	dir     string
	direct  []string // addresses without a proxy, for whoever is not to be disturbed
	proxies []*proxy.Proxy
}

// startCluster starts brokers in a folder, which close deletes.
func startCluster(ctx context.Context, dir string) (*cluster, error) {
	c := &cluster{dir: dir}
	var ports []string
	for range nodes {
		p, err := proxy.New()
		if err != nil {
			return c, err
		}
		c.proxies = append(c.proxies, p)
		_, port, err := net.SplitHostPort(p.Addr())
		if err != nil {
			return c, err
		}
		ports = append(ports, port)
	}
	out, err := c.kafka(ctx, "start", "--nodes", strconv.Itoa(nodes), "--port", "free", "--heap", heap, "--wait", patience, "--advertise", strings.Join(ports, ","))
	if err != nil {
		return c, err
	}
	list, ok := strings.CutPrefix(strings.TrimSpace(out), "BOOTSTRAP=")
	if c.direct = strings.Split(list, ","); !ok || len(c.direct) != nodes {
		return c, fmt.Errorf("start Kafka: %q is no list of %d brokers", out, nodes)
	}
	for i, p := range c.proxies {
		host, port, err := net.SplitHostPort(c.direct[i])
		if err != nil {
			return c, err
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			return c, fmt.Errorf("start Kafka: port of %s: %w", c.direct[i], err)
		}
		broker := net.JoinHostPort(host, strconv.Itoa(number+advertised))
		p.Serve(func() (net.Conn, error) { return net.DialTimeout("tcp", broker, time.Second) })
	}
	return c, nil
}

// addresses are what clients are told.
func (c *cluster) addresses() []string {
	var list []string
	for _, p := range c.proxies {
		list = append(list, p.Addr())
	}
	return list
}

// kill ends a broker, counted from 0, as a power cut would.
func (c *cluster) kill(ctx context.Context, node int) error {
	_, err := c.kafka(ctx, "kill", "--node", strconv.Itoa(node+1))
	return err
}

// revive starts it again, and returns when it has caught up with the others' metadata.
func (c *cluster) revive(ctx context.Context, node int) error {
	_, err := c.kafka(ctx, "revive", "--node", strconv.Itoa(node+1), "--heap", heap, "--wait", patience)
	return err
}

// logs copies what the brokers had to say to a folder.
func (c *cluster) logs(to string) error {
	files, err := filepath.Glob(filepath.Join(c.dir, "n*", "broker.log*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name := filepath.Base(filepath.Dir(file)) + "-" + filepath.Base(file)
		if err := os.WriteFile(filepath.Join(to, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// close stops the brokers and deletes their logs. It takes no context: it is what an interrupt asks for.
func (c *cluster) close() error {
	for _, p := range c.proxies {
		p.Close()
	}
	for node := range c.direct { // a clean shutdown would take seconds, and keep what is deleted next
		c.kafka(context.Background(), "kill", "--node", strconv.Itoa(node+1)) //nolint:errcheck // it may be down
	}
	_, err := c.kafka(context.Background(), "wipe")
	return err
}

// kafka calls the script that owns the brokers' processes, and answers with its output.
func (c *cluster) kafka(ctx context.Context, action string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "scripts/kafka.sh", append([]string{action, "--dir", c.dir}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // out of reach of the terminal's Ctrl-C
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kafka.sh %s: %w: %s", action, err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
