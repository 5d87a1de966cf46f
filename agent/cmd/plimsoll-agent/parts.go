package main

import (
	"context"
	"log/slog"

	"plimsoll.dev/agent/act"
	"plimsoll.dev/agent/collect"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"
)

// parts is what the configuration asks for.
type parts struct {
	sources  []collect.Source // the first one is the cluster
	actuator act.Actuator     // nil: nothing can be changed
	hello    *agentv1.Hello
	closers  []func()
}

func (p *parts) close() {
	for _, f := range p.closers {
		f()
	}
}

// build makes sources and actuator. The node role reads GPUs only.
func build(ctx context.Context, cfg Config, role string, log *slog.Logger) (*parts, error) {
	p := &parts{hello: &agentv1.Hello{}}
	if cfg.Sources.Sim.URL != "" && role == "controller" {
		p.sources = append(p.sources, collect.NewSim(cfg.Sources.Sim.URL))
		p.actuator = act.NewSim(cfg.Sources.Sim.URL)
		p.hello.Capabilities = append(p.hello.Capabilities, "sim", "scale")
	}
	return p, nil
}
