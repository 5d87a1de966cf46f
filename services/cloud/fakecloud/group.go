package fakecloud

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MachineGroup is an Auto Scaling group, a scale set or a managed instance group. Unlike the rest of a World it changes by calls.
type MachineGroup struct {
	Cloud    string // aws, azure or gcp
	Region   string
	Zone     string // of a GCP group; empty: regional
	Zones    []string
	Name     string
	Min, Max int // of an AWS group
	Desired  int
	Running  int
	Types    []string // of an AWS group with several, type=weight where it has weights
	Spot     bool
	Base     int // machines on demand before the rest, of a mixed group
	Share    int // per cent on demand above it
	Mixed    bool
	Stock    int    // machines that the cloud still has
	Short    string // what it says when it has none; empty: its word for that
	AtDoor   bool   // it says so at once, where the cloud can
	Slow     bool   // machines stay on their way
	Old      bool   // it has a failure of last year in its books
	Scaler   string // mode of the cloud's own scaling; empty: there is none. AWS: ignored, its processes run
	Stopped  []string
	// What of the cloud changes the group, of an AWS group: policies as name or name=kind, those named off-... are switched off; schedules by name.
	Policies  []string
	Schedules []string
	Balance   bool     // a regional GCP group moves machines between zones
	Kept      []string // machines that their owner protects, by id

	names    []int // of machines that run
	born     int
	ended    []string
	failures []shortage
	etag     int
	op       shortage // of the last change
	requests map[string]bool
	resized  int // changes that were carried out
}

type shortage struct {
	at            time.Time
	code, message string
	count         int
}

// Resizes says how often a group's size was changed, and what it is.
func (s *Server) Resizes(name string) (times, desired int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(name)
	return g.resized, g.Desired
}

// Scaling is the state of a cloud's own scaling of a group: its mode, and the processes that are stopped.
func (s *Server) Scaling(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(name)
	slices.Sort(g.Stopped)
	return g.Scaler + " " + strings.Join(g.Stopped, ",")
}

// Meddle sets a group's size as another writer would.
func (s *Server) Meddle(name string, desired int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(name)
	g.Desired = desired
	g.etag++
}

// Restock gives the cloud machines for a group, which come at once.
func (s *Server) Restock(name string, machines int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(name)
	g.Stock += machines
	g.fill(s.clock)
}

// group needs mu.
func (s *Server) group(name string) *MachineGroup {
	for i := range s.world.Groups {
		if s.world.Groups[i].Name == name {
			return &s.world.Groups[i]
		}
	}
	return &MachineGroup{}
}

// resize needs mu.
func (g *MachineGroup) resize(n int, now time.Time) {
	g.Desired = n
	g.resized++
	g.etag++
	g.fill(now)
}

func (g *MachineGroup) fill(now time.Time) {
	g.op = shortage{}
	if g.Slow {
		return
	}
	if g.Desired < g.Running {
		g.Running = g.Desired
		return
	}
	given := min(g.Desired-g.Running, g.Stock)
	g.Running, g.Stock = g.Running+given, g.Stock-given
	if missing := g.Desired - g.Running; missing > 0 {
		g.op = g.short(now, missing)
		g.failures = append(g.failures, g.op)
	}
}

func (g *MachineGroup) short(at time.Time, n int) shortage {
	code := or(g.Short, map[string]string{"aws": "InsufficientInstanceCapacity", "azure": "AllocationFailed", "gcp": "ZONE_RESOURCE_POOL_EXHAUSTED"}[g.Cloud])
	message := map[string]string{
		"aws": "Could not launch On-Demand Instances. " + code + " - We currently do not have sufficient g5.xlarge capacity in the Availability Zone you requested (" + first(g.Zones) +
			"). Our system will be working on provisioning additional capacity. Launching EC2 instance failed.",
		"azure": "Allocation failed. We do not have sufficient capacity for the requested VM size in this region.",
		"gcp":   "The zone 'projects/p/zones/" + first(g.Zones) + "' does not have enough resources available to fulfill the request.",
	}[g.Cloud]
	if g.Cloud == "aws" && g.Short != "" {
		message = "Could not launch On-Demand Instances. " + code + " - Launching EC2 instance failed."
	}
	return shortage{at: at, code: code, message: message, count: n}
}

