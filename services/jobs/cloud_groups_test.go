package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/capacity"
	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/cloud/aws"
	"plimsoll.dev/services/cloud/fakecloud"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"

	"github.com/aws/aws-sdk-go-v2/credentials"
)

// ward is an estate whose cluster has one group at a fake EC2 Auto Scaling, with 2 machines of at most 10.
type ward struct {
	*estate
	cloud  *fakecloud.Server
	worker *CloudGroups
	group  store.CloudGroup
}

func openWard(t *testing.T, stock int, change ...func(*fakecloud.MachineGroup)) *ward {
	t.Helper()
	sealer, err := auth.NewSealer(make([]byte, auth.SealKeySize))
	if err != nil {
		t.Fatal(err)
	}
	m := fakecloud.MachineGroup{Cloud: "aws", Name: "gpu", Region: "us-east-1", Zones: []string{"us-east-1a"}, Min: 1, Max: 10, Desired: 2, Running: 2, Types: []string{"g5.xlarge"}, Stock: stock}
	for _, f := range change {
		f(&m)
	}
	w := &ward{estate: newEstate(t), cloud: fakecloud.New(fakecloud.World{Groups: []fakecloud.MachineGroup{m}})}
	t.Cleanup(w.cloud.Close)
	w.worker = &CloudGroups{DB: w.db, Secrets: sealer, Log: w.log, Open: func(ctx context.Context, a cloud.Access) (cloud.Groups, error) {
		return aws.NewGroups(ctx, aws.Config{Access: *a.AWS, Regions: a.Regions, Base: credentials.NewStaticCredentialsProvider("AKIABASE", "secret", ""), Endpoint: w.cloud.URL, HTTP: w.cloud.Client(),
			Retry: cloud.Retry{Attempts: 1, Base: time.Millisecond, Max: time.Millisecond}})
	}}
	account := uuid.NewString()
	plain, err := json.Marshal(cloud.Access{Cloud: fleet.CloudAWS, Regions: []string{"us-east-1"}, AWS: &cloud.AWSAccess{RoleARN: "arn:aws:iam::123456789012:role/plimsoll-groups", ExternalID: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	w.group = store.CloudGroup{ID: uuid.NewString(), Cluster: w.cluster, Account: account, Ref: "us-east-1/gpu", Region: "us-east-1", Zones: []string{"us-east-1a"}, InstanceTypes: []string{"g5.xlarge"},
		Purchase: fleet.PurchaseOnDemand, Min: 0, Max: 8, Step: 4, Hourly: 5, Enabled: true, UpdatedBy: "test"}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		if err := store.InsertCloudAccount(ctx, tx, store.CloudAccount{ID: account, Cloud: fleet.CloudAWS, Name: "groups", Regions: []string{"us-east-1"}, CreatedBy: "test"}, sealer.Seal(cloud.AccessPurpose(w.tenant, account), plain)); err != nil {
			return err
		}
		return store.SaveCloudGroup(ctx, tx, w.group)
	})
	w.exec(`UPDATE cluster SET mode = 'enforce', last_seen_at = now(), data_at = now() WHERE tenant_id = $1`, w.tenant)
	return w
}

// plan saves a plan that wants so many machines more.
func (w *ward) plan(n int) {
	w.t.Helper()
	o := fleet.Offering{Cloud: fleet.CloudAWS, Region: "us-east-1", Zone: "us-east-1a", InstanceType: "g5.xlarge", Purchase: fleet.PurchaseOnDemand}
	p := &capacity.Plan{Outcome: capacity.OutcomeChange, Mode: fleet.ModeEnforce, Add: []capacity.Group{{Offering: o, Count: n, Price: 1}}, Drain: []capacity.Drain{}, At: time.Now().UTC()}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := store.SaveCapacityPlan(ctx, tx, capacity.Input{Cluster: w.cluster, Now: time.Now().UTC(), DataAt: time.Now().UTC()}, p, time.Millisecond)
		return err
	})
}

func (w *ward) run() error {
	w.t.Helper()
	return w.worker.Cluster(context.Background(), w.tenant, w.cluster)
}

// look runs the worker and says what the newest action is and how often the cloud has carried out a change.
func (w *ward) look() string {
	w.t.Helper()
	if err := w.run(); err != nil {
		w.t.Fatal(err)
	}
	return w.said()
}

