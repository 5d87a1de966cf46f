// Package expander is what Cluster Autoscaler asks of an external expander, generated from expander.proto. It holds no code of ours.
package expander
