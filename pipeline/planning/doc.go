// Package planning makes the plan of a run from a job, the current contents of the examples topic, and the arithmetic of this process.
//
//	Job, sealed sources, Forgotten ──Plan──▶ schemas.Plan
package planning
