package fakecloud

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// AWS is what Amazon sells and a tenant owns there.
type AWS struct {
	Machines []AWSMachine
	Products []AWSProduct
	Spot     []AWSSpot
	Reserved []AWSReserved
	Capacity []AWSCapacity
	Plans    []AWSPlan
	Scores   []AWSScore
	// ExternalID that AssumeRole wants; empty: any.
	ExternalID string
}

// AWSMachine is a type in some regions.
type AWSMachine struct {
	Region, Name, Arch string
	VCPU, MemMiB       string
	GPU                string // name; empty: none
	GPUs, GPUMiB       string
	Spot, EFA          bool
	Gbps, DiskGB       string
	BaseGbps           string // empty: not told
	Cards, IPs         string // interfaces of the card and addresses of each; empty: not told
}

// AWSProduct is an item of the price list.
type AWSProduct struct {
	Region, Type, SKU string
	Price             string // "": no price dimension's amount
	Currency          string // default USD
	Family            string // default Compute Instance
	Unit              string // default Hrs
	System            string // default Linux
}

// AWSSpot is a change of a Spot price.
type AWSSpot struct{ Region, Zone, ZoneID, Type, Product, Price, At string }

// AWSReserved is a purchase of Reserved Instances.
type AWSReserved struct{ Region, ID, Type, Zone, Count, Fixed, Hourly, Product, Start, End string }

// AWSCapacity is a capacity reservation; Kind is default or capacity-block.
type AWSCapacity struct{ Region, ID, Type, Zone, Total, Free, Kind, Start, End string }

// AWSPlan is a Savings Plan with its rates.
type AWSPlan struct {
	ID, Kind, Region, Family, Commitment, Start, End string
	Rates                                            []AWSRate
}

// AWSRate is what a plan charges.
type AWSRate struct{ Region, Type, Price, Product string }

// AWSScore is a placement score.
type AWSScore struct{ Region, ZoneID, Score string }

// element is XML being written: a name with text, or with what is inside.
type element struct {
	name, text string
	inside     []element
}

func (e element) write(b *strings.Builder) {
	fmt.Fprintf(b, "<%s>", e.name)
	for _, c := range []struct{ bad, good string }{{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}} {
		e.text = strings.ReplaceAll(e.text, c.bad, c.good)
	}
	b.WriteString(e.text)
	for _, c := range e.inside {
		c.write(b)
	}
	fmt.Fprintf(b, "</%s>", e.name)
}

func leaf(name, text string) element          { return element{name: name, text: text} }
func node(name string, in ...element) element { return element{name: name, inside: in} }
func leaves(texts ...string) (out []element) { // name, text, name, text; empty texts are left out
	for i := 0; i+1 < len(texts); i += 2 {
		if texts[i+1] != "" {
			out = append(out, leaf(texts[i], texts[i+1]))
		}
	}
	return out
}

