package cloud

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"plimsoll.dev/services/fleet"
)

// WriterKind is what of a cloud changes a group by itself.
type WriterKind string

// Kinds of writers.
const (
	WriterPolicy     WriterKind = "scaling_policy"
	WriterSchedule   WriterKind = "schedule"
	WriterAutoscaler WriterKind = "autoscaler"
	WriterRebalance  WriterKind = "rebalance" // between zones
)

// Writer is something of the cloud itself that changes a group. One that is stopped is none.
type Writer struct {
	Kind  WriterKind `json:"kind"`
	Name  string     `json:"name"`  // in the cloud's words
	Sizes bool       `json:"sizes"` // it sets the size; false: it starts and ends machines and leaves the size as it is
	Stop  string     `json:"stop"`  // what Suspend would stop, in the adapter's words; empty: only its owner can
}

// GroupMachine is a machine of a group.
type GroupMachine struct {
	ID    string // as MachineIn reads it from a node
	Zone  string // empty: not told
	Going bool   // it is on its way out
	Kept  bool   // its owner protects it from being ended
}

// Termination asks for the end of machines by name, each of which makes the group smaller by one. It is absolute: machines that are gone are not ended
// again, and the size that is left is named, so that asking twice is asking once.
type Termination struct {
	Ref      string
	Machines []string // ids, distinct, 1 to MaxTerminated
	Desired  int      // size when all of them are gone
	Min      int      // of the policy
	Version  string   // of the group as it was decided upon; checked while none of them is gone
	Token    string   // as of a Resize
}

// MaxTerminated machines in one Termination.
const MaxTerminated = 100

// Check says which of the machines are still to be ended, in the order asked for; none: there is nothing to do. CodeConflict when the group is not what it was
// decided upon, less what is gone since; CodeInvalid outside the bounds.
func (t *Termination) Check(g Group, there []GroupMachine) (left []string, err error) {
	switch {
	case len(t.Machines) == 0 || len(t.Machines) > MaxTerminated:
		return nil, fleet.Errorf(fleet.CodeInvalid, "1 to %d machines are ended at a time, not %d", MaxTerminated, len(t.Machines))
	case !token(t.Token):
		return nil, fleet.Errorf(fleet.CodeInvalid, "a change needs a token of 1 to 64 letters, digits and dashes")
	case g.Weighted:
		return nil, fleet.Errorf(fleet.CodeInvalid, "the size of %s counts weights: how much of it a machine is, is not known", g.Name)
	}
	for i, id := range t.Machines {
		if slices.Contains(t.Machines[:i], id) {
			return nil, fleet.Errorf(fleet.CodeInvalid, "the machine %.80q is named twice", id)
		}
		k := slices.IndexFunc(there, func(m GroupMachine) bool { return m.ID == id })
		switch {
		case k < 0 || there[k].Going:
		case there[k].Kept:
			return nil, fleet.Errorf(fleet.CodeConflict, "the machine %s is protected from being ended", id)
		default:
			left = append(left, id)
		}
	}
	switch {
	case g.Desired != t.Desired+len(left):
		return nil, fleet.Errorf(fleet.CodeConflict, "the group %s has a size of %d and %d of the machines that shall go: somebody else changed it since it was decided upon", g.Name, g.Desired, len(left))
	case len(left) == 0:
		return nil, nil
	case len(left) == len(t.Machines) && t.Version != "" && t.Version != g.Version:
		return nil, fleet.Errorf(fleet.CodeConflict, "somebody else changed the group %s since it was decided upon", g.Name)
	case t.Desired < t.Min || t.Desired < g.Min:
		return nil, fleet.Errorf(fleet.CodeInvalid, "%d machines would be left, under the bound of %d", t.Desired, max(t.Min, g.Min))
	}
	return left, nil
}

var (
	awsProvider   = regexp.MustCompile(`^aws:///[a-z0-9-]{1,40}/(i-[0-9a-f]{1,40})$`)
	gceProvider   = regexp.MustCompile(`^gce://[a-z0-9:.-]{1,100}/([a-z0-9-]{1,40})/([a-z0-9-]{1,63})$`)
	azureProvider = regexp.MustCompile(`(?i)^azure://(/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/virtualMachineScaleSets/[^/]+)/virtualMachines/([0-9]{1,10})$`)
)

// MachineIn reads which machine of a group a node is, from the provider id that its kubelet wrote. false: it is of another cloud or, where the id says so,
// of another group. Whether the group has that machine only the cloud knows: see Groups.Machines.
func MachineIn(c fleet.Cloud, ref, providerID string) (id string, ok bool) {
	switch c {
	case fleet.CloudAWS:
		if m := awsProvider.FindStringSubmatch(providerID); m != nil {
			return m[1], true
		}
	case fleet.CloudGCP:
		if m := gceProvider.FindStringSubmatch(providerID); m != nil {
			return m[1] + "/" + m[2], true
		}
	case fleet.CloudAzure:
		if m := azureProvider.FindStringSubmatch(providerID); m != nil && strings.EqualFold(m[1], ref) {
			return m[2], true
		}
	}
	return "", false
}

// Text names a writer for people.
func (w *Writer) Text() string { return fmt.Sprintf("%s %s", w.Kind, w.Name) }