// known is the one of the texts that s is; empty: none of them.
func known(s string, texts ...string) string {
	if i := slices.Index(texts, s); i >= 0 {
		return texts[i]
	}
	return ""
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// books are a group's failures, an old one first. It needs mu.
func (g *MachineGroup) books() []shortage {
	if !g.Old {
		return g.failures
	}
	return append([]shortage{g.short(time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), 1)}, g.failures...)
}

// tick moves the cloud's clock on: it is that of groups alone, a second for each call.
func (s *Server) tick() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clock.IsZero() {
		s.clock = time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC)
	}
	s.clock = s.clock.Add(time.Second)
	return s.clock
}

// groups answers calls about groups; false: it is about something else.
func (s *Server) groups(w http.ResponseWriter, r *http.Request, body []byte) bool {
	path := r.URL.Path
	w.Header().Set("Date", s.tick().Format(http.TimeFormat))
	switch {
	case path == "/" && strings.Contains(string(body), "Version=2011-01-01"):
		q, _ := url.ParseQuery(string(body))
		s.awsGroups(w, r, q)
	case strings.Contains(path, "/virtualMachineScaleSets/") && (strings.HasSuffix(path, "/virtualMachines") || strings.HasSuffix(path, "/delete")):
		s.azureMachines(w, r, body)
	case strings.Contains(path, "/virtualMachineScaleSets") || strings.Contains(strings.ToLower(path), "/autoscalesettings") || strings.HasPrefix(path, "/subscriptions/sub/operations/"):
		s.azureGroupCall(w, r, body)
	case strings.Contains(path, "/instanceGroupManagers") || strings.Contains(path, "/autoscalers") || strings.Contains(path, "/instanceTemplates/"):
		s.gcpGroups(w, r, body)
	default:
		w.Header().Del("Date")
		return false
	}
	return true
}

