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
)

const (
	nodes = 3
	// heap is the JVM heap of a broker. The topics are small, and three brokers share the machine with all their clients.
	heap = "256m"
	// startTimeout is how many seconds a broker may take to start on a busy machine.
	startTimeout = "300"
	// proxiedOffset is the distance from a broker's port to the port of the listener behind its proxy (kafka.sh, --advertise).
	proxiedOffset = 300
)

// cluster is Kafka brokers, each with a proxy between it and its clients.
type cluster struct {
	dir     string
	direct  []string // the brokers' addresses without proxies, for connections that faults must not reach
	proxies []*proxy
}

// startCluster starts brokers whose data are in a folder, which close deletes. Also call close after an error.
func startCluster(ctx context.Context, dir string) (*cluster, error) {
	c := &cluster{dir: dir}
	var ports []string
	for range nodes {
		p, err := newProxy()
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
	// Brokers look every five minutes whether something has expired, which is longer than examples stay in some runs.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return c, err
	}
	if err := os.WriteFile(filepath.Join(dir, "extra.properties"), []byte("log.retention.check.interval.ms=5000\n"), 0o644); err != nil {
		return c, err
	}
	out, err := c.kafka(ctx, "start", "--nodes", strconv.Itoa(nodes), "--port", "free", "--heap", heap, "--wait", startTimeout,
		"--advertise", strings.Join(ports, ","))
	if err != nil {
		return c, err
	}
	list, ok := strings.CutPrefix(strings.TrimSpace(out), "BOOTSTRAP=")
	if c.direct = strings.Split(list, ","); !ok || len(c.direct) != nodes {
		return c, fmt.Errorf("start Kafka: got %q, want %d addresses", out, nodes)
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
		broker := net.JoinHostPort(host, strconv.Itoa(number+proxiedOffset))
		p.Serve(func() (net.Conn, error) { return net.DialTimeout("tcp", broker, time.Second) })
	}
	return c, nil
}

// addresses returns the proxies' addresses, which clients connect to.
func (c *cluster) addresses() []string {
	var list []string
	for _, p := range c.proxies {
		list = append(list, p.Addr())
	}
	return list
}

// kill kills the process of a broker (0 is the first) with SIGKILL.
func (c *cluster) kill(ctx context.Context, node int) error {
	_, err := c.kafka(ctx, "kill", "--node", strconv.Itoa(node+1))
	return err
}

// revive starts a killed broker again, and returns when it has caught up with the cluster's metadata.
func (c *cluster) revive(ctx context.Context, node int) error {
	_, err := c.kafka(ctx, "revive", "--node", strconv.Itoa(node+1), "--heap", heap, "--wait", startTimeout)
	return err
}

// logs copies the brokers' log files to a folder.
func (c *cluster) logs(to string) error {
	if c.dir == "" {
		return nil
	}
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

// close kills the brokers and deletes their data. It has no context, because it must also run after an interrupt.
func (c *cluster) close() error {
	if c.dir == "" {
		return nil // none was started
	}
	for _, p := range c.proxies {
		p.Close()
	}
	for node := range c.direct { // a clean shutdown would take seconds to save data that is deleted next
		c.kafka(context.Background(), "kill", "--node", strconv.Itoa(node+1)) //nolint:errcheck // the broker may be down already
	}
	_, err := c.kafka(context.Background(), "wipe")
	return err
}

// kafka runs scripts/kafka.sh, which owns the brokers' processes, and returns its output.
func (c *cluster) kafka(ctx context.Context, action string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "scripts/kafka.sh", append([]string{action, "--dir", c.dir}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that the terminal's Ctrl-C does not reach it
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kafka.sh %s: %w: %s", action, err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
