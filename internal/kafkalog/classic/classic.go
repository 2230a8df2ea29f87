// Package classic implements Kafka's classic consumer group protocol, in which a member chosen by the coordinator assigns
// the partitions: see "Classic Consumer Group Protocol" in Kafka's documentation, and KIP-394 for member ids.
//
// It replaces kafka-go's ConsumerGroup, which keeps a connection to the coordinator for the whole membership.
package classic

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/leavegroup"
	"github.com/segmentio/kafka-go/protocol/syncgroup"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerTime is the time that the coordinator may take to respond, in addition to the time that it waits for other
// members.
const answerTime = 5 * time.Second

// Group is a consumer group for the partitions of one topic.
type Group struct {
	ID, Topic string
	// Protocol is the name of the assignor. The coordinator rejects members whose protocol differs from that of the others.
	Protocol string
	// Session is the session timeout, also used as the rebalance timeout: a member that does not rejoin within it has also
	// missed its heartbeats.
	Session time.Duration
	// Send sends a request to the group's coordinator.
	Send func(ctx context.Context, request kafka.Request) (kafka.Response, error)
}

// Generation is a generation of the group, from the point of view of a member.
type Generation struct {
	Number     int32
	Member     string // the member's id
	Partitions []int
}

// Join joins a group, or rejoins it with the member id that the coordinator has assigned, and waits until the other
// members have joined. claim is sent to the group leader. If this member is the leader, divide receives the claims of all
// members by member id, and returns the partitions of each.
//
// The member id is also returned with an error, and is empty if the coordinator has forgotten it.
func (g Group) Join(ctx context.Context, member string, claim []byte, divide func(claims map[string][]byte) (map[string][]int, error)) (
	generation Generation, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, 2*g.Session+answerTime) // the others join, and then the leader assigns
	defer cancel()
	joined, member, err := g.join(ctx, member, claim)
	if err != nil {
		return Generation{Member: member}, err
	}
	generation = Generation{Number: joined.GenerationID, Member: member}
	request := &syncgroup.Request{GroupID: g.ID, GenerationID: joined.GenerationID, MemberID: member}
	if joined.LeaderID == member {
		if request.Assignments, err = g.divide(joined, divide); err != nil {
			return generation, err
		}
	}
	message, err := g.Send(ctx, request)
	if err != nil {
		return generation, err
	}
	answer := message.(*syncgroup.Response)
	if answer.ErrorCode != 0 {
		return Generation{Member: g.remembered(member, answer.ErrorCode)}, kafka.Error(answer.ErrorCode)
	}
	generation.Partitions, err = g.assigned(answer.Assignments)
	return generation, err
}

// join sends JoinGroup requests until the coordinator has assigned an id.
func (g Group) join(ctx context.Context, member string, claim []byte) (*joingroup.Response, string, error) {
	metadata := kmsg.NewConsumerMemberMetadata()
	metadata.Topics, metadata.UserData = []string{g.Topic}, claim
	milliseconds := int32(g.Session.Milliseconds())
	for given := false; ; given = true {
		message, err := g.Send(ctx, &joingroup.Request{
			GroupID: g.ID, MemberID: member, SessionTimeoutMS: milliseconds, RebalanceTimeoutMS: milliseconds, ProtocolType: "consumer",
			Protocols: []joingroup.RequestProtocol{{Name: g.Protocol, Metadata: metadata.AppendTo(nil)}},
		})
		if err != nil {
			return nil, member, err
		}
		answer := message.(*joingroup.Response)
		switch code := kafka.Error(answer.ErrorCode); {
		case code == kafka.MemberIDRequired && !given:
			member = answer.MemberID
		case code != 0:
			return nil, g.remembered(member, answer.ErrorCode), code
		default:
			return answer, answer.MemberID, nil
		}
	}
}

// remembered returns a member's id after an error: none if the coordinator has forgotten it.
func (g Group) remembered(member string, code int16) string {
	switch kafka.Error(code) {
	case kafka.UnknownMemberId, kafka.FencedInstanceID:
		return ""
	}
	return member
}

// divide assigns the partitions as the leader of the group. All members get an assignment, even without partitions.
func (g Group) divide(joined *joingroup.Response, divide func(map[string][]byte) (map[string][]int, error)) (
	assignments []syncgroup.RequestAssignment, err error,
) {
	claims := map[string][]byte{}
	for _, m := range joined.Members {
		metadata := kmsg.NewConsumerMemberMetadata()
		// kafka-go's members omit their owned partitions, although they announce version 1. The fields before these are still
		// decoded.
		_ = metadata.ReadFrom(m.Metadata)
		claims[m.MemberID] = metadata.UserData
	}
	shares, err := divide(claims)
	if err != nil {
		return nil, err
	}
	for member := range claims {
		topic := kmsg.NewConsumerMemberAssignmentTopic()
		topic.Topic = g.Topic
		for _, p := range shares[member] {
			topic.Partitions = append(topic.Partitions, int32(p))
		}
		assignment := kmsg.NewConsumerMemberAssignment()
		assignment.Topics, assignment.UserData = append(assignment.Topics, topic), []byte{}
		assignments = append(assignments, syncgroup.RequestAssignment{MemberID: member, Assignment: assignment.AppendTo(nil)})
	}
	return assignments, nil
}

// assigned decodes the assignment of a member.
func (g Group) assigned(encoded []byte) (partitions []int, err error) {
	if len(encoded) == 0 { // an empty assignment
		return nil, nil
	}
	assignment := kmsg.NewConsumerMemberAssignment()
	if err := assignment.ReadFrom(encoded); err != nil {
		return nil, fmt.Errorf("decode the assignment of a member of group %s: %w", g.ID, err)
	}
	for _, t := range assignment.Topics {
		if t.Topic != g.Topic {
			continue
		}
		for _, p := range t.Partitions {
			partitions = append(partitions, int(p))
		}
	}
	return partitions, nil
}

// Leave leaves the group. The coordinator may already have removed the member.
func (g Group) Leave(ctx context.Context, member string) error {
	message, err := g.Send(ctx, &leavegroup.Request{GroupID: g.ID, MemberID: member, Members: []leavegroup.RequestMember{{MemberID: member}}})
	if err != nil {
		return err
	}
	if code := kafka.Error(message.(*leavegroup.Response).ErrorCode); code != 0 && !errors.Is(code, kafka.UnknownMemberId) {
		return code
	}
	return nil
}
