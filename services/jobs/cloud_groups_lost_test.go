package jobs

import (
	"testing"
	"time"

	"plimsoll.dev/services/cloud/fakecloud"
)

func TestWhatDidNotComeIsGivenBackAlsoWhenTheCloudDoesNotHearAtFirst(t *testing.T) {
	t.Parallel()
	w := openWard(t, 1)
	w.plan(3)
	w.expect("the plan", "pending 2-5; 1 changes, size 5")
	w.expect("one came, two could not", "partial 2-5; 1 changes, size 5")
	w.age(4 * time.Minute)
	w.cloud.Fail(fakecloud.Fault{Operation: "SetDesiredCapacity", From: 2, Times: 2, How: fakecloud.Broken})
	w.expect("the cloud is broken", "partial 2-5; 1 changes, size 5")
	w.expect("and still is", "partial 2-5; 1 changes, size 5")
	w.expect("it hears", "partial 2-5 ended; 2 changes, size 3")
	if n := w.number(`SELECT count(*) FROM availability_event WHERE tenant_id = $1 AND kind = 'exhausted' AND instance_type = 'g5.xlarge'`, w.tenant); n != 1 {
		t.Errorf("%d stock-outs noted", n)
	}
}

func TestAMachineWhoseDrainNeverEndedTakesPodsAgain(t *testing.T) {
	t.Parallel()
	w := openYardOfFour(t)
	w.lets(nil, "n1")
	w.look()
	w.answered("") // begun; the agent loses its disk
	w.lets(nil)
	w.look()
	if got := w.ordered(); got != "" {
		t.Fatalf("ordered while the drain may go on: %q", got)
	}
	w.exec(`UPDATE karpenter_action SET answered_at = now() - interval '31 minutes' WHERE tenant_id = $1`, w.tenant)
	w.lets(nil)
	w.look()
	if got := w.ordered(); got != "-n1" || len(w.cloud.Ended("gpu")) != 0 {
		t.Errorf("ordered %q, ended %v", got, w.cloud.Ended("gpu"))
	}
}
