package cloud

import (
	"encoding/json"
	"regexp"

	"plimsoll.dev/services/fleet"
)

// Access is how a tenant lets Plimsoll read its cloud account. Exactly the part of its cloud is set. It is kept sealed: it may hold secrets.
type Access struct {
	Cloud   fleet.Cloud  `json:"cloud"`
	Regions []string     `json:"regions"`
	AWS     *AWSAccess   `json:"aws,omitempty"`
	Azure   *AzureAccess `json:"azure,omitempty"`
	GCP     *GCPAccess   `json:"gcp,omitempty"`
}

// AWSAccess is a role in the tenant's account. The external id is ours, one per account, so that nobody can have us take a role that
// another tenant gave.
type AWSAccess struct {
	RoleARN    string `json:"role_arn"`
	ExternalID string `json:"external_id"`
}

// AzureAccess is an application in the tenant's directory. Without a secret, the installation's own federated token is used.
type AzureAccess struct {
	DirectoryID    string `json:"directory_id"`
	ClientID       string `json:"client_id"`
	ClientSecret   string `json:"client_secret,omitempty"`
	SubscriptionID string `json:"subscription_id"`
}

// GCPAccess is a service account of the tenant: its key, or its name to be impersonated by the installation's own identity.
type GCPAccess struct {
	ProjectID      string `json:"project_id"`
	Key            string `json:"key,omitempty"` // the JSON key file
	ServiceAccount string `json:"service_account,omitempty"`
}

const (
	// MaxRegions of an account.
	MaxRegions = 40
	maxKey     = 16 << 10
)

var (
	roleARN   = regexp.MustCompile(`^arn:aws(-cn|-us-gov)?:iam::[0-9]{12}:role/[\w+=,.@/-]{1,512}$`)
	guid      = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	project   = regexp.MustCompile(`^[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	robot     = regexp.MustCompile(`^[a-z0-9-]{1,63}@[a-z0-9-]{1,63}\.iam\.gserviceaccount\.com$`)
	regionGen = regexp.MustCompile(`^[a-z0-9-]{3,40}$`)
)

// Validate says what is wrong with what a person wrote, before any cloud is asked.
func (a *Access) Validate() error {
	if len(a.Regions) == 0 || len(a.Regions) > MaxRegions {
		return invalid("regions", "name 1 to %d regions", MaxRegions)
	}
	seen := map[string]bool{}
	for _, r := range a.Regions {
		if !regionGen.MatchString(r) || seen[r] {
			return invalid("regions", "%.40q is no region's name, or is there twice", r)
		}
		seen[r] = true
	}
	if (a.AWS != nil) != (a.Cloud == fleet.CloudAWS) || (a.Azure != nil) != (a.Cloud == fleet.CloudAzure) || (a.GCP != nil) != (a.Cloud == fleet.CloudGCP) {
		return invalid(string(a.Cloud), "give the access of this cloud, and of no other")
	}
	switch a.Cloud {
	case fleet.CloudAWS:
		return a.AWS.validate()
	case fleet.CloudAzure:
		return a.Azure.validate()
	case fleet.CloudGCP:
		return a.GCP.validate()
	}
	return invalid("cloud", "must be aws, azure or gcp")
}

func (a *AWSAccess) validate() error {
	if !roleARN.MatchString(a.RoleARN) {
		return invalid("aws.role_arn", "must be a role's ARN, such as arn:aws:iam::123456789012:role/plimsoll")
	}
	return nil
}

func (a *AzureAccess) validate() error {
	switch {
	case !guid.MatchString(a.DirectoryID):
		return invalid("azure.directory_id", "must be the directory's id, a UUID")
	case !guid.MatchString(a.ClientID):
		return invalid("azure.client_id", "must be the application's id, a UUID")
	case !guid.MatchString(a.SubscriptionID):
		return invalid("azure.subscription_id", "must be the subscription's id, a UUID")
	case len(a.ClientSecret) > 512:
		return invalid("azure.client_secret", "is longer than any secret of Azure")
	}
	return nil
}

func (a *GCPAccess) validate() error {
	switch {
	case !project.MatchString(a.ProjectID):
		return invalid("gcp.project_id", "must be a project's id")
	case (a.Key == "") == (a.ServiceAccount == ""):
		return invalid("gcp", "give a key, or the name of a service account")
	case len(a.Key) > maxKey:
		return invalid("gcp.key", "is larger than any key file")
	case a.Key == "" && !robot.MatchString(a.ServiceAccount):
		return invalid("gcp.service_account", "must be the e-mail address of a service account")
	}
	return nil
}

// Check is the outcome of trying one thing that an account must allow.
type Check struct {
	Name    string // what was tried, in the cloud's words
	Problem string // empty: it works
}

func invalid(field, format string, args ...any) error {
	e := fleet.Errorf(fleet.CodeInvalid, format, args...)
	e.Field = field
	return e
}

// Subject names who is used, without any secret.
func (a *Access) Subject() string {
	switch {
	case a.AWS != nil:
		return a.AWS.RoleARN
	case a.Azure != nil:
		return "application " + a.Azure.ClientID
	case a.GCP != nil && a.GCP.ServiceAccount != "":
		return a.GCP.ServiceAccount
	case a.GCP != nil:
		var key struct {
			Email string `json:"client_email"`
		}
		_ = json.Unmarshal([]byte(a.GCP.Key), &key)
		return Clip(key.Email)
	}
	return ""
}

// AccessPurpose is what the access of an account is sealed for.
func AccessPurpose(tenant fleet.TenantID, account string) string {
	return "cloud-account/" + string(tenant) + "/" + account
}

// OpenAccess reads what was sealed of an account. Errors never quote it.
func OpenAccess(open func(purpose string, sealed []byte) ([]byte, error), tenant fleet.TenantID, account string, sealed []byte) (access Access, err error) {
	plain, err := open(AccessPurpose(tenant, account), sealed)
	if err != nil {
		return access, &fleet.Error{Code: fleet.CodeUnavailable, Message: "the account's access cannot be opened with the present key; make the account anew", Err: err}
	}
	if json.Unmarshal(plain, &access) != nil {
		return access, fleet.Errorf(fleet.CodeInternal, "the account's access is damaged; make the account anew")
	}
	return access, nil
}
