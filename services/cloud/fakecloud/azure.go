package fakecloud

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// Azure is what Microsoft sells and a tenant owns there.
type Azure struct {
	Prices       []AzurePrice
	SKUs         []AzureSKU
	Reservations []AzureReservation
	Plans        []AzurePlan
	Capacity     []AzureCapacity
	Secret       string // that the application has; empty: any
}

// AzurePrice is a row of the retail prices.
type AzurePrice struct {
	Region, Machine, SKU string
	Price                string // a JSON number; empty: none
	Currency             string // default USD
	Product              string // default Virtual Machines Series
	Suffix               string // of the SKU's name: " Spot", " Low Priority"
	From, Until          string
	Plan1Year, Plan3Year string // JSON numbers of the savings plan
}

// AzureSKU is a machine; Capabilities are name, value, name, value.
type AzureSKU struct {
	Region, Name string
	Capabilities []string
	Restricted   bool
	Type         string // default virtualMachines
}

// AzureReservation is a purchase.
type AzureReservation struct {
	ID, Machine, Region, Quantity, From, To string
	Type                                    string // default VirtualMachines
}

// AzurePlan is a savings plan.
type AzurePlan struct{ ID, Term, Amount, Currency, From, To string }

// AzureCapacity is a capacity reservation in a group of its own.
type AzureCapacity struct {
	ID, Machine, Region, Zone, Total string
	Used                             int
}

func (s *Server) azure(w http.ResponseWriter, r *http.Request) {
	path, q := r.URL.Path, r.URL.Query()
	switch {
	case strings.Contains(path, "/.well-known/"):
		base := s.URL + "/" + strings.Split(path, "/")[1]
		sendJSON(w, http.StatusOK, form{"issuer": base + "/v2.0", "authorization_endpoint": base + "/oauth2/v2.0/authorize", "token_endpoint": base + "/oauth2/v2.0/token"}, "")
	case strings.HasSuffix(path, "/oauth2/v2.0/token"):
		s.azureToken(w, r)
	case strings.HasPrefix(path, "/api/retail/prices"):
		s.azureList(w, r, "RetailPrices", s.azurePrices(q.Get("$filter")))
	case strings.HasSuffix(path, "/Microsoft.Compute/skus"):
		s.azureList(w, r, "skus", s.azureSKUs(q.Get("$filter")))
	case strings.HasSuffix(path, "/Microsoft.Capacity/reservations"):
		s.azureList(w, r, "reservations", s.azureReservations())
	case strings.HasSuffix(path, "/Microsoft.BillingBenefits/savingsPlans"):
		s.azureList(w, r, "savingsPlans", s.azurePlans())
	case strings.HasSuffix(path, "/Microsoft.Compute/capacityReservationGroups"):
		s.azureList(w, r, "capacityReservationGroups", s.azureGroups())
	case strings.HasSuffix(path, "/capacityReservations"):
		s.azureList(w, r, "capacityReservations", s.azureCapacity(path))
	default:
		sendJSON(w, http.StatusNotFound, form{"error": form{"code": "ResourceNotFound", "message": path}}, "")
	}
}

// AzureToken is what the directory gives.
const AzureToken = "fake-azure-token"

func (s *Server) azureToken(w http.ResponseWriter, r *http.Request) {
	how := s.call("token", r)
	secret := r.PostForm.Get("client_secret")
	if how == Denied || s.world.Azure.Secret != "" && secret != s.world.Azure.Secret && r.PostForm.Get("client_assertion") == "" {
		sendJSON(w, http.StatusUnauthorized, form{"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."}, "")
		return
	}
	sendJSON(w, http.StatusOK, form{"token_type": "Bearer", "expires_in": 3600, "ext_expires_in": 3600, "access_token": AzureToken}, how)
}

// azureList answers one page of a list, with a link to the next.
func (s *Server) azureList(w http.ResponseWriter, r *http.Request, operation string, rows []form) {
	how := s.call(operation, r)
	retail := operation == "RetailPrices"
	refuse := func(status int, code string) {
		sendJSON(w, status, form{"error": form{"code": code, "message": "scripted"}}, "")
	}
	switch {
	case how == Throttle:
		w.Header().Set("Retry-After", "0")
		refuse(http.StatusTooManyRequests, "TooManyRequests")
		return
	case how == Broken:
		refuse(http.StatusInternalServerError, "InternalServerError")
		return
	case how == Denied:
		refuse(http.StatusForbidden, "AuthorizationFailed")
		return
	case how == Stranger, !retail && r.Header.Get("Authorization") != "Bearer "+AzureToken:
		refuse(http.StatusUnauthorized, "InvalidAuthenticationToken")
		return
	}
	token := r.URL.Query().Get("$skiptoken")
	list, next, err := page(s, rows, token)
	if err != nil {
		refuse(http.StatusBadRequest, "InvalidSkipToken")
		return
	}
	link := ""
	if how == SamePage {
		next = "from-1"
	}
	if next != "" || how == ForeignLink {
		u := *r.URL
		q := u.Query()
		q.Set("$skiptoken", next)
		u.RawQuery = q.Encode()
		link = s.URL + u.String()
		if how == ForeignLink {
			link = "https://elsewhere.invalid" + u.String()
		}
	}
	if list == nil {
		list = []form{}
	}
	if retail {
		count := len(list)
		if how == Partial {
			count++
		}
		sendJSON(w, http.StatusOK, form{"BillingCurrency": "USD", "CustomerEntityType": "Retail", "Items": list, "NextPageLink": link, "Count": count}, how)
		return
	}
	sendJSON(w, http.StatusOK, form{"value": list}.set("nextLink", link), how)
}

