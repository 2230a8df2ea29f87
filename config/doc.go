// Package config reads a YAML file, the environment and the command line into the checked options of a run, or lists
// everything that is wrong with them.
//
// The keys are the fields of [Config]. The code that a key sets declares it, checks its value and documents its meaning.
// Later sources replace earlier ones: the defaults, the file, environment variables (STAGEWISE_ and the key in capitals,
// with underscores for dots), settings of the command line (key=value). A mapping is replaced key by key, a list as a
// whole. The number of a stage, from 0, names one stage of the list, as in stages.0.passes. A password comes from the
// environment or from a file of its own, and no message shows it.
//
// docs/configuration.md lists the keys.
package config
