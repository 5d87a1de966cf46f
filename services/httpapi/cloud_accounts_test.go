package httpapi_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/uuid"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/httpapi"
	"plimsoll.dev/services/store"
)

// checker answers as scripted and keeps what it was asked with.
type checker struct {
	asked  []cloud.Access
	checks []cloud.Check
	err    error
}

func (c *checker) Check(_ context.Context, a cloud.Access) ([]cloud.Check, error) {
	c.asked = append(c.asked, a)
	return c.checks, c.err
}

const (
	someRole  = `{"name": "Production", "cloud": "aws", "regions": ["us-east-1", "eu-west-1"], "aws": {"role_arn": "arn:aws:iam::123456789012:role/plimsoll"}}`
	someAzure = `{"name": "Azure", "cloud": "azure", "regions": ["eastus"], "azure": {"directory_id": "11111111-2222-3333-4444-555555555555", "client_id": "21111111-2222-3333-4444-555555555555", "client_secret": "hunter2-secret", "subscription_id": "31111111-2222-3333-4444-555555555555"}}`
	someKey   = `{"name": "Google", "cloud": "gcp", "regions": ["us-central1"], "gcp": {"project_id": "some-project", "key": "{\"type\": \"service_account\", \"client_email\": \"reader@some-project.iam.gserviceaccount.com\", \"private_key\": \"hunter2-key\"}"}}`
)

func TestCloudAccountsAreAddedTriedAndForgotten(t *testing.T) {
	t.Parallel()
	c := &checker{checks: []cloud.Check{{Name: "ec2:DescribeInstanceTypes"}, {Name: "pricing:GetProducts", Problem: "the credentials lack a permission: AccessDenied"}}}
	d := openDoor(t, doorOptions{clouds: c})
	admin, viewer := d.key(d.tenant.ID, auth.RoleAdmin), d.key(d.tenant.ID, auth.RoleViewer)
	as := func(key, method, path string, body any) answer {
		return d.call(method, path, body, "Authorization", "Bearer "+key)
	}
	as(viewer, "POST", "/api/v1/cloud-accounts", someRole).want(t, 403)
	as(d.key(d.tenant.ID, auth.RoleFinance), "POST", "/api/v1/cloud-accounts", someRole).want(t, 403)
	var role, azure, google httpapi.CloudAccount
	as(admin, "POST", "/api/v1/cloud-accounts", someRole).want(t, 201).into(t, &role)
	as(admin, "POST", "/api/v1/cloud-accounts", someAzure).want(t, 201).into(t, &azure)
	as(admin, "POST", "/api/v1/cloud-accounts", someKey).want(t, 201).into(t, &google)
	as(admin, "POST", "/api/v1/cloud-accounts", someRole).want(t, 409) // the name is taken
	if role.State != "new" || role.ExternalID != "plimsoll-"+role.ID || role.Subject != "arn:aws:iam::123456789012:role/plimsoll" || role.RefreshedAt != nil || role.Stale {
		t.Errorf("role: %+v", role)
	}
	if google.Subject != "reader@some-project.iam.gserviceaccount.com" || azure.Subject != "application 21111111-2222-3333-4444-555555555555" || azure.ExternalID != "" {
		t.Errorf("azure: %+v\ngoogle: %+v", azure, google)
	}
	list := as(viewer, "GET", "/api/v1/cloud-accounts", nil).want(t, 200)
	if text := string(list.body); strings.Contains(text, "hunter2") || !strings.Contains(text, role.ExternalID) {
		t.Errorf("list: %s", text)
	}
	as(viewer, "POST", "/api/v1/cloud-accounts/"+role.ID+"/validate", nil).want(t, 403)
	var checks httpapi.CloudChecks
	as(admin, "POST", "/api/v1/cloud-accounts/"+role.ID+"/validate", nil).want(t, 200).into(t, &checks)
	if checks.OK || len(checks.Checks) != 2 || !checks.Checks[0].OK || checks.Checks[1].OK || !strings.Contains(checks.Checks[1].Problem, "lack a permission") {
		t.Errorf("%+v", checks)
	}
	as(admin, "POST", "/api/v1/cloud-accounts/"+azure.ID+"/validate", nil).want(t, 200)
	if len(c.asked) != 2 || c.asked[0].AWS.ExternalID != role.ExternalID || c.asked[1].Azure.ClientSecret != "hunter2-secret" {
		t.Errorf("the checker was asked with %+v", c.asked)
	}
	c.err = fleet.Errorf(fleet.CodeInvalid, "this is no JSON key of a service account as Google makes them")
	refused := as(admin, "POST", "/api/v1/cloud-accounts/"+google.ID+"/validate", nil).want(t, 200)
	refused.into(t, &checks)
	if checks.OK || len(checks.Checks) != 1 || !strings.Contains(checks.Checks[0].Problem, "no JSON key") || strings.Contains(string(refused.body), "hunter2") {
		t.Errorf("%s", refused.body)
	}
	as(admin, "POST", "/api/v1/cloud-accounts/"+role.ID+"/refresh", nil).want(t, 202)
	as(admin, "DELETE", "/api/v1/cloud-accounts/"+role.ID, nil).want(t, 204)
	as(admin, "DELETE", "/api/v1/cloud-accounts/"+role.ID, nil).want(t, 404)
	as(admin, "POST", "/api/v1/cloud-accounts/"+role.ID+"/validate", nil).want(t, 404)
	as(admin, "POST", "/api/v1/cloud-accounts/"+uuid.NewString()+"/refresh", nil).want(t, 404)
	var sealed []byte
	if err := d.owner.QueryRow(context.Background(), `SELECT sealed FROM cloud_account WHERE id = $1`, azure.ID).Scan(&sealed); err != nil || strings.Contains(string(sealed), "hunter2") {
		t.Errorf("at rest: %q, %v", sealed, err)
	}
	var told string
	if err := d.owner.QueryRow(context.Background(), `SELECT string_agg(detail::text, ' ') FROM audit_log WHERE tenant_id = $1 AND action LIKE 'cloud_account.%'`, d.tenant.ID).Scan(&told); err != nil || strings.Contains(told, "hunter2") {
		t.Errorf("audit log: %s, %v", told, err)
	}
}

