// Package focus writes costs in the FinOps Open Cost and Usage Specification (FOCUS 1.2 with the split columns of 1.3) and checks files
// against its rules. A machine's hour is an origin charge; what each workload, idle and overhead bear of it are the allocated charges,
// and every summable metric of these adds up to the origin's, to the last nano-unit. It is pure.
package focus

// Col is a column of our export. Its value is the column's place.
type Col int

// Columns of FOCUS in alphabetical order, then those of FOCUS 1.3 that describe a split, then our own.
const (
	AvailabilityZone Col = iota
	BilledCost
	BillingAccountID
	BillingAccountName
	BillingAccountType
	BillingCurrency
	BillingPeriodEnd
	BillingPeriodStart
	CapacityReservationID
	CapacityReservationStatus
	ChargeCategory
	ChargeClass
	ChargeDescription
	ChargeFrequency
	ChargePeriodEnd
	ChargePeriodStart
	CommitmentDiscountCategory
	CommitmentDiscountID
	CommitmentDiscountName
	CommitmentDiscountQuantity
	CommitmentDiscountStatus
	CommitmentDiscountType
	CommitmentDiscountUnit
	ConsumedQuantity
	ConsumedUnit
	ContractedCost
	ContractedUnitPrice
	EffectiveCost
	InvoiceID
	InvoiceIssuerName
	ListCost
	ListUnitPrice
	PricingCategory
	PricingCurrency
	PricingCurrencyContractedUnitPrice
	PricingCurrencyEffectiveCost
	PricingCurrencyListUnitPrice
	PricingQuantity
	PricingUnit
	ProviderName
	PublisherName
	RegionID
	RegionName
	ResourceID
	ResourceName
	ResourceType
	ServiceCategory
	ServiceName
	ServiceSubcategory
	SkuID
	SkuMeter
	SkuPriceDetails
	SkuPriceID
	SubAccountID
	SubAccountName
	SubAccountType
	Tags
	AllocatedMethodDetails
	AllocatedMethodID
	AllocatedResourceID
	AllocatedResourceName
	AllocatedTags
	HostProviderName
	ServiceProviderName
	XAsOf
	XCapacityType
	XCostKind
	XCPUCost
	XFinding
	XGPUCost
	XHourVersion
	XMemoryCost
	XNamespace
	XOriginBilledCost
	XOriginChargeID
	XOriginContractedCost
	XOriginEffectiveCost
	XOriginListCost
	XOriginPricingQuantity
	XPriceSource
	XTeam
	XWorkloadID
	numCols
)

// Kind of a column's values.
type valueKind int

const (
	kindString valueKind = iota
	kindDecimal
	kindTime
	kindObject
	kindUnit
	kindCurrency
)

// column says what FOCUS demands of one column. The version is that in which it appeared.
type column struct {
	name    string
	version string
	kind    valueKind
	must    bool     // present in every file
	notNull bool     // a value in every row
	values  []string // the only values allowed
}

var serviceCategories = []string{"AI and Machine Learning", "Analytics", "Business Applications", "Compute", "Databases", "Developer Tools", "Multicloud", "Identity",
	"Integration", "Internet of Things", "Management and Governance", "Media", "Migration", "Mobile", "Networking", "Security", "Storage", "Web", "Other"}