func (s *Server) awsGroups(w http.ResponseWriter, r *http.Request, q url.Values) {
	action := known(q.Get("Action"), "DescribeAutoScalingGroups", "DescribeScalingActivities", "SetDesiredCapacity", "SuspendProcesses", "ResumeProcesses",
		"DescribePolicies", "DescribeScheduledActions", "TerminateInstanceInAutoScalingGroup")
	how := s.call(action, r)
	refuse := func(status int, code, message string) {
		send(w, "text/xml", status, []byte(`<ErrorResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><Error><Type>Sender</Type><Code>`+code+`</Code><Message>`+message+`</Message></Error><RequestId>fake</RequestId></ErrorResponse>`), "")
	}
	switch how {
	case Throttle:
		refuse(http.StatusBadRequest, "Throttling", "Rate exceeded")
		return
	case Denied:
		refuse(http.StatusForbidden, "AccessDenied", "User is not authorized to perform: autoscaling:"+action)
		return
	}
	if awsRefuse(w, how, refuse) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var inside []element
	g := s.group(q.Get("AutoScalingGroupName"))
	if action != "DescribeAutoScalingGroups" && action != "TerminateInstanceInAutoScalingGroup" && g.Name == "" {
		refuse(http.StatusBadRequest, "ValidationError", "AutoScalingGroup name not found - null")
		return
	}
	switch action {
	case "DescribeAutoScalingGroups":
		var rows []element
		for i := range s.world.Groups {
			x := &s.world.Groups[i]
			if name := q.Get("AutoScalingGroupNames.member.1"); x.Cloud == "aws" && x.Region == awsRegion(r) && (name == "" || name == x.Name) {
				rows = append(rows, x.xml())
			}
		}
		list, next, err := page(s, rows, q.Get("NextToken"))
		if err != nil {
			refuse(http.StatusBadRequest, "InvalidNextToken", "the token is none of ours")
			return
		}
		if how == SamePage {
			next = "from-" + fmt.Sprint(s.world.PageSize)
		}
		inside = append(append(inside, node("AutoScalingGroups", list...)), leaves("NextToken", next)...)
	case "DescribeScalingActivities":
		var rows []element
		for _, f := range slices.Backward(g.books()) { // newest first
			rows = append(rows, node("member", leaves("ActivityId", fmt.Sprint("a-", len(rows)), "AutoScalingGroupName", g.Name, "Cause", "an instance was started in response to a difference between desired and actual capacity",
				"StartTime", f.at.UTC().Format("2006-01-02T15:04:05.000Z"), "StatusCode", "Failed", "StatusMessage", f.message, "Details", `{"Subnet ID":"subnet-1","Availability Zone":"`+first(g.Zones)+`"}`)...))
		}
		rows = append(rows, node("member", leaves("ActivityId", "ok", "AutoScalingGroupName", g.Name, "Cause", "c", "StartTime", "2025-06-01T00:00:00Z", "StatusCode", "Successful")...))
		inside = []element{node("Activities", rows...)}
	case "SetDesiredCapacity":
		n, err := strconv.Atoi(q.Get("DesiredCapacity"))
		if err != nil || n < g.Min || n > g.Max {
			refuse(http.StatusBadRequest, "ValidationError", "New SetDesiredCapacity value is outside of the group's bounds")
			return
		}
		g.resize(n, s.clock)
	case "DescribePolicies":
		inside = []element{node("ScalingPolicies", g.awsPolicies()...)}
	case "DescribeScheduledActions":
		inside = []element{node("ScheduledUpdateGroupActions", g.awsSchedules()...)}
	case "TerminateInstanceInAutoScalingGroup":
		if !s.awsEnd(q, refuse) {
			return
		}
	case "SuspendProcesses", "ResumeProcesses":
		for k, v := range q {
			process := known(v[0], "Launch", "Terminate", "AZRebalance", "AlarmNotification", "ScheduledActions")
			if !strings.HasPrefix(k, "ScalingProcesses.member.") {
				continue
			}
			g.Stopped = slices.DeleteFunc(g.Stopped, func(p string) bool { return p == process })
			if action == "SuspendProcesses" {
				g.Stopped = append(g.Stopped, process)
			}
		}
	default:
		refuse(http.StatusBadRequest, "InvalidAction", "there is no such action")
		return
	}
	var b strings.Builder
	b.WriteString(`<` + action + `Response xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/">`)
	node(action+"Result", inside...).write(&b)
	b.WriteString(`<ResponseMetadata><RequestId>fake</RequestId></ResponseMetadata></` + action + `Response>`)
	send(w, "text/xml", http.StatusOK, []byte(b.String()), how)
}

func (g *MachineGroup) xml() element {
	in := leaves("AutoScalingGroupName", g.Name, "MinSize", fmt.Sprint(g.Min), "MaxSize", fmt.Sprint(g.Max), "DesiredCapacity", fmt.Sprint(g.Desired), "DefaultCooldown", "300", "HealthCheckType", "EC2", "CreatedTime", "2026-01-01T00:00:00Z")
	var zones, overrides, instances, stopped []element
	for _, z := range g.Zones {
		zones = append(zones, leaf("member", z))
	}
	weight := "" // of the first type: instances here are all of it
	for i, t := range g.Types {
		name, size, _ := strings.Cut(t, "=")
		overrides = append(overrides, node("member", leaves("InstanceType", name, "WeightedCapacity", size)...))
		if i == 0 {
			weight = size
		}
	}
	step := 1
	if n, err := strconv.Atoi(weight); err == nil {
		step = n
	}
	instance := func(state string) {
		instances = append(instances, node("member", leaves("InstanceId", fmt.Sprintf("i-9%x", len(instances)), "AvailabilityZone", first(g.Zones), "LifecycleState", state, "HealthStatus", "Healthy",
			"ProtectedFromScaleIn", "false", "WeightedCapacity", weight)...))
	}
	if step == 1 {
		for _, n := range g.machines() {
			id := g.machineID(n)
			instances = append(instances, node("member", leaves("InstanceId", id, "AvailabilityZone", first(g.Zones), "LifecycleState", "InService", "HealthStatus", "Healthy", "ProtectedFromScaleIn", fmt.Sprint(g.kept(id)), "WeightedCapacity", weight)...))
		}
	} else {
		for i := 0; i < g.Running; i += step {
			instance("InService")
		}
	}
	if g.Slow {
		for i := g.Running; i < g.Desired; i += step {
			instance("Pending")
		}
	}
	for _, p := range g.Stopped {
		stopped = append(stopped, node("member", leaf("ProcessName", p), leaf("SuspensionReason", "User suspended")))
	}
	in = append(in, node("AvailabilityZones", zones...), node("Instances", instances...), node("SuspendedProcesses", stopped...))
	if g.Mixed {
		in = append(in, node("MixedInstancesPolicy",
			node("LaunchTemplate", node("LaunchTemplateSpecification", leaf("LaunchTemplateId", "lt-1"), leaf("Version", "1")), node("Overrides", overrides...)),
			node("InstancesDistribution", leaves("OnDemandAllocationStrategy", "prioritized", "OnDemandBaseCapacity", fmt.Sprint(g.Base), "OnDemandPercentageAboveBaseCapacity", fmt.Sprint(g.Share), "SpotAllocationStrategy", "price-capacity-optimized")...)))
	}
	return node("member", in...)
}

