package fakecloud

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Ended are the machines of a group that were ended by name, in order.
func (s *Server) Ended(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.group(name).ended)
}

// Machines are the ids of a group's machines, as the cloud's adapter writes them.
func (s *Server) Machines(name string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(name)
	var out []string
	for _, n := range g.machines() {
		out = append(out, g.machineID(n))
	}
	return out
}

// Restart starts a cloud's own scaling of a group again, as another writer would.
func (s *Server) Restart(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(name)
	g.Stopped = nil
	if g.Scaler == "OFF" {
		g.Scaler = "ON"
	}
}

// machines are the numbers of those that run: a size that is lowered takes the newest away. It needs mu.
func (g *MachineGroup) machines() []int {
	for len(g.names) < g.Running {
		g.names = append(g.names, g.born)
		g.born++
	}
	g.names = g.names[:g.Running]
	return g.names
}

func (g *MachineGroup) machineID(n int) string {
	switch g.Cloud {
	case "azure":
		return fmt.Sprint(n)
	case "gcp":
		return first(g.Zones) + "/" + fmt.Sprintf("%s-%d", g.Name, n)
	}
	return fmt.Sprintf("i-%x", n)
}

// end takes machines away by id and lowers the size by as many; those that are not there are none. It needs mu.
func (g *MachineGroup) end(ids []string) {
	g.machines()
	for _, id := range ids {
		k := slices.IndexFunc(g.names, func(n int) bool { return g.machineID(n) == id })
		if k < 0 {
			continue
		}
		g.names = slices.Delete(g.names, k, k+1)
		g.ended = append(g.ended, id)
		g.Running--
		g.Desired--
		g.etag++
	}
}

func (g *MachineGroup) kept(id string) bool { return slices.Contains(g.Kept, id) }

// awsWriters are the rows of the calls about what of the cloud changes a group.
func (g *MachineGroup) awsPolicies() (rows []element) {
	for _, p := range g.Policies {
		name, kind, _ := strings.Cut(p, "=") // "cpu", "forecast=PredictiveScaling"
		in := leaves("AutoScalingGroupName", g.Name, "PolicyName", name, "PolicyARN", "arn:aws:autoscaling:us-east-1:1:scalingPolicy:"+name, "PolicyType", or(kind, "TargetTrackingScaling"), "Enabled", fmt.Sprint(!strings.HasPrefix(name, "off-")))
		rows = append(rows, node("member", in...))
	}
	return rows
}

func (g *MachineGroup) awsSchedules() (rows []element) {
	for _, name := range g.Schedules {
		rows = append(rows, node("member", leaves("AutoScalingGroupName", g.Name, "ScheduledActionName", name, "Recurrence", "0 8 * * *", "MinSize", "1")...))
	}
	return rows
}

// awsEnd answers the end of one machine.
func (s *Server) awsEnd(q url.Values, refuse func(status int, code, message string)) (ok bool) {
	id := q.Get("InstanceId")
	for i := range s.world.Groups {
		g := &s.world.Groups[i]
		if g.Cloud != "aws" || !slices.ContainsFunc(g.machines(), func(n int) bool { return g.machineID(n) == id }) {
			continue
		}
		switch {
		case q.Get("ShouldDecrementDesiredCapacity") != "true": // another would take its place
			g.ended = append(g.ended, id+" replaced")
		case g.Desired-1 < g.Min:
			refuse(http.StatusBadRequest, "ValidationError", "Currently, desiredSize equals minSize. Terminating instance without replacement will violate group's min size constraint.")
			return false
		default:
			g.end([]string{id})
		}
		return true
	}
	refuse(http.StatusBadRequest, "ValidationError", "Instance Id not found - No managed instance found for instance ID: "+id)
	return false
}

// azureMachines answers lists and ends of a scale set's machines; operation is virtualMachines.list or virtualMachineScaleSets.delete.
func (s *Server) azureMachines(w http.ResponseWriter, r *http.Request, body []byte) {
	refuse := func(status int, code, message string) {
		sendJSON(w, status, form{"error": form{"code": code, "message": message}}, "")
	}
	if strings.HasSuffix(r.URL.Path, "/virtualMachines") {
		name := strings.TrimSuffix(r.URL.Path, "/virtualMachines")
		s.mu.Lock()
		g := s.group(name[strings.LastIndexByte(name, '/')+1:])
		var rows []form
		for _, n := range g.machines() {
			id := g.machineID(n)
			rows = append(rows, form{"instanceId": id, "zones": g.Zones, "properties": form{"provisioningState": "Succeeded", "protectionPolicy": form{"protectFromScaleIn": g.kept(id)}}})
		}
		s.mu.Unlock()
		s.azureList(w, r, "virtualMachines", rows)
		return
	}
	how := s.call("virtualMachineScaleSets.delete", r)
	if s.azureRefused(w, r, how, refuse) {
		return
	}
	name := strings.TrimSuffix(r.URL.Path, "/delete")
	var in struct{ InstanceIds []string }
	if json.Unmarshal(body, &in) != nil || len(in.InstanceIds) == 0 { // Azure takes a missing list for all machines
		refuse(http.StatusBadRequest, "InvalidRequestContent", "no instances")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(name[strings.LastIndexByte(name, '/')+1:])
	if g.Name == "" {
		refuse(http.StatusNotFound, "ResourceNotFound", "The Resource was not found.")
		return
	}
	g.end(in.InstanceIds)
	w.Header().Set("Azure-AsyncOperation", s.URL+"/subscriptions/sub/operations/"+g.Name+"?api-version=2024-11-01")
	w.WriteHeader(http.StatusAccepted)
}

// gcpGroupMachines lists a group's machines.
func (s *Server) gcpGroupMachines(w http.ResponseWriter, r *http.Request, g *MachineGroup, how Failure, refuse func(status int, reason, message string)) {
	rows := []form{}
	for _, n := range g.machines() {
		zone, name, _ := strings.Cut(g.machineID(n), "/")
		rows = append(rows, form{"instance": "https://www.googleapis.com/compute/v1/projects/p/zones/" + zone + "/instances/" + name, "currentAction": "NONE", "instanceStatus": "RUNNING"})
	}
	list, next, err := page(s, rows, r.URL.Query().Get("pageToken"))
	if err != nil {
		refuse(http.StatusBadRequest, "invalid", "the token is none of ours")
		return
	}
	sendJSON(w, http.StatusOK, form{"managedInstances": list}.set("nextPageToken", next), how)
}

// gcpEnd ends machines; the same request is carried out once.
func (g *MachineGroup) gcpEnd(w http.ResponseWriter, r *http.Request, body []byte, now time.Time, how Failure, refuse func(status int, reason, message string)) {
	id := r.URL.Query().Get("requestId")
	var in struct{ Instances []string }
	if json.Unmarshal(body, &in) != nil || len(in.Instances) == 0 || len(id) != 36 {
		refuse(http.StatusBadRequest, "invalid", "no instances or no requestId")
		return
	}
	if g.requests == nil {
		g.requests = map[string]bool{}
	}
	if !g.requests[id] {
		g.requests[id] = true
		var ids []string
		for _, link := range in.Instances {
			ids = append(ids, strings.Replace(strings.TrimPrefix(link, "zones/"), "/instances/", "/", 1))
		}
		g.end(ids)
	}
	sendJSON(w, http.StatusOK, form{"kind": "compute#operation", "name": "operation-" + g.Name, "status": "RUNNING", "insertTime": now, "operationType": "compute.instanceGroupManagers.deleteInstances"}, how)
}