func TestAnAccountOfOneTenantIsNoneOfAnother(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{clouds: &checker{}})
	var mine httpapi.CloudAccount
	d.call("POST", "/api/v1/cloud-accounts", someRole, "Authorization", "Bearer "+d.key(d.tenant.ID, auth.RoleAdmin)).want(t, 201).into(t, &mine)
	other, _ := d.newTenant("Quay", "owner@quay.test")
	key := d.key(other.ID, auth.RoleAdmin)
	for _, c := range []struct{ method, path string }{{"DELETE", ""}, {"POST", "/validate"}, {"POST", "/refresh"}} {
		d.call(c.method, "/api/v1/cloud-accounts/"+mine.ID+c.path, nil, "Authorization", "Bearer "+key).want(t, 404)
	}
	var list struct{ Items []httpapi.CloudAccount }
	d.call("GET", "/api/v1/cloud-accounts", nil, "Authorization", "Bearer "+key).want(t, 200).into(t, &list)
	if len(list.Items) != 0 {
		t.Errorf("sees %+v", list.Items)
	}
	// A sealed access that is moved to a row of another tenant does not open there.
	moved := uuid.NewString()
	d.exec(`INSERT INTO cloud_account (tenant_id, id, cloud, name, subject, external_id, regions, sealed, next_at, created_by, created_at)
SELECT $1, $2, cloud, name, subject, external_id, regions, sealed, next_at, created_by, created_at FROM cloud_account WHERE id = $3`, other.ID, moved, mine.ID)
	d.call("POST", "/api/v1/cloud-accounts/"+moved+"/validate", nil, "Authorization", "Bearer "+key).want(t, 503)
}

