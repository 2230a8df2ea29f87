// Package draft writes a first configuration for a table:
//
//	a table's profile ──Of──▶ Draft ──Configuration──▶ commented YAML that trains as it is
//	                                └─Describe───────▶ a table for the screen: what was found, and why
package draft