func (w *ward) said() string {
	w.t.Helper()
	out := "none"
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		list, err := store.GroupActions(ctx, tx, w.cluster, false, 10)
		if len(list) > 0 {
			a := list[0]
			out = fmt.Sprintf("%s %d-%d", a.State, a.Before, a.Desired)
			if a.ClosedAt != nil {
				out += " ended"
			}
		}
		return err
	})
	times, desired := w.cloud.Resizes("gpu")
	return fmt.Sprintf("%s; %d changes, size %d", out, times, desired)
}

func (w *ward) join(n int) {
	for i := range n {
		w.exec(`INSERT INTO node (tenant_id, cluster_id, uid, name, cloud, region, zone, instance_type, purchase, phase, started_at)
VALUES ($1, $2, $3, $3, 'aws', 'us-east-1', 'us-east-1a', 'g5.xlarge', 'on_demand', 'ready', now())`, w.tenant, w.cluster, fmt.Sprint("new-", i))
	}
}

// age moves all that happened back in time.
func (w *ward) age(d time.Duration) {
	w.exec(`UPDATE cloud_group_action SET asked_at = asked_at - $2 * interval '1 second' WHERE tenant_id = $1`, w.tenant, d.Seconds())
}

func (w *ward) expect(what, want string) {
	w.t.Helper()
	if got := w.look(); got != want {
		w.t.Fatalf("%s: %q, want %q", what, got, want)
	}
}

func TestAPlanMakesAGroupLargerOnce(t *testing.T) {
	t.Parallel()
	w := openWard(t, 20)
	w.expect("without a plan", "none; 0 changes, size 2")
	w.plan(3)
	w.expect("the plan", "pending 2-5; 1 changes, size 5")
	w.expect("the same plan again", "reached 2-5; 1 changes, size 5")
	w.plan(3) // it has not seen the machines yet
	w.expect("a plan before the machines are nodes", "reached 2-5; 1 changes, size 5")
	w.join(3)
	w.expect("they are nodes", "joined 2-5 ended; 1 changes, size 5")
	w.expect("a plan that is older than the end of the action", "joined 2-5 ended; 1 changes, size 5")
	w.plan(7)
	w.expect("no more than the hour allows", "pending 5-7; 2 changes, size 7")
	w.expect("machines that never join", "reached 5-7; 2 changes, size 7")
	w.age(16 * time.Minute)
	w.exec(`UPDATE node SET started_at = started_at - interval '1 hour' WHERE tenant_id = $1`, w.tenant)
	w.expect("a quarter of an hour later", "failed 5-7 ended; 2 changes, size 7")
}

