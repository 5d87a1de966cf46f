// Package aws reads prices, machines, Spot history and commitments from Amazon's APIs, as a role that a tenant gave, and sets the size of
// Auto Scaling groups where it is told to. It returns numbers and names; it decides nothing and changes nothing else in the account.
package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/savingsplans"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"plimsoll.dev/services/cloud"
	"plimsoll.dev/services/fleet"
)

// Config of a Source.
type Config struct {
	Access  cloud.AWSAccess
	Regions []string // whose commitments are read
	// Base is who takes the role; nil: whoever the process is, by Amazon's own chain (environment, web identity, instance).
	Base aws.CredentialsProvider
	// Endpoint and HTTP serve all calls instead of Amazon, where Base is given; for tests. Empty: Amazon.
	Endpoint string
	HTTP     *http.Client
	Retry    cloud.Retry
	Deadline time.Duration // of one list; default 10 minutes
}

// The calls that are made, and no others: what they need stands in docs/guides/cloud-accounts.md as a policy.
type (
	ec2API interface {
		DescribeInstanceTypes(context.Context, *ec2.DescribeInstanceTypesInput, ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error)
		DescribeSpotPriceHistory(context.Context, *ec2.DescribeSpotPriceHistoryInput, ...func(*ec2.Options)) (*ec2.DescribeSpotPriceHistoryOutput, error)
		DescribeReservedInstances(context.Context, *ec2.DescribeReservedInstancesInput, ...func(*ec2.Options)) (*ec2.DescribeReservedInstancesOutput, error)
		DescribeCapacityReservations(context.Context, *ec2.DescribeCapacityReservationsInput, ...func(*ec2.Options)) (*ec2.DescribeCapacityReservationsOutput, error)
		GetSpotPlacementScores(context.Context, *ec2.GetSpotPlacementScoresInput, ...func(*ec2.Options)) (*ec2.GetSpotPlacementScoresOutput, error)
	}
	pricingAPI interface {
		GetProducts(context.Context, *pricing.GetProductsInput, ...func(*pricing.Options)) (*pricing.GetProductsOutput, error)
	}
	plansAPI interface {
		DescribeSavingsPlans(context.Context, *savingsplans.DescribeSavingsPlansInput, ...func(*savingsplans.Options)) (*savingsplans.DescribeSavingsPlansOutput, error)
		DescribeSavingsPlanRates(context.Context, *savingsplans.DescribeSavingsPlanRatesInput, ...func(*savingsplans.Options)) (*savingsplans.DescribeSavingsPlanRatesOutput, error)
	}
)

// Source reads one account. Safe for concurrent use.
type Source struct {
	cfg     Config
	ec2     ec2API
	pricing pricingAPI
	plans   plansAPI
}

// The price list and the plans have one door for all regions.
const globalRegion = "us-east-1"

// New makes a Source; no call is made before the first list.
func New(ctx context.Context, cfg Config) (*Source, error) {
	if len(cfg.Regions) == 0 {
		return nil, fleet.Errorf(fleet.CodeInvalid, "name the regions of the account")
	}
	if cfg.Deadline <= 0 {
		cfg.Deadline = 10 * time.Minute
	}
	c, err := configure(ctx, cfg)
	if err != nil {
		return nil, err
	}
	global := c.Copy()
	global.Region = globalRegion
	return &Source{cfg: cfg, ec2: ec2.NewFromConfig(c), pricing: pricing.NewFromConfig(global), plans: savingsplans.NewFromConfig(global)}, nil
}

// configure is how calls are made: by whom, as the tenant's role where there is one.
func configure(ctx context.Context, cfg Config) (aws.Config, error) {
	c, err := base(ctx, cfg)
	if err != nil || cfg.Access.RoleARN == "" {
		return c, err
	}
	role := stscreds.NewAssumeRoleProvider(sts.NewFromConfig(c), cfg.Access.RoleARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = "plimsoll"
		o.ExternalID = aws.String(cfg.Access.ExternalID)
	})
	c.Credentials = aws.NewCredentialsCache(role)
	return c, nil
}