const azureSets = "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/"

// azureRefused answers what is scripted for any call with a token; true: it did.
func (s *Server) azureRefused(w http.ResponseWriter, r *http.Request, how Failure, refuse func(status int, code, message string)) bool {
	switch {
	case how == Throttle:
		w.Header().Set("Retry-After", "0")
		refuse(http.StatusTooManyRequests, "OperationTooManyRequests", "scripted")
	case how == Broken:
		refuse(http.StatusInternalServerError, "InternalServerError", "scripted")
	case how == Denied:
		refuse(http.StatusForbidden, "AuthorizationFailed", "scripted")
	case how == Stranger, r.Header.Get("Authorization") != "Bearer "+AzureToken:
		refuse(http.StatusUnauthorized, "InvalidAuthenticationToken", "scripted")
	default:
		return false
	}
	return true
}

func (s *Server) azureGroupCall(w http.ResponseWriter, r *http.Request, body []byte) {
	path := r.URL.Path
	refuse := func(status int, code, message string) {
		sendJSON(w, status, form{"error": form{"code": code, "message": message}}, "")
	}
	if strings.HasSuffix(path, "/virtualMachineScaleSets") || strings.HasSuffix(strings.ToLower(path), "/autoscalesettings") {
		s.mu.Lock()
		rows, operation := s.azureSets(), "virtualMachineScaleSets"
		if !strings.HasSuffix(path, "/virtualMachineScaleSets") {
			rows, operation = s.azureScalers(), "autoscalesettings"
		}
		s.mu.Unlock()
		s.azureList(w, r, operation, rows)
		return
	}
	operation := map[string]string{http.MethodGet: "virtualMachineScaleSets.get", http.MethodPatch: "virtualMachineScaleSets.update"}[r.Method]
	switch {
	case strings.HasSuffix(path, "/instanceView"):
		operation = "virtualMachineScaleSets.instanceView"
	case strings.Contains(path, "/operations/"):
		operation = "operations.get"
	case strings.Contains(strings.ToLower(path), "/autoscalesettings/"):
		operation = "autoscalesettings.update"
	}
	how := s.call(operation, r)
	if s.azureRefused(w, r, how, refuse) {
		return
	}
	name := path[strings.LastIndexByte(path, '/')+1:]
	if operation == "virtualMachineScaleSets.instanceView" {
		name = strings.TrimSuffix(path, "/instanceView")
		name = name[strings.LastIndexByte(name, '/')+1:]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(strings.TrimPrefix(name, "scaler-"))
	if g.Name == "" {
		refuse(http.StatusNotFound, "ResourceNotFound", "The Resource was not found.")
		return
	}
	switch operation {
	case "virtualMachineScaleSets.get":
		sendJSON(w, http.StatusOK, g.azureSet(), how)
	case "virtualMachineScaleSets.instanceView":
		sendJSON(w, http.StatusOK, g.azureView(), how)
	case "operations.get":
		state := form{"startTime": s.clock.Add(-time.Second), "endTime": s.clock, "status": "Succeeded"}
		if g.op.code != "" {
			state["status"], state["endTime"], state["error"] = "Failed", g.op.at, form{"code": g.op.code, "message": g.op.message}
		}
		sendJSON(w, http.StatusOK, state, how)
	case "autoscalesettings.update":
		var in struct{ Properties struct{ Enabled bool } }
		_ = json.Unmarshal(body, &in)
		g.Scaler = map[bool]string{true: "ON", false: "OFF"}[in.Properties.Enabled]
		sendJSON(w, http.StatusOK, form{}, how)
	case "virtualMachineScaleSets.update":
		if how == Meanwhile {
			g.etag++
		}
		s.azureResize(w, r, g, body, refuse)
	}
}

func (s *Server) azureResize(w http.ResponseWriter, r *http.Request, g *MachineGroup, body []byte, refuse func(status int, code, message string)) {
	var in struct{ Sku struct{ Capacity *int } }
	if json.Unmarshal(body, &in) != nil || in.Sku.Capacity == nil {
		refuse(http.StatusBadRequest, "InvalidRequestContent", "no capacity")
		return
	}
	if want := r.Header.Get("If-Match"); want != "" && want != g.tag() {
		refuse(http.StatusPreconditionFailed, "PreconditionFailed", "The condition given in If-Match is not met.")
		return
	}
	if g.AtDoor && *in.Sku.Capacity-g.Running > g.Stock {
		f := g.short(s.clock, 1)
		refuse(http.StatusConflict, f.code, f.message)
		return
	}
	g.resize(*in.Sku.Capacity, s.clock)
	w.Header().Set("Azure-AsyncOperation", s.URL+"/subscriptions/sub/operations/"+g.Name+"?api-version=2024-11-01")
	sendJSON(w, http.StatusAccepted, g.azureSet(), "")
}

func (g *MachineGroup) tag() string { return fmt.Sprintf(`"%d"`, g.etag) }

func (g *MachineGroup) azureSet() form {
	profile, priority := form{}, "Regular"
	if g.Spot {
		priority = "Spot"
	}
	profile["virtualMachineProfile"] = form{"priority": priority}
	sku := form{"name": first(g.Types), "tier": "Standard", "capacity": g.Desired}
	if g.Mixed {
		profile["priorityMixPolicy"] = form{"baseRegularPriorityCount": g.Base, "regularPriorityPercentageAboveBase": g.Share}
		var sizes []form
		for _, t := range g.Types {
			sizes = append(sizes, form{"name": t})
		}
		profile["skuProfile"] = form{"allocationStrategy": "CapacityOptimized", "vmSizes": sizes}
		sku["name"] = "Mix"
	}
	return form{"id": azureSets + g.Name, "name": g.Name, "location": g.Region, "zones": g.Zones, "etag": g.tag(), "sku": sku, "properties": profile}
}

func (g *MachineGroup) azureView() form {
	summary := []form{{"code": "ProvisioningState/succeeded", "count": g.Running}}
	statuses := []form{}
	if g.Slow && g.Desired > g.Running {
		summary = append(summary, form{"code": "ProvisioningState/creating", "count": g.Desired - g.Running})
	}
	for _, f := range g.books() {
		statuses = append(statuses, form{"code": "ProvisioningState/failed/" + f.code, "level": "Error", "displayStatus": "Provisioning failed", "message": f.message, "time": f.at.UTC()})
	}
	return form{"virtualMachine": form{"statusesSummary": summary}, "statuses": statuses}
}

// azureSets and azureScalers need mu.
func (s *Server) azureSets() (rows []form) {
	for i := range s.world.Groups {
		if s.world.Groups[i].Cloud == "azure" {
			rows = append(rows, s.world.Groups[i].azureSet())
		}
	}
	return rows
}

func (s *Server) azureScalers() (rows []form) {
	for i := range s.world.Groups {
		if g := &s.world.Groups[i]; g.Cloud == "azure" && g.Scaler != "" {
			rows = append(rows, form{"id": "/subscriptions/sub/resourceGroups/rg/providers/microsoft.insights/autoscalesettings/scaler-" + g.Name, "properties": form{"enabled": g.Scaler == "ON", "targetResourceUri": azureSets + g.Name}})
		}
	}
	return rows
}

func (s *Server) gcpGroups(w http.ResponseWriter, r *http.Request, body []byte) {
	path := strings.TrimPrefix(r.URL.Path, "/compute/v1/projects/")
	_, path, _ = strings.Cut(path, "/")
	if path == "aggregated/instanceGroupManagers" {
		s.mu.Lock()
		var rows []placed
		for i := range s.world.Groups {
			if g := &s.world.Groups[i]; g.Cloud == "gcp" {
				rows = append(rows, placed{g.place(), g.gcpManager()})
			}
		}
		s.mu.Unlock()
		s.gcpList(w, r, "instanceGroupManagers", rows)
		return
	}
	parts := strings.Split(path, "/") // zones, z, instanceGroupManagers, name, verb
	kind, name, verb := part(parts, 2), part(parts, 3), part(parts, 4)
	if part(parts, 0) == "global" {
		kind, name = part(parts, 1), strings.TrimPrefix(part(parts, 2), "template-")
	}
	if kind == "autoscalers" {
		name = strings.TrimPrefix(or(name, r.URL.Query().Get("autoscaler")), "scaler-")
	}
	operation := kind + "." + or(verb, map[string]string{http.MethodGet: "get", http.MethodPatch: "patch"}[r.Method])
	how := s.call(operation, r)
	refuse := func(status int, reason, message string) {
		sendJSON(w, status, form{"error": form{"code": status, "message": message, "errors": []form{{"reason": reason, "domain": "usageLimits", "message": message}}}}, "")
	}
	switch {
	case how == Throttle:
		refuse(http.StatusTooManyRequests, "rateLimitExceeded", "scripted")
		return
	case how == Broken:
		refuse(http.StatusServiceUnavailable, "backendError", "scripted")
		return
	case how == Denied:
		refuse(http.StatusForbidden, "forbidden", "scripted")
		return
	case how == Stranger, r.Header.Get("Authorization") != "Bearer "+GCPToken:
		refuse(http.StatusUnauthorized, "authError", "scripted")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.group(name)
	if g.Name == "" || kind == "instanceGroupManagers" && part(parts, 0)+"/"+part(parts, 1) != g.place() {
		refuse(http.StatusNotFound, "notFound", "The resource was not found")
		return
	}
	switch operation {
	case "instanceGroupManagers.get":
		sendJSON(w, http.StatusOK, g.gcpManager(), how)
	case "instanceTemplates.get":
		model := "STANDARD"
		if g.Spot {
			model = "SPOT"
		}
		sendJSON(w, http.StatusOK, form{"name": "template-" + g.Name, "properties": form{"machineType": first(g.Types), "scheduling": form{"provisioningModel": model}}}, how)
	case "autoscalers.get":
		sendJSON(w, http.StatusOK, form{"name": "scaler-" + g.Name, "autoscalingPolicy": form{"mode": g.Scaler, "minNumReplicas": g.Min, "maxNumReplicas": g.Max}}, how)
	case "autoscalers.patch":
		var in struct{ AutoscalingPolicy struct{ Mode string } }
		_ = json.Unmarshal(body, &in)
		g.Scaler = known(in.AutoscalingPolicy.Mode, "ON", "OFF", "ONLY_SCALE_OUT")
		sendJSON(w, http.StatusOK, form{"name": "op", "status": "DONE"}, how)
	case "instanceGroupManagers.listManagedInstances":
		s.gcpGroupMachines(w, r, g, how, refuse)
	case "instanceGroupManagers.deleteInstances":
		g.gcpEnd(w, r, body, s.clock, how, refuse)
	case "instanceGroupManagers.listErrors":
		s.gcpErrors(w, r, g, how, refuse)
	case "instanceGroupManagers.resize":
		g.gcpResize(w, r, s.clock, how, refuse)
	default:
		refuse(http.StatusNotFound, "notFound", "there is no such method")
	}
}

func part(parts []string, i int) string {
	if i < len(parts) {
		return parts[i]
	}
	return ""
}

func (s *Server) gcpErrors(w http.ResponseWriter, r *http.Request, g *MachineGroup, how Failure, refuse func(status int, reason, message string)) {
	items := []form{}
	for _, f := range g.books() {
		for i := range f.count {
			items = append(items, form{"timestamp": f.at.UTC(), "error": form{"code": f.code, "message": f.message},
				"instanceActionDetails": form{"action": "CREATING", "instance": fmt.Sprintf("https://www.googleapis.com/compute/v1/projects/p/zones/%s/instances/%s-%d", first(g.Zones), g.Name, i)}})
		}
	}
	list, next, err := page(s, items, r.URL.Query().Get("pageToken"))
	if err != nil {
		refuse(http.StatusBadRequest, "invalid", "the token is none of ours")
		return
	}
	sendJSON(w, http.StatusOK, form{"items": list}.set("nextPageToken", next), how)
}

func (g *MachineGroup) gcpResize(w http.ResponseWriter, r *http.Request, now time.Time, how Failure, refuse func(status int, reason, message string)) {
	q := r.URL.Query()
	n, err := strconv.Atoi(q.Get("size"))
	id := q.Get("requestId")
	if err != nil || n < 0 || len(id) != 36 || strings.Count(id, "-") != 4 {
		refuse(http.StatusBadRequest, "invalid", "Invalid value for field 'size' or 'requestId'")
		return
	}
	op := form{"kind": "compute#operation", "name": "operation-" + g.Name, "status": "RUNNING", "insertTime": now, "operationType": "compute.instanceGroupManagers.resize"}
	if g.AtDoor && n-g.Running > g.Stock {
		f := g.short(now, 1)
		op["status"], op["error"] = "DONE", form{"errors": []form{{"code": f.code, "message": f.message}}}
		sendJSON(w, http.StatusOK, op, how)
		return
	}
	if g.requests == nil {
		g.requests = map[string]bool{}
	}
	if !g.requests[id] { // the same request is carried out once
		g.requests[id] = true
		g.resize(n, now)
	}
	sendJSON(w, http.StatusOK, op, how)
}

func (g *MachineGroup) place() string {
	if g.Zone != "" {
		return "zones/" + g.Zone
	}
	return "regions/" + g.Region
}

func (g *MachineGroup) gcpManager() form {
	const api = "https://www.googleapis.com/compute/v1/projects/p/"
	creating := g.Desired - g.Running // a group goes on trying
	m := form{"kind": "compute#instanceGroupManager", "name": g.Name, "targetSize": g.Desired, "fingerprint": fmt.Sprintf("f%d=", g.etag), "instanceTemplate": api + "global/instanceTemplates/template-" + g.Name,
		"currentActions": form{"none": g.Running, "creating": max(creating, 0), "deleting": 0}}
	if g.Zone != "" {
		m["zone"] = api + "zones/" + g.Zone
	} else {
		zones := []form{}
		for _, z := range g.Zones {
			zones = append(zones, form{"zone": api + "zones/" + z})
		}
		m["region"], m["distributionPolicy"] = api+"regions/"+g.Region, form{"zones": zones, "targetShape": "ANY"}
	}
	if g.Balance {
		m["updatePolicy"] = form{"instanceRedistributionType": "PROACTIVE"}
	}
	if g.Mixed {
		m["instanceFlexibilityPolicy"] = form{"instanceSelections": form{"best": form{"rank": 1, "machineTypes": g.Types[:1]}, "other": form{"rank": 2, "machineTypes": g.Types[1:]}}}
	}
	if g.Scaler != "" {
		m["status"] = form{"autoscaler": api + g.place() + "/autoscalers/scaler-" + g.Name}
	}
	return m
}