var columns = [numCols]column{
	AvailabilityZone:                   {name: "AvailabilityZone", version: "0.5"},
	BilledCost:                         {name: "BilledCost", version: "0.5", kind: kindDecimal, must: true, notNull: true},
	BillingAccountID:                   {name: "BillingAccountId", version: "0.5", must: true, notNull: true},
	BillingAccountName:                 {name: "BillingAccountName", version: "0.5", must: true},
	BillingAccountType:                 {name: "BillingAccountType", version: "1.2"},
	BillingCurrency:                    {name: "BillingCurrency", version: "0.5", kind: kindCurrency, must: true, notNull: true},
	BillingPeriodEnd:                   {name: "BillingPeriodEnd", version: "0.5", kind: kindTime, must: true, notNull: true},
	BillingPeriodStart:                 {name: "BillingPeriodStart", version: "0.5", kind: kindTime, must: true, notNull: true},
	CapacityReservationID:              {name: "CapacityReservationId", version: "1.1"},
	CapacityReservationStatus:          {name: "CapacityReservationStatus", version: "1.1", values: []string{"Used", "Unused"}},
	ChargeCategory:                     {name: "ChargeCategory", version: "1.0", must: true, notNull: true, values: []string{"Usage", "Purchase", "Tax", "Credit", "Adjustment"}},
	ChargeClass:                        {name: "ChargeClass", version: "1.0", must: true, values: []string{"Correction"}},
	ChargeDescription:                  {name: "ChargeDescription", version: "1.0", must: true},
	ChargeFrequency:                    {name: "ChargeFrequency", version: "1.0", notNull: true, values: []string{"One-Time", "Recurring", "Usage-Based"}},
	ChargePeriodEnd:                    {name: "ChargePeriodEnd", version: "0.5", kind: kindTime, must: true, notNull: true},
	ChargePeriodStart:                  {name: "ChargePeriodStart", version: "0.5", kind: kindTime, must: true, notNull: true},
	CommitmentDiscountCategory:         {name: "CommitmentDiscountCategory", version: "1.0", values: []string{"Spend", "Usage"}},
	CommitmentDiscountID:               {name: "CommitmentDiscountId", version: "1.0"},
	CommitmentDiscountName:             {name: "CommitmentDiscountName", version: "1.0"},
	CommitmentDiscountQuantity:         {name: "CommitmentDiscountQuantity", version: "1.1", kind: kindDecimal},
	CommitmentDiscountStatus:           {name: "CommitmentDiscountStatus", version: "1.0", values: []string{"Used", "Unused"}},
	CommitmentDiscountType:             {name: "CommitmentDiscountType", version: "1.0"},
	CommitmentDiscountUnit:             {name: "CommitmentDiscountUnit", version: "1.1", kind: kindUnit},
	ConsumedQuantity:                   {name: "ConsumedQuantity", version: "1.0", kind: kindDecimal},
	ConsumedUnit:                       {name: "ConsumedUnit", version: "1.0", kind: kindUnit},
	ContractedCost:                     {name: "ContractedCost", version: "1.0", kind: kindDecimal, must: true, notNull: true},
	ContractedUnitPrice:                {name: "ContractedUnitPrice", version: "1.0", kind: kindDecimal},
	EffectiveCost:                      {name: "EffectiveCost", version: "1.0", kind: kindDecimal, must: true, notNull: true},
	InvoiceID:                          {name: "InvoiceId", version: "1.2"},
	InvoiceIssuerName:                  {name: "InvoiceIssuerName", version: "0.5", must: true, notNull: true},
	ListCost:                           {name: "ListCost", version: "1.0", kind: kindDecimal, must: true, notNull: true},
	ListUnitPrice:                      {name: "ListUnitPrice", version: "1.0", kind: kindDecimal},
	PricingCategory:                    {name: "PricingCategory", version: "1.0", values: []string{"Standard", "Dynamic", "Committed", "Other"}},
	PricingCurrency:                    {name: "PricingCurrency", version: "1.2", kind: kindCurrency},
	PricingCurrencyContractedUnitPrice: {name: "PricingCurrencyContractedUnitPrice", version: "1.2", kind: kindDecimal},
	PricingCurrencyEffectiveCost:       {name: "PricingCurrencyEffectiveCost", version: "1.2", kind: kindDecimal},
	PricingCurrencyListUnitPrice:       {name: "PricingCurrencyListUnitPrice", version: "1.2", kind: kindDecimal},
	PricingQuantity:                    {name: "PricingQuantity", version: "1.0", kind: kindDecimal, must: true},
	PricingUnit:                        {name: "PricingUnit", version: "1.0", kind: kindUnit, must: true},
	ProviderName:                       {name: "ProviderName", version: "0.5", must: true, notNull: true},
	PublisherName:                      {name: "PublisherName", version: "0.5", must: true, notNull: true},
	RegionID:                           {name: "RegionId", version: "1.0"},
	RegionName:                         {name: "RegionName", version: "1.0"},
	ResourceID:                         {name: "ResourceId", version: "0.5"},
	ResourceName:                       {name: "ResourceName", version: "0.5"},
	ResourceType:                       {name: "ResourceType", version: "1.0"},
	ServiceCategory:                    {name: "ServiceCategory", version: "0.5", must: true, notNull: true, values: serviceCategories},
	ServiceName:                        {name: "ServiceName", version: "0.5", must: true, notNull: true},
	ServiceSubcategory:                 {name: "ServiceSubcategory", version: "1.1", notNull: true},
	SkuID:                              {name: "SkuId", version: "1.0"},
	SkuMeter:                           {name: "SkuMeter", version: "1.1"},
	SkuPriceDetails:                    {name: "SkuPriceDetails", version: "1.1", kind: kindObject},
	SkuPriceID:                         {name: "SkuPriceId", version: "1.0"},
	SubAccountID:                       {name: "SubAccountId", version: "0.5"},
	SubAccountName:                     {name: "SubAccountName", version: "0.5"},
	SubAccountType:                     {name: "SubAccountType", version: "1.2"},
	Tags:                               {name: "Tags", version: "1.0", kind: kindObject},
	AllocatedMethodDetails:             {name: "AllocatedMethodDetails", version: "1.3", kind: kindObject},
	AllocatedMethodID:                  {name: "AllocatedMethodId", version: "1.3"},
	AllocatedResourceID:                {name: "AllocatedResourceId", version: "1.3"},
	AllocatedResourceName:              {name: "AllocatedResourceName", version: "1.3"},
	AllocatedTags:                      {name: "AllocatedTags", version: "1.3", kind: kindObject},
	HostProviderName:                   {name: "HostProviderName", version: "1.3"},
	ServiceProviderName:                {name: "ServiceProviderName", version: "1.3"},
	XAsOf:                              {name: "x_AsOf", kind: kindTime},
	XCapacityType:                      {name: "x_CapacityType"},
	XCostKind:                          {name: "x_CostKind"},
	XCPUCost:                           {name: "x_CpuCost", kind: kindDecimal},
	XFinding:                           {name: "x_Finding"},
	XGPUCost:                           {name: "x_GpuCost", kind: kindDecimal},
	XHourVersion:                       {name: "x_HourVersion", kind: kindDecimal},
	XMemoryCost:                        {name: "x_MemoryCost", kind: kindDecimal},
	XNamespace:                         {name: "x_Namespace"},
	XOriginBilledCost:                  {name: "x_OriginBilledCost", kind: kindDecimal},
	XOriginChargeID:                    {name: "x_OriginChargeId"},
	XOriginContractedCost:              {name: "x_OriginContractedCost", kind: kindDecimal},
	XOriginEffectiveCost:               {name: "x_OriginEffectiveCost", kind: kindDecimal},
	XOriginListCost:                    {name: "x_OriginListCost", kind: kindDecimal},
	XOriginPricingQuantity:             {name: "x_OriginPricingQuantity", kind: kindDecimal},
	XPriceSource:                       {name: "x_PriceSource"},
	XTeam:                              {name: "x_Team"},
	XWorkloadID:                        {name: "x_WorkloadId"},
}

// exported lists the columns of our files. The PricingCurrency columns are for those who price and bill in different currencies.
var exported = func() (list []Col) {
	for c := range numCols {
		if c < PricingCurrency || c > PricingCurrencyListUnitPrice {
			list = append(list, c)
		}
	}
	return list
}()

var byName = func() map[string]Col {
	m := make(map[string]Col, numCols)
	for c, d := range columns {
		m[d.name] = Col(c)
	}
	return m
}()

// String is the column's name in a file.
func (c Col) String() string { return columns[c].name }

// Row is one charge: a value per column, empty for null.
type Row [numCols]string
