package fakecloud

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// GCP is what Google sells and a tenant owns there.
type GCP struct {
	SKUs         []GCPSKU
	Machines     []GCPMachine
	Commitments  []GCPCommitment
	Reservations []GCPReservation
}

// GCPSKU is a row of the billing catalogue.
type GCPSKU struct {
	ID, Description string
	Spot            bool
	Regions         []string
	Unit            string // default h
	Units           string // of the price, a whole number; empty with NoPrice
	Nanos           string // a JSON number
	Currency        string // default USD
	NoPrice         bool
}

// GCPMachine is a type in a zone.
type GCPMachine struct {
	Zone, Name, CPUs, MemMB string
	Arch                    string // default X86_64
	GPU                     string
	GPUs                    int
	SSDs                    int
	Shared                  bool
}

// GCPCommitment is a resource-based commitment; Resources are type, amount, type, amount.
type GCPCommitment struct {
	ID, Region, Type, From, To string
	Resources                  []string
	GPU                        string // of an ACCELERATOR among them
	Status                     string // default ACTIVE
}

// GCPReservation holds machines in a zone.
type GCPReservation struct{ ID, Zone, Machine, Count, Used string }

// GCPToken is what a key or an impersonation gives.
const GCPToken = "fake-gcp-token"

func (s *Server) gcp(w http.ResponseWriter, r *http.Request, body []byte) {
	path := r.URL.Path
	switch {
	case path == "/token":
		if s.call("token", r) == Denied {
			sendJSON(w, http.StatusBadRequest, form{"error": "invalid_grant", "error_description": "Invalid JWT Signature."}, "")
			return
		}
		sendJSON(w, http.StatusOK, form{"access_token": GCPToken, "expires_in": 3600, "token_type": "Bearer"}, "")
	case strings.HasSuffix(path, ":generateAccessToken"):
		if how := s.call("generateAccessToken", r); how == Denied {
			sendJSON(w, http.StatusForbidden, form{"error": form{"code": 403, "status": "PERMISSION_DENIED", "message": "Permission 'iam.serviceAccounts.getAccessToken' denied"}}, "")
			return
		}
		sendJSON(w, http.StatusOK, form{"accessToken": GCPToken, "expireTime": "2099-01-01T00:00:00Z"}, "")
	case strings.HasSuffix(path, "/skus"):
		s.gcpList(w, r, "skus", s.gcpSKUs())
	case strings.HasSuffix(path, "/aggregated/machineTypes"):
		s.gcpList(w, r, "machineTypes", s.gcpMachines())
	case strings.HasSuffix(path, "/aggregated/commitments"):
		s.gcpList(w, r, "commitments", s.gcpCommitments())
	case strings.HasSuffix(path, "/aggregated/reservations"):
		s.gcpList(w, r, "reservations", s.gcpReservations())
	default:
		sendJSON(w, http.StatusNotFound, form{"error": form{"code": 404, "message": path, "body": len(body)}}, "")
	}
}

// placed is a row of an aggregated list.
type placed struct {
	place string // zones/us-central1-a
	row   form
}

// gcpList answers one page: a flat list of SKUs, or rows under their places.
func (s *Server) gcpList(w http.ResponseWriter, r *http.Request, what string, all []placed) {
	operation := what
	if what == "skus" {
		operation = "billing.skus"
	}
	how := s.call(operation, r)
	refuse := func(status int, reason string) {
		sendJSON(w, status, form{"error": form{"code": status, "message": "scripted", "status": reason, "errors": []form{{"reason": reason}}}}, "")
	}
	switch {
	case how == Throttle:
		refuse(http.StatusTooManyRequests, "RESOURCE_EXHAUSTED")
		return
	case how == Broken:
		refuse(http.StatusServiceUnavailable, "UNAVAILABLE")
		return
	case how == Denied:
		refuse(http.StatusForbidden, "PERMISSION_DENIED")
		return
	case how == Stranger, r.Header.Get("Authorization") != "Bearer "+GCPToken:
		refuse(http.StatusUnauthorized, "UNAUTHENTICATED")
		return
	}
	list, next, err := page(s, all, r.URL.Query().Get("pageToken"))
	if err != nil {
		refuse(http.StatusBadRequest, "INVALID_ARGUMENT")
		return
	}
	if how == SamePage {
		next = "from-1"
	}
	if what == "skus" {
		rows := []form{}
		for _, p := range list {
			rows = append(rows, p.row)
		}
		sendJSON(w, http.StatusOK, form{"skus": rows, "nextPageToken": next}, how)
		return
	}
	items := map[string]form{"zones/nowhere1-a": {"warning": form{"code": "NO_RESULTS_ON_PAGE", "message": "There are no results for scope on this page."}}}
	for _, p := range list {
		if items[p.place] == nil {
			items[p.place] = form{what: []form{}}
		}
		rows, _ := items[p.place][what].([]form)
		items[p.place][what] = append(rows, p.row)
	}
	answer := form{"kind": "compute#aggregatedList", "items": items}.set("nextPageToken", next)
	if how == Partial {
		answer["unreachables"] = []string{"zones/us-central1-f"}
	}
	sendJSON(w, http.StatusOK, answer, how)
}

