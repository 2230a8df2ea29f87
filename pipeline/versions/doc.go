// Package versions pins and removes versions.
//
//	version ──Pin, Unpin, RemoveVersions──▶ plans topic, versions topic
package versions
