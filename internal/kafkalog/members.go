package kafkalog

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// IsEmbedded reports whether the broker is embedded in a process: this one, or another one with a listener.
func (l *Log) IsEmbedded(ctx context.Context) (is bool, err error) {
	if l.Embedded() {
		return true, nil
	}
	err = l.retry(ctx, "", "ask which cluster it is", func(ctx context.Context) error {
		found, err := l.metadata(ctx, []string{})
		is = err == nil && found.ClusterID != nil && *found.ClusterID == clusterID
		return err
	})
	return is, err
}

// Owner is a member of a consumer group with its partitions.
type Owner struct {
	ID         string // member id assigned by the coordinator
	Host       string
	Partitions []int // ascending; nil before the first assignment
}

// Owners returns the members of a consumer group from its coordinator, ordered by host. A group that does not exist has
// none.
func (l *Log) Owners(ctx context.Context, group string) (owners []Owner, err error) {
	err = l.retry(ctx, "", "describe group "+group, func(ctx context.Context) error {
		owners = nil
		at, err := l.coordinator(ctx, group)
		if err != nil {
			return err
		}
		request := kmsg.NewPtrDescribeGroupsRequest()
		request.Groups = []string{group}
		response, err := send[*kmsg.DescribeGroupsResponse](ctx, l, at, request)
		if err != nil {
			return err
		}
		for _, g := range response.Groups {
			if err := failure(g.ErrorCode); err != nil {
				return err
			}
			for _, m := range g.Members {
				o := Owner{ID: m.MemberID, Host: hostOf(m.ClientHost)}
				if o.Partitions, err = decodeAssignment(m.MemberAssignment); err != nil {
					return err
				}
				owners = append(owners, o)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(owners, func(a, b Owner) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.ID, b.ID)) })
	return owners, nil
}

// Members returns the hosts of the members of a consumer group, one for each member, in order: see [Log.Owners].
func (l *Log) Members(ctx context.Context, group string) (hosts []string, err error) {
	owners, err := l.Owners(ctx, group)
	for _, o := range owners {
		hosts = append(hosts, o.Host)
	}
	return hosts, err
}

// hostOf returns the host in a broker's description of a client. Kafka has a slash before it, as Java prints addresses,
// and the embedded broker a port after it.
func hostOf(client string) string {
	client = strings.TrimPrefix(client, "/")
	if host, _, err := net.SplitHostPort(client); err == nil {
		return host
	}
	return client
}