func (s *Server) gcpSKUs() (rows []placed) {
	for _, k := range s.world.GCP.SKUs {
		usage := "OnDemand"
		if k.Spot {
			usage = "Preemptible"
		}
		rates := []form{{"startUsageAmount": 0, "unitPrice": form{"currencyCode": or(k.Currency, "USD"), "units": or(k.Units, "0"), "nanos": json.RawMessage(or(k.Nanos, "0"))}}}
		if k.NoPrice {
			rates = nil
		}
		rows = append(rows, placed{row: form{"name": "services/6F81-5844-456A/skus/" + k.ID, "skuId": k.ID, "description": k.Description, "serviceRegions": k.Regions,
			"category":    form{"serviceDisplayName": "Compute Engine", "resourceFamily": "Compute", "resourceGroup": "CPU", "usageType": usage},
			"pricingInfo": []form{{"effectiveTime": "2026-11-04T00:00:00Z", "pricingExpression": form{"usageUnit": or(k.Unit, "h"), "displayQuantity": 1, "tieredRates": rates}}}}})
	}
	return rows
}

func (s *Server) gcpMachines() (rows []placed) {
	for _, m := range s.world.GCP.Machines {
		row := form{"name": m.Name, "guestCpus": json.RawMessage(m.CPUs), "memoryMb": json.RawMessage(m.MemMB), "isSharedCpu": m.Shared, "architecture": or(m.Arch, "X86_64"), "zone": m.Zone}
		if m.GPU != "" {
			row["accelerators"] = []form{{"guestAcceleratorType": m.GPU, "guestAcceleratorCount": m.GPUs}}
		}
		if m.SSDs > 0 {
			row["bundledLocalSsds"] = form{"defaultInterface": "NVME", "partitionCount": m.SSDs}
		}
		rows = append(rows, placed{"zones/" + m.Zone, row})
	}
	return rows
}

func (s *Server) gcpCommitments() (rows []placed) {
	for _, c := range s.world.GCP.Commitments {
		resources := []form{}
		for i := 0; i+1 < len(c.Resources); i += 2 {
			row := form{"type": c.Resources[i], "amount": c.Resources[i+1]}
			if c.Resources[i] == "ACCELERATOR" {
				row["acceleratorType"] = c.GPU
			}
			resources = append(resources, row)
		}
		rows = append(rows, placed{"regions/" + c.Region, form{"id": c.ID, "name": "c-" + c.ID, "region": "https://www.googleapis.com/compute/v1/projects/p/regions/" + url.PathEscape(c.Region), "type": c.Type,
			"status": or(c.Status, "ACTIVE"), "plan": "TWELVE_MONTH", "startTimestamp": c.From, "endTimestamp": c.To, "resources": resources}})
	}
	return rows
}

func (s *Server) gcpReservations() (rows []placed) {
	for _, v := range s.world.GCP.Reservations {
		rows = append(rows, placed{"zones/" + v.Zone, form{"id": v.ID, "zone": v.Zone, "status": "READY", "creationTimestamp": "2026-01-01T00:00:00.000-07:00",
			"specificReservation": form{"count": v.Count, "inUseCount": v.Used, "instanceProperties": form{"machineType": v.Machine}}}})
	}
	return rows
}