func (s *Server) azurePrices(filter string) (rows []form) {
	for _, p := range s.world.Azure.Prices {
		if !strings.Contains(filter, "armRegionName eq '"+p.Region+"'") {
			continue
		}
		row := form{"currencyCode": or(p.Currency, "USD"), "tierMinimumUnits": 0.0, "armRegionName": p.Region, "effectiveStartDate": or(p.From, "2026-10-01T00:00:00Z"), "meterId": "meter-" + p.SKU,
			"skuId": p.SKU, "productName": or(p.Product, "Virtual Machines Series"), "skuName": strings.TrimPrefix(p.Machine, "Standard_") + p.Suffix, "serviceName": "Virtual Machines",
			"unitOfMeasure": "1 Hour", "type": "Consumption", "isPrimaryMeterRegion": true, "armSkuName": p.Machine}.set("effectiveEndDate", p.Until)
		if p.Price != "" {
			row["retailPrice"] = json.RawMessage(p.Price)
		}
		var plans []form
		for _, term := range [][2]string{{"1 Year", p.Plan1Year}, {"3 Years", p.Plan3Year}} {
			if term[1] != "" {
				plans = append(plans, form{"term": term[0], "retailPrice": json.RawMessage(term[1])})
			}
		}
		if plans != nil {
			row["savingsPlan"] = plans
		}
		rows = append(rows, row)
	}
	return rows
}

func (s *Server) azureSKUs(filter string) (rows []form) {
	for _, k := range s.world.Azure.SKUs {
		if !strings.Contains(filter, "location eq '"+k.Region+"'") {
			continue
		}
		capabilities := []form{}
		for i := 0; i+1 < len(k.Capabilities); i += 2 {
			capabilities = append(capabilities, form{"name": k.Capabilities[i], "value": k.Capabilities[i+1]})
		}
		row := form{"resourceType": or(k.Type, "virtualMachines"), "name": k.Name, "locations": []string{k.Region}, "capabilities": capabilities, "restrictions": []form{}}
		if k.Restricted {
			row["restrictions"] = []form{{"type": "Location", "reasonCode": "NotAvailableForSubscription"}}
		}
		rows = append(rows, row)
	}
	return rows
}

func (s *Server) azureReservations() (rows []form) {
	for _, v := range s.world.Azure.Reservations {
		rows = append(rows, form{"id": v.ID, "sku": form{"name": v.Machine}, "location": v.Region, "properties": form{"reservedResourceType": or(v.Type, "VirtualMachines"), "instanceFlexibility": "On",
			"quantity": json.Number(v.Quantity), "provisioningState": "Succeeded", "effectiveDateTime": v.From, "expiryDateTime": v.To, "term": "P1Y"}})
	}
	return rows
}

func (s *Server) azurePlans() (rows []form) {
	for _, p := range s.world.Azure.Plans {
		rows = append(rows, form{"id": p.ID, "sku": form{"name": "Compute_Savings_Plan"}, "properties": form{"provisioningState": "Succeeded", "term": p.Term, "effectiveDateTime": p.From, "expiryDateTime": p.To,
			"commitment": form{"grain": "Hourly", "currencyCode": or(p.Currency, "USD"), "amount": json.Number(p.Amount)}}})
	}
	return rows
}

func (s *Server) azureGroups() (rows []form) {
	for _, c := range s.world.Azure.Capacity {
		rows = append(rows, form{"id": "/subscriptions/sub/resourceGroups/rg/providers/Microsoft.Compute/capacityReservationGroups/" + c.ID, "location": c.Region})
	}
	return rows
}

func (s *Server) azureCapacity(path string) (rows []form) {
	group, _ := url.PathUnescape(strings.TrimSuffix(path, "/capacityReservations"))
	for _, c := range s.world.Azure.Capacity {
		if !strings.HasSuffix(group, "/"+c.ID) {
			continue
		}
		var used []form
		for range c.Used {
			used = append(used, form{"id": "/subscriptions/sub/vm"})
		}
		row := form{"id": group + "/capacityReservations/" + c.ID, "location": c.Region, "sku": form{"name": c.Machine, "capacity": json.Number(c.Total)},
			"properties": form{"provisioningState": "Succeeded", "timeCreated": "2026-01-01T00:00:00Z", "virtualMachinesAssociated": used}}
		if c.Zone != "" {
			row["zones"] = []string{c.Zone}
		}
		rows = append(rows, row)
	}
	return rows
}
