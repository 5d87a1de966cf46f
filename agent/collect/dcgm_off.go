//go:build !dcgm

package collect

import "errors"

// NewDCGM says that this build cannot read GPUs through NVIDIA's library: it needs the build tag dcgm and cgo.
func NewDCGM(DCGMConfig) (Source, func(), error) {
	return nil, nil, errors.New("this agent was built without DCGM (build tag dcgm); scrape a dcgm-exporter instead")
}
