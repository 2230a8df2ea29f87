// Package topics opens the pipeline of a job, and configures its topics: their partitions, policies, retention and replicas.
//
//	Job ──Open──▶ Pipeline ──Create, CheckPolicies, ReadSettings, Apply──▶ topics
//
// A Pipeline is a client of its topics that can also administer them. The sibling packages are functions over a Pipeline.
package topics
