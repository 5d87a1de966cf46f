package main

import (
	"strings"
	"testing"
)

func TestConfigOfDrainsAndWarmPools(t *testing.T) {
	t.Parallel()
	c, err := load(t, fullConfig+"drain: {enabled: true}\nwarmPools: {enabled: true, namespace: plimsoll, priorityClass: warm, image: pause}\n")
	if err != nil || c.Drain.OnNotice != "drain" || c.Drain.OnOthers != "checkpoint" || c.WarmPools.Max != defaultWarm {
		t.Fatalf("%+v %+v: %v", c.Drain, c.WarmPools, err)
	}
	for text, want := range map[string]string{
		"drain: {onNotice: kill}\n":    "drain.onNotice",
		"drain: {onOthers: evict}\n":   "drain.onOthers",
		"warmPools: {enabled: true}\n": "needs namespace",
		"warmPools: {enabled: true, namespace: a, priorityClass: b, image: c, max: -1}\n": "warmPools.max",
	} {
		if _, err := load(t, fullConfig+text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := load(t, "endpoint: http://a\nstateDir: /s\ndrain: {enabled: true}\n"); err == nil || !strings.Contains(err.Error(), "sources.kubernetes") {
		t.Errorf("drains without a cluster: %v", err)
	}
}
