package auth_test

import (
	"testing"

	"plimsoll.dev/services/auth"
)

func TestRolesIncludeWhatStandsBelow(t *testing.T) {
	t.Parallel()
	all := []auth.Role{auth.RoleOwner, auth.RoleAdmin, auth.RoleOperator, auth.RoleFinance, auth.RoleViewer}
	allowed := map[auth.Role][]auth.Role{
		auth.RoleOwner:    all,
		auth.RoleAdmin:    {auth.RoleAdmin, auth.RoleOperator, auth.RoleFinance, auth.RoleViewer},
		auth.RoleOperator: {auth.RoleOperator, auth.RoleViewer},
		auth.RoleFinance:  {auth.RoleFinance, auth.RoleViewer},
		auth.RoleViewer:   {auth.RoleViewer},
		"":                nil,
		"superuser":       nil,
	}
	for role, may := range allowed {
		for _, need := range all {
			want := false
			for _, m := range may {
				want = want || m == need
			}
			if got := role.Allows(need); got != want {
				t.Errorf("%q for %q: %v, want %v", role, need, got, want)
			}
		}
	}
}