// base is who calls, before any role is taken. What is given is used alone, without a look at the process's surroundings.
func base(ctx context.Context, cfg Config) (aws.Config, error) {
	attempts := cfg.Retry.WithDefaults()
	retryer := func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = attempts.Attempts, attempts.Max
			o.Retryables = append(slices.Clone(retry.DefaultRetryables), retry.IsErrorRetryableFunc(brokenOff))
		})
	}
	if cfg.Base == nil {
		c, err := config.LoadDefaultConfig(ctx, config.WithRegion(cfg.Regions[0]), config.WithRetryer(retryer), config.WithHTTPClient(newHTTP()))
		if err != nil {
			return c, fmt.Errorf("configure AWS: %w", err)
		}
		return c, nil
	}
	c := aws.Config{Region: cfg.Regions[0], Credentials: cfg.Base, Retryer: retryer, HTTPClient: newHTTP()}
	if cfg.Endpoint != "" {
		c.BaseEndpoint = aws.String(cfg.Endpoint)
	}
	if cfg.HTTP != nil {
		c.HTTPClient = cfg.HTTP
	}
	return c, nil
}

// brokenOff says that an answer which ended early is worth another attempt; the SDK gives up on it. All calls here only read.
func brokenOff(err error) aws.Ternary {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

// callTimeout of one attempt; the SDK's client has none.
const callTimeout = time.Minute

func newHTTP() *awshttp.BuildableClient { return awshttp.NewBuildableClient().WithTimeout(callTimeout) }

// in sends a call of EC2 to a region.
func in(region string) func(*ec2.Options) {
	return func(o *ec2.Options) { o.Region = region }
}

// list bounds one list in time and makes its errors readable.
func (s *Source) list(ctx context.Context, what string, fetch func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Deadline)
	defer cancel()
	if err := fetch(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, explain(err))
	}
	return nil
}

// explain gives an error of the SDK a code and words for people.
func explain(err error) error {
	var known *fleet.Error
	if errors.As(err, &known) {
		return err
	}
	var api smithy.APIError
	var http *smithyhttp.ResponseError
	status := 0
	if errors.As(err, &http) {
		status = http.HTTPStatusCode()
	}
	if !errors.As(err, &api) {
		return &fleet.Error{Code: fleet.CodeUnavailable, Message: "the cloud cannot be reached, or its answer cannot be read", Err: err}
	}
	code := api.ErrorCode()
	switch {
	case slices.Contains(throttled, code):
		status = 429
	case slices.Contains(strangers, code):
		status = 401
	case slices.Contains(forbidden, code):
		status = 403
	}
	refused := cloud.Refused(status, code, api.ErrorMessage())
	if errors.As(refused, &known) {
		known.Err = err
	}
	return refused
}

// Codes of errors by what they mean; the status alone does not tell, since EC2 answers most of them with 400 or 503.
var (
	throttled = []string{"RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException", "RequestThrottled"}
	strangers = []string{"AuthFailure", "InvalidClientTokenId", "UnrecognizedClientException", "ExpiredToken", "ExpiredTokenException", "SignatureDoesNotMatch", "InvalidAccessKeyId"}
	forbidden = []string{"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "OptInRequired"}
)

// Check tries each call with the smallest answer it has.
func (s *Source) Check(ctx context.Context) []cloud.Check {
	region := s.cfg.Regions[0]
	tries := []struct {
		name string
		try  func(ctx context.Context) error
	}{
		{"ec2:DescribeInstanceTypes", func(ctx context.Context) error {
			_, err := s.ec2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(5)}, in(region))
			return err
		}},
		{"ec2:DescribeSpotPriceHistory", func(ctx context.Context) error {
			_, err := s.ec2.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{MaxResults: aws.Int32(1)}, in(region))
			return err
		}},
		{"ec2:DescribeReservedInstances", func(ctx context.Context) error {
			_, err := s.ec2.DescribeReservedInstances(ctx, activeReservations(), in(region))
			return err
		}},
		{"ec2:DescribeCapacityReservations", func(ctx context.Context) error {
			_, err := s.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{MaxResults: aws.Int32(1)}, in(region))
			return err
		}},
		{"pricing:GetProducts", func(ctx context.Context) error {
			_, err := s.pricing.GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: aws.String(serviceCode), MaxResults: aws.Int32(1)})
			return err
		}},
		{"savingsplans:DescribeSavingsPlans", func(ctx context.Context) error {
			_, err := s.plans.DescribeSavingsPlans(ctx, &savingsplans.DescribeSavingsPlansInput{MaxResults: aws.Int32(1)})
			return err
		}},
	}
	out := make([]cloud.Check, 0, len(tries))
	for _, t := range tries {
		c := cloud.Check{Name: t.name}
		if err := s.list(ctx, t.name, t.try); err != nil {
			c.Problem = cloud.Problem(err)
		}
		out = append(out, c)
	}
	return out
}
