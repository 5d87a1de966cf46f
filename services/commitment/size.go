package commitment

import (
	"slices"
	"strconv"
	"strings"

	"plimsoll.dev/services/fleet"
)

// sizeUnits are Amazon's normalisation factors of sizes below xlarge, in thousandths; n times xlarge is n times 8.
var sizeUnits = map[string]int64{"nano": 250, "micro": 500, "small": 1000, "medium": 2000, "large": 4000, "xlarge": 8000}

// fixedFamilies are those for which Amazon sells no size flexibility.
var fixedFamilies = []string{"g4ad", "g4dn", "g5", "g5g", "g6", "g6e", "g6f", "gr6", "gr6f", "hpc7a", "inf1", "inf2", "p5"}

// NormalisationMilli is Amazon's normalisation factor of a type in thousandths: 8000 for m5.xlarge. 0 when its size has none.
func NormalisationMilli(instanceType string) int64 {
	_, size, ok := strings.Cut(instanceType, ".")
	if !ok {
		return 0
	}
	if f, ok := sizeUnits[size]; ok {
		return f
	}
	if n, ok := strings.CutSuffix(size, "xlarge"); ok {
		if v, err := strconv.ParseInt(n, 10, 32); err == nil && v > 1 && v <= 1000 {
			return v * 8000
		}
	}
	return 0
}

// Family is the part of a type's name that plans and size flexibility go by: "m5" of m5.xlarge, "n2" of n2-standard-8. Azure's names do not
// tell; the whole name is then the family.
func Family(cloud fleet.Cloud, instanceType string) string {
	cut := map[fleet.Cloud]string{fleet.CloudAWS: ".", fleet.CloudGCP: "-"}[cloud]
	if cut == "" {
		return instanceType
	}
	family, _, _ := strings.Cut(instanceType, cut)
	return family
}

// flexible says whether a regional RI covers other sizes of its family.
func (c *Commitment) flexible() bool {
	if NormalisationMilli(c.InstanceType) == 0 {
		return false
	}
	if c.Flexible != nil {
		return *c.Flexible
	}
	return !slices.Contains(fixedFamilies, Family(fleet.CloudAWS, c.InstanceType))
}

// ratio of a type in an Azure flexibility group, in thousandths; 0: not in it. Without ratios the type alone is in it.
func (c *Commitment) ratio(instanceType string) int64 {
	for _, r := range c.Ratios {
		if r.InstanceType == instanceType {
			return r.Milli
		}
	}
	if len(c.Ratios) == 0 && instanceType == c.InstanceType {
		return 1000
	}
	return 0
}