func TestBadCloudAccountsAreRefusedInPlainWords(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	key := d.key(d.tenant.ID, auth.RoleAdmin)
	for name, c := range map[string]struct{ body, location, words string }{
		"a role that is none":          {`{"name": "a", "cloud": "aws", "regions": ["us-east-1"], "aws": {"role_arn": "admin"}}`, "body.aws.role_arn", "must be a role's ARN"},
		"access of another cloud":      {`{"name": "a", "cloud": "aws", "regions": ["us-east-1"], "gcp": {"project_id": "some-project", "key": "{}"}}`, "body.aws", "of this cloud"},
		"access of two clouds":         {strings.Replace(someRole, `"aws":`, `"gcp": {"project_id": "some-project", "key": "{}"}, "aws":`, 1), "body.aws", "no other"},
		"a region twice":               {`{"name": "a", "cloud": "aws", "regions": ["us-east-1", "us-east-1"], "aws": {"role_arn": "arn:aws:iam::123456789012:role/p"}}`, "body.regions", "twice"},
		"a region that ends a filter":  {`{"name": "a", "cloud": "azure", "regions": ["eastus' or 1 eq 1"], "azure": {"directory_id": "x", "client_id": "x", "subscription_id": "x"}}`, "body.regions", "no region's name"},
		"an id that leaves its path":   {strings.Replace(someAzure, "31111111-2222-3333-4444-555555555555", "../../providers/x", 1), "body.azure.subscription_id", "UUID"},
		"neither key nor account":      {`{"name": "a", "cloud": "gcp", "regions": ["us-central1"], "gcp": {"project_id": "some-project"}}`, "body.gcp", "give a key"},
		"an account that is no e-mail": {`{"name": "a", "cloud": "gcp", "regions": ["us-central1"], "gcp": {"project_id": "some-project", "service_account": "x/../y"}}`, "body.gcp.service_account", "e-mail"},
	} {
		a := d.call("POST", "/api/v1/cloud-accounts", c.body, "Authorization", "Bearer "+key).want(t, 422)
		var p struct {
			Detail string
			Errors []struct{ Location string }
		}
		a.into(t, &p)
		if len(p.Errors) != 1 || p.Errors[0].Location != c.location || !strings.Contains(p.Detail, c.words) {
			t.Errorf("%s: %s", name, a.body)
		}
	}
}

func TestPriceSourcesSayHowOldTheyAre(t *testing.T) {
	t.Parallel()
	d := openDoor(t, doorOptions{})
	ctx := context.Background()
	err := d.db.Global(ctx, func(tx *store.Tx) error {
		for _, kind := range []string{"on_demand", "spot"} {
			if err := store.SavePriceSource(ctx, tx, store.PriceSource{Cloud: fleet.CloudAWS, Region: "us-east-1", Kind: kind, Source: "aws price list", Listed: 7, Skipped: map[string]int{"currency": 2},
				Doubted: []store.DoubtedPrice{{InstanceType: "p3.2xlarge", Hour: "36.08", Expected: "3.06"}}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	d.exec(`UPDATE price_source SET refreshed_at = refreshed_at - interval '27 hours' WHERE kind = 'spot'`)
	var list struct{ Items []httpapi.PriceSource }
	a := d.call("GET", "/api/v1/price-sources", nil, "Authorization", "Bearer "+d.key(d.tenant.ID, auth.RoleViewer)).want(t, 200)
	a.into(t, &list)
	if len(list.Items) != 2 || list.Items[0].Stale || list.Items[0].AgeSeconds > 60 || !list.Items[1].Stale || list.Items[1].AgeSeconds < 27*3600 || list.Items[0].Skipped["currency"] != 2 || list.Items[0].Doubted[0].Expected != "3.06" {
		t.Errorf("%s", a.body)
	}
	if !json.Valid(a.body) {
		t.Error("no JSON")
	}
}