func TestNothingIsAskedOfACloudThatNobodySwitchedOn(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"the group is off":       `UPDATE cloud_group SET enabled = false WHERE tenant_id = $1`,
		"the cluster is frozen":  `UPDATE cluster SET frozen = true WHERE tenant_id = $1`,
		"the agent is frozen":    `UPDATE cluster SET agent_limits = '{"frozen": true}' WHERE tenant_id = $1`,
		"approval only":          `UPDATE cluster SET mode = 'approve' WHERE tenant_id = $1`,
		"an old plan":            `UPDATE capacity_plan SET checked_at = checked_at - interval '3 minutes' WHERE tenant_id = $1`,
		"not what it is made of": `UPDATE cloud_group SET instance_types = '{m5.large}' WHERE tenant_id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWard(t, 20)
			w.plan(3)
			w.exec(sql, w.tenant)
			w.expect(name, "none; 0 changes, size 2")
		})
	}
}

func TestACloudThatHasNoneEndsTheActionAndTheModelLearns(t *testing.T) {
	t.Parallel()
	w := openWard(t, 1)
	w.plan(3)
	w.expect("the plan", "pending 2-5; 1 changes, size 5")
	w.expect("one came, two could not", "partial 2-5; 1 changes, size 5")
	w.age(4 * time.Minute)
	w.expect("given up", "partial 2-5 ended; 2 changes, size 3")
	if n := w.number(`SELECT count(*) FROM availability_event WHERE tenant_id = $1 AND kind = 'exhausted' AND instance_type = 'g5.xlarge'`, w.tenant); n != 1 {
		t.Errorf("%d stock-outs noted", n)
	}
	w.cloud.Restock("gpu", 5)
	w.plan(2)
	w.expect("a new plan", "pending 3-5; 3 changes, size 5")
}

func TestACrashBetweenWritingAndAskingDoesNothingTwice(t *testing.T) {
	t.Parallel()
	w := openWard(t, 20)
	w.cloud.Fail(fakecloud.Fault{Operation: "SetDesiredCapacity", From: 1, Times: 1, How: fakecloud.Broken})
	w.plan(3)
	w.expect("the cloud is broken", "asked 2-5; 0 changes, size 2")
	w.plan(4)
	w.expect("asked again, the same", "pending 2-5; 1 changes, size 5")
	w.exec(`UPDATE cloud_group_action SET state = 'asked', result = '{}' WHERE tenant_id = $1`, w.tenant) // the answer was lost
	w.expect("asked once more", "pending 2-5; 1 changes, size 5")
}

func TestSomebodyElsesSizeIsKept(t *testing.T) {
	t.Parallel()
	w := openWard(t, 20)
	w.plan(3)
	w.expect("the plan", "pending 2-5; 1 changes, size 5")
	w.cloud.Meddle("gpu", 9)
	if got := w.look(); !strings.HasPrefix(got, "replaced 2-5 ended") || !strings.HasSuffix(got, "size 9") {
		t.Errorf("got %q", got)
	}
}

func TestAnActionIsUndoneUnlessSomebodyChangedTheGroup(t *testing.T) {
	t.Parallel()
	undo := func(w *ward) error {
		var err error
		w.tx(func(ctx context.Context, tx *store.Tx) error {
			list, e := store.GroupActions(ctx, tx, w.cluster, false, 1)
			if e != nil {
				return e
			}
			err = store.UndoGroupAction(ctx, tx, w.cluster, list[0].ID, uuid.Must(uuid.NewV7()).String())
			return nil
		})
		return err
	}
	w := openWard(t, 20)
	w.plan(3)
	w.look()
	if err := undo(w); err == nil {
		t.Error("an action that has not ended is undone")
	}
	w.join(3)
	w.expect("joined", "joined 2-5 ended; 1 changes, size 5")
	if err := undo(w); err != nil {
		t.Fatal(err)
	}
	w.expect("undone", "pending 5-2; 2 changes, size 2")
	w.expect("and ended", "joined 5-2 ended; 2 changes, size 2")

	w = openWard(t, 20)
	w.plan(3)
	w.look()
	w.join(3)
	w.look()
	w.cloud.Meddle("gpu", 7)
	if err := undo(w); err != nil {
		t.Fatal(err)
	}
	if got := w.look(); !strings.HasPrefix(got, "replaced 5-2 ended") || !strings.HasSuffix(got, "size 7") {
		t.Errorf("got %q", got)
	}
}

func TestTwoWorkersAtOnceAskOnce(t *testing.T) {
	t.Parallel()
	w := openWard(t, 20)
	w.plan(3)
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() { errs <- w.worker.Cluster(context.Background(), w.tenant, w.cluster) }()
	}
	var all []error
	for range cap(errs) {
		if err := <-errs; err != nil {
			all = append(all, err)
		}
	}
	times, size := w.cloud.Resizes("gpu")
	if times != 1 || size != 5 || len(all) > 0 {
		t.Errorf("%d changes, size %d, errors %v", times, size, all)
	}
}

func TestGroupsBringWhatTheyAreMadeOf(t *testing.T) {
	t.Parallel()
	g := store.CloudGroup{Cloud: "aws", Region: "r", Zones: []string{"ra"}, InstanceTypes: []string{"a", "b"}, Purchase: fleet.PurchaseSpot}
	o := fleet.Offering{Cloud: "aws", Region: "r", Zone: "ra", InstanceType: "b", Purchase: fleet.PurchaseSpot}
	others := []fleet.Offering{o, o, o, o}
	others[0].Zone, others[1].InstanceType, others[2].Purchase, others[3].Region = "rb", "c", fleet.PurchaseOnDemand, "q"
	if !g.Brings(o) || slices.ContainsFunc(others, g.Brings) {
		t.Error("a group brings what it is not made of")
	}
}
