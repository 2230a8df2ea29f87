package kafkalog

import (
	"context"
	"fmt"
	"slices"

	"github.com/segmentio/kafka-go"
)

// Configure changes settings of an existing topic, by Kafka's names. Other settings are not changed.
func (l *Log) Configure(ctx context.Context, topic string, settings map[string]string) error {
	resource := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}
	for name, value := range settings {
		resource.Configs = append(resource.Configs, kafka.IncrementalAlterConfigsRequestConfig{
			Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet,
		})
	}
	request := &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{resource}}
	err := l.retryOn(ctx, topic, "change the settings of "+topic, func(ctx context.Context) error {
		response, err := l.client.IncrementalAlterConfigs(ctx, request)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(response.Resources, func(r kafka.IncrementalAlterConfigsResponseResource) bool { return r.Error != nil })
		if i >= 0 {
			return response.Resources[i].Error
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("change the settings of %s: %w", topic, err)
	}
	return nil
}
