package httpapi_test

import (
	"net/http"
	"testing"
)

func TestCloudGroupsBelongToAdmins(t *testing.T) {
	t.Parallel()
	y := openYard(t)
	path := "/api/v1/clusters/" + string(y.cluster)
	group := "/cloud-groups/0190b0e0-0000-7000-8000-000000000001"
	if got := y.json(y.viewer, http.MethodGet, path+"/cloud-groups", nil, 200); len(got["items"].([]any)) != 0 || len(got["actions"].([]any)) != 0 {
		t.Errorf("%v", got)
	}
	y.json(y.stranger, http.MethodGet, path+"/cloud-groups", nil, 404)
	body := map[string]any{"account_id": "0190b0e0-0000-7000-8000-000000000002", "ref": "us-east-1/gpu", "region": "us-east-1", "instance_types": []string{"g5.xlarge"}, "purchase": "spot", "min": 0, "max": 3}
	y.json(y.viewer, http.MethodPut, path+group, body, 403)
	y.json(y.viewer, http.MethodPost, path+"/cloud-group-actions/0190b0e0-0000-7000-8000-000000000003/undo", nil, 403)
}