func (s *Server) aws(w http.ResponseWriter, r *http.Request, body []byte) {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		s.awsPricing(w, r, body)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/Describe") {
		s.awsPlans(w, r, body)
		return
	}
	query, err := url.ParseQuery(string(body))
	if err != nil {
		http.Error(w, "no form", http.StatusBadRequest)
		return
	}
	action := query.Get("Action")
	how := s.call(action, r)
	if action == "AssumeRole" {
		s.assumeRole(w, query, how)
		return
	}
	if awsRefuse(w, how, func(status int, code, message string) {
		send(w, "text/xml", status, []byte(`<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>`+code+`</Code><Message>`+message+`</Message></Error></Errors><RequestID>fake</RequestID></Response>`), "")
	}) {
		return
	}
	set, items := s.ec2Rows(action, query, awsRegion(r))
	rows, next, err := page(s, items, query.Get("NextToken"))
	if err != nil || set == "" {
		send(w, "text/xml", http.StatusBadRequest, []byte(`<Response><Errors><Error><Code>InvalidParameterValue</Code><Message>`+action+`</Message></Error></Errors><RequestID>fake</RequestID></Response>`), "")
		return
	}
	if action == "DescribeReservedInstances" { // has no pages
		rows, next = items, ""
	}
	if how == SamePage {
		next = "from-" + fmt.Sprint(s.world.PageSize)
	}
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><` + action + `Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>fake</requestId>`)
	node(set, rows...).write(&b)
	leaf("nextToken", next).write(&b)
	b.WriteString(`</` + action + `Response>`)
	send(w, "text/xml;charset=UTF-8", http.StatusOK, []byte(b.String()), how)
}

// awsRegion is where a call was signed for.
func awsRegion(r *http.Request) string {
	_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	if parts := strings.Split(scope, "/"); len(parts) > 2 {
		return parts[2]
	}
	return ""
}

func awsRefuse(_ http.ResponseWriter, how Failure, refuse func(status int, code, message string)) bool {
	switch how {
	case Throttle:
		refuse(http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded.")
	case Broken:
		refuse(http.StatusInternalServerError, "InternalError", "An internal error has occurred")
	case Denied:
		refuse(http.StatusForbidden, "UnauthorizedOperation", "You are not authorized to perform this operation.")
	case Stranger:
		refuse(http.StatusUnauthorized, "AuthFailure", "AWS was not able to validate the provided access credentials")
	default:
		return false
	}
	return true
}

func (s *Server) ec2Rows(action string, query url.Values, region string) (set string, rows []element) {
	a := s.world.AWS
	item := func(in ...element) { rows = append(rows, node("item", in...)) }
	switch action {
	case "DescribeInstanceTypes":
		set = "instanceTypeSet"
		for _, m := range a.Machines {
			if m.Region == region {
				item(m.elements()...)
			}
		}
	case "DescribeSpotPriceHistory":
		set = "spotPriceHistorySet"
		for _, p := range a.Spot {
			if p.Region == region && p.At >= query.Get("StartTime") {
				item(leaves("instanceType", p.Type, "productDescription", or(p.Product, "Linux/UNIX"), "spotPrice", p.Price, "timestamp", p.At, "availabilityZone", p.Zone, "availabilityZoneId", p.ZoneID)...)
			}
		}
	case "DescribeReservedInstances":
		set = "reservedInstancesSet"
		for _, v := range a.Reserved {
			if v.Region != region {
				continue
			}
			scope := "Region"
			if v.Zone != "" {
				scope = "Availability Zone"
			}
			in := leaves("reservedInstancesId", v.ID, "instanceType", v.Type, "availabilityZone", v.Zone, "start", v.Start, "end", v.End, "fixedPrice", v.Fixed, "instanceCount", v.Count,
				"productDescription", or(v.Product, "Linux/UNIX"), "state", "active", "instanceTenancy", "default", "currencyCode", "USD", "scope", scope)
			item(append(in, node("recurringCharges", node("item", leaves("frequency", "Hourly", "amount", v.Hourly)...)))...)
		}
	case "DescribeCapacityReservations":
		set = "capacityReservationSet"
		for _, c := range a.Capacity {
			if c.Region == region {
				item(leaves("capacityReservationId", c.ID, "instanceType", c.Type, "instancePlatform", "Linux/UNIX", "availabilityZone", c.Zone, "tenancy", "default", "totalInstanceCount", c.Total,
					"availableInstanceCount", c.Free, "state", "active", "startDate", c.Start, "endDate", c.End, "reservationType", or(c.Kind, "default"))...)
			}
		}
	case "GetSpotPlacementScores":
		set = "spotPlacementScoreSet"
		for _, sc := range a.Scores {
			item(leaves("region", sc.Region, "availabilityZoneId", sc.ZoneID, "score", sc.Score)...)
		}
	}
	return set, rows
}

func (m AWSMachine) elements() []element {
	in := leaves("instanceType", m.Name)
	if m.VCPU != "" {
		in = append(in, node("vCpuInfo", leaf("defaultVCpus", m.VCPU)))
	}
	in = append(in, node("memoryInfo", leaf("sizeInMiB", m.MemMiB)), node("processorInfo", node("supportedArchitectures", leaf("item", or(m.Arch, "x86_64")))))
	if m.GPU != "" {
		in = append(in, node("gpuInfo", node("gpus", node("item", append(leaves("name", m.GPU, "manufacturer", "NVIDIA", "count", m.GPUs), node("memoryInfo", leaf("sizeInMiB", m.GPUMiB)))...))))
	}
	classes := []element{leaf("item", "on-demand")}
	if m.Spot {
		classes = append(classes, leaf("item", "spot"))
	}
	in = append(in, node("supportedUsageClasses", classes...))
	if m.Gbps != "" {
		card := leaves("networkCardIndex", "0", "peakBandwidthInGbps", m.Gbps)
		if m.BaseGbps != "" {
			card = append(card, leaf("baselineBandwidthInGbps", m.BaseGbps))
		}
		if m.Cards != "" {
			card = append(card, leaf("maximumNetworkInterfaces", m.Cards))
		}
		in = append(in, node("networkInfo", leaf("efaSupported", fmt.Sprint(m.EFA)), leaf("defaultNetworkCardIndex", "0"), leaf("ipv4AddressesPerInterface", or(m.IPs, "0")),
			node("networkCards", node("item", card...))))
	}
	if m.DiskGB != "" {
		in = append(in, node("instanceStorageInfo", leaf("totalSizeInGB", m.DiskGB)))
	}
	return in
}

// RoleKey is the access key of the credentials that AssumeRole gives.
const RoleKey = "ASIAFAKEROLE"

func (s *Server) assumeRole(w http.ResponseWriter, query url.Values, how Failure) {
	if want := s.world.AWS.ExternalID; how == Denied || want != "" && query.Get("ExternalId") != want {
		send(w, "text/xml", http.StatusForbidden, []byte(`<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not authorized to perform: sts:AssumeRole</Message></Error><RequestId>fake</RequestId></ErrorResponse>`), "")
		return
	}
	send(w, "text/xml", http.StatusOK, []byte(`<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials><AccessKeyId>`+RoleKey+
		`</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>token</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`), how)
}

func (s *Server) awsPricing(w http.ResponseWriter, r *http.Request, body []byte) {
	how := s.call("GetProducts", r)
	refuse := func(status int, code, message string) {
		send(w, "application/x-amz-json-1.1", status, fmt.Appendf(nil, `{"__type":%q,"message":%q}`, code, message), "")
	}
	if how == Throttle {
		refuse(http.StatusBadRequest, "ThrottlingException", "Rate exceeded")
		return
	}
	if awsRefuse(w, how, refuse) {
		return
	}
	var in struct {
		NextToken string
		Filters   []struct{ Field, Value string }
	}
	if json.Unmarshal(body, &in) != nil {
		refuse(http.StatusBadRequest, "InvalidParameterException", "no JSON")
		return
	}
	var rows []string
	for _, p := range s.world.AWS.Products {
		wrong := slices.ContainsFunc(in.Filters, func(f struct{ Field, Value string }) bool { return f.Field == "regionCode" && f.Value != p.Region })
		if !wrong {
			rows = append(rows, p.text())
		}
	}
	list, next, err := page(s, rows, in.NextToken)
	if err != nil {
		refuse(http.StatusBadRequest, "InvalidNextTokenException", err.Error())
		return
	}
	if how == SamePage {
		next = "from-" + fmt.Sprint(s.world.PageSize)
	}
	answer, _ := json.Marshal(form{"FormatVersion": "aws_v1", "PriceList": list}.set("NextToken", next))
	send(w, "application/x-amz-json-1.1", http.StatusOK, answer, how)
}

func (p AWSProduct) text() string {
	amount := form{}.set(or(p.Currency, "USD"), p.Price)
	rate := p.SKU + ".JRTCKXETXF"
	text, _ := json.Marshal(form{
		"product": form{"sku": p.SKU, "productFamily": or(p.Family, "Compute Instance"), "attributes": form{"servicecode": "AmazonEC2", "regionCode": p.Region, "operatingSystem": or(p.System, "Linux"),
			"tenancy": "Shared", "preInstalledSw": "NA", "capacitystatus": "Used", "marketoption": "OnDemand"}.set("instanceType", p.Type)},
		"serviceCode": "AmazonEC2",
		"terms": form{"OnDemand": form{rate: form{"effectiveDate": "2026-11-01T00:00:00Z", "offerTermCode": "JRTCKXETXF", "priceDimensions": form{
			rate + ".6YS6EN2CT7": form{"unit": or(p.Unit, "Hrs"), "rateCode": rate + ".6YS6EN2CT7", "beginRange": "0", "endRange": "Inf", "pricePerUnit": amount}}}}},
	})
	return string(text)
}

func (s *Server) awsPlans(w http.ResponseWriter, r *http.Request, body []byte) {
	operation := strings.TrimPrefix(r.URL.Path, "/")
	how := s.call(operation, r)
	if awsRefuse(w, how, func(status int, code, message string) {
		w.Header().Set("X-Amzn-Errortype", code)
		sendJSON(w, status, form{"message": message}, "")
	}) {
		return
	}
	var in struct{ NextToken, SavingsPlanID string }
	_ = json.Unmarshal(body, &in)
	var rows []form
	for _, p := range s.world.AWS.Plans {
		if operation == "DescribeSavingsPlans" {
			rows = append(rows, form{"savingsPlanId": p.ID, "savingsPlanType": p.Kind, "state": "active", "currency": "USD", "commitment": p.Commitment, "start": p.Start, "end": p.End}.
				set("region", p.Region).set("ec2InstanceFamily", p.Family))
			continue
		}
		for _, v := range p.Rates {
			if p.ID == in.SavingsPlanID {
				rows = append(rows, form{"rate": v.Price, "currency": "USD", "unit": "Hrs", "productType": "EC2", "serviceCode": "AmazonEC2", "usageType": "BoxUsage:" + v.Type, "operation": "RunInstances",
					"properties": []form{{"name": "region", "value": v.Region}, {"name": "instanceType", "value": v.Type}, {"name": "productDescription", "value": or(v.Product, "Linux/UNIX")}, {"name": "tenancy", "value": "shared"}}})
			}
		}
	}
	list, next, err := page(s, rows, in.NextToken)
	if err != nil {
		sendJSON(w, http.StatusBadRequest, form{"message": err.Error()}, "")
		return
	}
	if how == SamePage {
		next = "from-" + fmt.Sprint(s.world.PageSize)
	}
	name := map[string]string{"DescribeSavingsPlans": "savingsPlans", "DescribeSavingsPlanRates": "searchResults"}[operation]
	sendJSON(w, http.StatusOK, form{name: list}.set("nextToken", next), how)
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
