package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"plimsoll.dev/agent/uplink"
	agentv1 "plimsoll.dev/services/wire/plimsoll/agent/v1"

	"google.golang.org/protobuf/proto"
)

const (
	reportAgain = 5 * time.Second
	// The service takes a thousand results, and four MiB, in one report.
	resultsAtOnce = 500
	resultBytes   = 1 << 20
	maxOwed       = 64 // plans whose results wait for room in the spool
)

// runPlans settles what a former life left open, then applies plans as they come. Results that the spool does not take are told later.
func (a *agent) runPlans(ctx context.Context) error {
	a.waitForCluster(ctx)
	var owed [][]*agentv1.ActionResult
	for _, results := range a.actor.Recover(ctx) {
		owed = a.answer(owed, results)
	}
	t := time.NewTicker(reportAgain)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			a.answer(owed, nil)
			return nil
		case p := <-a.plans:
			owed = a.answer(owed, a.actor.Apply(ctx, p))
		case <-t.C:
			owed = a.answer(owed, nil)
		}
	}
}

// answer reports what is owed and what came, oldest first, and returns what is still owed: one that the spool does not take keeps no other back. Beyond the bound the oldest
// are left to the next start, which reads them from the journal.
func (a *agent) answer(owed [][]*agentv1.ActionResult, results []*agentv1.ActionResult) [][]*agentv1.ActionResult {
	if len(results) > 0 {
		owed = append(owed, results)
	}
	var still [][]*agentv1.ActionResult
	for _, results := range owed {
		if a.report(results) != nil {
			still = append(still, results)
		}
	}
	return still[max(len(still)-maxOwed, 0):]
}

// report puts the results of a plan into the spool and then notes that they are there.
func (a *agent) report(results []*agentv1.ActionResult) error {
	if len(results) == 0 {
		return nil
	}
	plan := results[0].GetPlanId()
	err := a.tellResults(results)
	if err == nil {
		err = a.actor.Reported(plan)
	}
	if err != nil {
		a.log.Error("results are kept, and told later", "plan", plan, "error", err)
	}
	return err
}

// tellResults puts results into the spool, as many reports as it takes, and returns when they are safe there. It notes nothing about their plan.
func (a *agent) tellResults(results []*agentv1.ActionResult) error {
	for _, r := range results {
		clean(&r.Error, &r.BeforeSpec, &r.AfterSpec, &r.ErrorCode)
		for i := range r.Writers {
			clean(&r.Writers[i])
		}
		for _, c := range r.GetCheckpoints() {
			clean(&c.Detail)
		}
	}
	for len(results) > 0 {
		n, size := 0, 0
		for n < len(results) && n < resultsAtOnce {
			if size += proto.Size(results[n]); n > 0 && size > resultBytes {
				break
			}
			n++
		}
		_, err := a.spool.Append(&agentv1.Report{AtMs: a.clock.NowMS(), Body: &agentv1.Report_Results{Results: &agentv1.ActionResults{Results: results[:n]}}})
		if errors.Is(err, uplink.ErrTooLarge) { // one alone
			short := shortened(results[0])
			if proto.Size(short) > resultBytes {
				a.log.Error("a result is too long to be told", "plan", short.GetPlanId())
				results = results[1:]
				continue
			}
			results[0] = short
			continue
		}
		if err != nil {
			return fmt.Errorf("spool results: %w", err)
		}
		results = results[n:]
	}
	return a.spool.Sync()
}

// shortened is a result without what may be long: that an action ended is told in any case.
func shortened(r *agentv1.ActionResult) *agentv1.ActionResult {
	return &agentv1.ActionResult{ActionId: r.GetActionId(), PlanId: r.GetPlanId(), Generation: r.GetGeneration(), Outcome: r.GetOutcome(), ErrorCode: r.GetErrorCode(),
		Error: "the result was too long to be told in full", Before: r.GetBefore(), After: r.GetAfter(), AtMs: r.GetAtMs(), ResourceVersion: r.GetResourceVersion()}
}

// tellEvents puts events into the spool and returns when they are safe there.
func (a *agent) tellEvents(events []*agentv1.Event) error {
	for _, e := range events {
		clean(&e.Message, &e.Reason)
		if c := e.GetCheckpoint(); c != nil {
			clean(&c.Detail)
		}
	}
	_, err := a.spool.Append(&agentv1.Report{AtMs: a.clock.NowMS(), Body: &agentv1.Report_Events{Events: &agentv1.Events{Events: events}}})
	if err == nil {
		err = a.spool.Sync()
	}
	if err != nil {
		a.log.Error("an event could not be reported", "error", err)
	}
	return err
}

// clean makes text of whatever a cluster, a pod or an error said: one that is none would keep its whole report from being taken.
func clean(all ...*string) {
	for _, s := range all {
		*s = strings.ReplaceAll(strings.ToValidUTF8(*s, "\uFFFD"), "\x00", "")
	}
}
