package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
)

func TestReplayChaosPlaysWhatIsNamed(t *testing.T) {
	t.Parallel()
	var out, problems bytes.Buffer
	if err := replayCommand(context.Background(), []string{"chaos", "-scenario", "cap", "-policy", "queue", "-json"}, &out, &problems); err != nil {
		t.Fatal(err, problems.String())
	}
	var got struct {
		Results []struct {
			Scenario, Policy string
			Pass             bool
			Most             int `json:"most_replicas"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Results) != 1 || got.Results[0].Scenario != "cap" || !got.Results[0].Pass || got.Results[0].Most != 24 {
		t.Errorf("got %+v", got.Results)
	}
	out.Reset()
	if err := replayCommand(context.Background(), []string{"chaos", "-list"}, &out, &problems); err != nil || !strings.Contains(out.String(), "mass-reclaim") {
		t.Errorf("list: %v\n%s", err, out.String())
	}
	if err := replayCommand(context.Background(), []string{"chaos", "-scenario", "no-such"}, &out, &problems); err == nil {
		t.Error("an unknown scenario is played")
	}
}

func TestStormsArePrinted(t *testing.T) {
	var out, problems bytes.Buffer
	if err := replayCommand(context.Background(), []string{"chaos", "-storms"}, &out, &problems); err != nil || !strings.Contains(out.String(), "back-off ladder") {
		t.Errorf("%v: %s", err, out.String())
	}
}
