// Package config turns a YAML file, the environment and the command line into the options of a run, all checked, or into
// the list of everything that is wrong with them.
//
// The keys are the fields of [Config]; each option is declared, and its values are checked, beside the code that it sets.
// What is said later replaces what was said before: the defaults, the file, variables of the environment (STAGEWISE_ and
// the key, dots as underscores), settings (key=value). Mappings are replaced key by key, lists whole, and one stage of the
// list is reached by its number from 0, as in stages.0.passes. A secret is taken from the environment alone, and never shown.
// docs/configuration.md lists the keys.
package config
