package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/oauth2/google"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/cloud/aws"
	"plimsoll.dev/services/cloud/azure"
	"plimsoll.dev/services/cloud/gcp"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/jobs"
)

// clouds opens accounts at clouds. At AWS the process's own identity takes the role that a tenant gave, guarded by the account's external
// id. Azure and Google have no such guard, so there the installation's own identity is used only where its operator says so: everybody who
// may add an account could otherwise have it read what another tenant let it read.
type clouds struct {
	azureToken string // path of the federated token; empty: only secrets
	gcp        bool   // whether service accounts may be impersonated
}

// readClouds reads PLIMSOLL_CLOUD_IDENTITY: azure, gcp or both, separated by a comma. Default none.
func readClouds() (c clouds, err error) {
	for word := range strings.SplitSeq(os.Getenv("PLIMSOLL_CLOUD_IDENTITY"), ",") {
		switch strings.TrimSpace(word) {
		case "":
		case "azure":
			if c.azureToken = os.Getenv("AZURE_FEDERATED_TOKEN_FILE"); c.azureToken == "" {
				return c, fleet.Errorf(fleet.CodeInvalid, "PLIMSOLL_CLOUD_IDENTITY names azure, but AZURE_FEDERATED_TOKEN_FILE is not set: run the service under an Azure workload identity")
			}
		case "gcp":
			c.gcp = true
		default:
			return c, fleet.Errorf(fleet.CodeInvalid, "PLIMSOLL_CLOUD_IDENTITY: %q is neither azure nor gcp", word)
		}
	}
	return c, nil
}

// amazon also estimates how likely Spot machines can be had.
type amazon struct{ *aws.Source }

// SpotScores implements jobs.PlacementScorer.
func (a amazon) SpotScores(ctx context.Context, instanceType string, machines int) ([]jobs.PlacementScore, error) {
	scores, err := a.PlacementScores(ctx, []string{instanceType}, machines)
	out := make([]jobs.PlacementScore, 0, len(scores))
	for _, s := range scores {
		out = append(out, jobs.PlacementScore(s))
	}
	return out, err
}

// account is what the adapters have in common.
type account interface {
	jobs.PriceSource
	Check(ctx context.Context) []cloud.Check
}

// Open makes the adapter of an account. It is a jobs.SourceOpener.
func (c clouds) Open(ctx context.Context, access cloud.Access) (jobs.PriceSource, error) {
	return c.open(ctx, access)
}

// Check implements httpapi.CloudChecker.
func (c clouds) Check(ctx context.Context, access cloud.Access) ([]cloud.Check, error) {
	a, err := c.open(ctx, access)
	if err != nil {
		return nil, err
	}
	return a.Check(ctx), nil
}

func (c clouds) open(ctx context.Context, access cloud.Access) (account, error) {
	if err := access.Validate(); err != nil {
		return nil, err
	}
	regions := slices.Clone(access.Regions)
	switch access.Cloud {
	case fleet.CloudAWS:
		source, err := aws.New(ctx, aws.Config{Access: *access.AWS, Regions: regions})
		if err != nil {
			return nil, err
		}
		return amazon{source}, nil
	case fleet.CloudAzure:
		return azure.New(c.azure(access, regions))
	case fleet.CloudGCP:
		cfg, err := c.google(ctx, access, regions)
		if err != nil {
			return nil, err
		}
		return gcp.New(cfg)
	}
	return nil, fleet.Errorf(fleet.CodeInvalid, "cloud %q is none of aws, azure and gcp", access.Cloud)
}

func (c clouds) azure(access cloud.Access, regions []string) azure.Config {
	cfg := azure.Config{Access: *access.Azure, Regions: regions}
	if c.azureToken != "" {
		cfg.Assertion = func(context.Context) (string, error) { // the file is renewed every hour or so
			token, err := os.ReadFile(c.azureToken)
			if err != nil {
				return "", fmt.Errorf("read federated token: %w", err)
			}
			return string(token), nil
		}
	}
	return cfg
}

func (c clouds) google(ctx context.Context, access cloud.Access, regions []string) (gcp.Config, error) {
	cfg := gcp.Config{Access: *access.GCP, Regions: regions}
	if c.gcp && cfg.Access.Key == "" {
		own, err := google.DefaultTokenSource(ctx, "https://www.googleapis.com/auth/cloud-platform")
		if err != nil {
			return cfg, &fleet.Error{Code: fleet.CodeUnavailable, Message: "the service has no identity at Google", Err: err}
		}
		cfg.Ambient = own
	}
	return cfg, nil
}

// OpenGroups makes what changes the sizes of an account's groups. It is a jobs.GroupOpener.
func (c clouds) OpenGroups(ctx context.Context, access cloud.Access) (cloud.Groups, error) {
	if err := access.Validate(); err != nil {
		return nil, err
	}
	regions := slices.Clone(access.Regions)
	switch access.Cloud {
	case fleet.CloudAWS:
		g, err := aws.NewGroups(ctx, aws.Config{Access: *access.AWS, Regions: regions})
		if err != nil {
			return nil, err
		}
		return g, nil
	case fleet.CloudAzure:
		g, err := azure.NewGroups(c.azure(access, regions))
		if err != nil {
			return nil, err
		}
		return g, nil
	case fleet.CloudGCP:
		cfg, err := c.google(ctx, access, regions)
		if err != nil {
			return nil, err
		}
		g, err := gcp.NewGroups(cfg)
		if err != nil {
			return nil, err
		}
		return g, nil
	}
	return nil, fleet.Errorf(fleet.CodeInvalid, "cloud %q is none of aws, azure and gcp", access.Cloud)
}
