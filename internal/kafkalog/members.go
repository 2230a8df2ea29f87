package kafkalog

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go"
)

// embeddedCluster is the id of the cluster that an embedded broker says it is.
const embeddedCluster = "stagewise-embedded"

// IsEmbedded reports whether the broker is the embedded one of a process: of this one, or of another that listens.
func (l *Log) IsEmbedded(ctx context.Context) (is bool, err error) {
	if l.Embedded() {
		return true, nil
	}
	err = l.retry(ctx, "ask which cluster it is", func(ctx context.Context) error {
		found, err := l.metadata(ctx, []string{})
		is = err == nil && found.ClusterID == embeddedCluster
		return err
	})
	return is, err
}

// Members returns the hosts of the members of a consumer group as its coordinator knows them, one for each member, in order. A group
// that does not exist has none.
func (l *Log) Members(ctx context.Context, group string) (hosts []string, err error) {
	err = l.retry(ctx, "describe group "+group, func(ctx context.Context) error {
		hosts = nil
		response, err := l.client.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
		if err != nil {
			return err
		}
		for _, g := range response.Groups {
			if g.Error != nil {
				return g.Error
			}
			for _, m := range g.Members {
				hosts = append(hosts, hostOf(m.ClientHost))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("describe group %s: %w", group, err)
	}
	slices.Sort(hosts)
	return hosts, nil
}

// hostOf returns the host in what a broker says about a client. Kafka's has a slash before it, as Java prints addresses, the embedded
// broker's a port behind it.
func hostOf(client string) string {
	client = strings.TrimPrefix(client, "/")
	if host, _, err := net.SplitHostPort(client); err == nil {
		return host
	}
	return client
}
