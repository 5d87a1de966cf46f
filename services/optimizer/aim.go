package optimizer

import (
	"reflect"
	"regexp"
	"strconv"

	"plimsoll.dev/services/fleet"
)

var (
	aimLine  = regexp.MustCompile(`(\baim_share:[ \t]*)[0-9.eE+-]+`)
	sloFlow  = regexp.MustCompile(`(?m)^(slo:[ \t]*\{)[ \t]*`)
	sloBlock = regexp.MustCompile(`(?m)^slo:[ \t]*(#[^\n]*)?\n((?:[ \t]*(?:#[^\n]*)?\n)*)([ \t]+)`)
)

// AimDocument writes another aim_share into a policy as somebody wrote it, comments and order kept. The error is a *fleet.Error: the document has no slo rule,
// or is written in a way that cannot be changed without touching anything else.
func AimDocument(document string, aim float64) (string, error) {
	before, findings := ParsePolicy([]byte(document))
	if HasErrors(findings) || before.SLO == nil {
		return "", fleet.Errorf(fleet.CodeInvalid, "the policy has no slo rule that can be used")
	}
	text := strconv.FormatFloat(aim, 'g', -1, 64)
	var out string
	switch {
	case aimLine.MatchString(document):
		out = aimLine.ReplaceAllString(document, "${1}"+text)
	case sloFlow.MatchString(document):
		out = sloFlow.ReplaceAllString(document, "${1}aim_share: "+text+", ")
	default:
		out = sloBlock.ReplaceAllString(document, "slo:${1}\n${2}${3}aim_share: "+text+"\n${3}")
	}
	want := before
	slo := *before.SLO
	slo.AimShare = aim
	want.SLO = &slo
	after, findings := ParsePolicy([]byte(out))
	if HasErrors(findings) || !reflect.DeepEqual(after, want) {
		return "", fleet.Errorf(fleet.CodeInvalid, "the policy is written in a way in which aim_share cannot be changed alone")
	}
	return out, nil
}
