// Package admin makes the changes to a pipeline that an operator asks for: it pins and removes versions, and excludes rows from
// all future training.
//
//	version ──Pin, Unpin, RemoveVersions──▶ plans topic, versions topic
//	ToForget ──Forget──▶ forget topic; versions trained on the rows go
package admin
