package commitment_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plimsoll.dev/services/commitment"
	"plimsoll.dev/services/fleet"
)

const sheet = "\ufeffkind, REF ,region,zone,instance_type,quantity,upfront,recurring_hour,hourly_commitment,discount_percent,rates,resource,family,starts_at,ends_at,owner\n" +
	"aws_zonal_ri,ri-1,us-east-1,us-east-1a,p5.48xlarge,2,1000.50,40.25,,,,,,2026-01-01,2027-01-01T00:00:00Z,ml\n" +
	"aws_compute_sp,sp-1,,,,,,,12.5,27.5,\"p5.48xlarge@us-east-1=60.1; m5.*=30%\",,,2026-01-01,2029-01-01,\n" +
	"gcp_resource_cud,cud-1,us-central1,,,64,,1.5,,,,memory,n2,2026-01-01,2027-01-01,\n"

func TestReadCSV(t *testing.T) {
	t.Parallel()
	got, err := commitment.ReadCSV([]byte(sheet), "USD")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 {
		t.Fatalf("read %d", len(got))
	}
	if c := got[0]; c.Quantity != 2000 || c.Upfront != usd("1000.5") || c.Recurring != usd("40.25") || c.Owner != "ml" || c.Term.To.Year() != 2027 {
		t.Errorf("%+v", c)
	}
	if c := got[1]; c.Spend != usd("12.5") || c.DiscountPPM != 275_000 || len(c.Rates) != 2 || *c.Rates[0].Hour != usd("60.1") || c.Rates[0].Region != "us-east-1" || c.Rates[1].Family != "m5" || c.Rates[1].DiscountPPM != 300_000 {
		t.Errorf("%+v", c)
	}
	if c := got[2]; c.Quantity != 64*1024 {
		t.Errorf("64 GiB are %d MiB", c.Quantity)
	}
	again, err := commitment.ReadJSON([]byte(`[{"kind":"aws_zonal_ri","ref":"ri-1","region":"us-east-1","zone":"us-east-1a","instance_type":"p5.48xlarge","quantity":2,"upfront":1000.50,
"recurring_hour":"40.25","starts_at":"2026-01-01","ends_at":"2027-01-01","owner":"ml","family":null}]`), "USD")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(got[:1], again); d != "" {
		t.Errorf("JSON reads otherwise than CSV:\n%s", d)
	}
}

func TestImportNamesRowAndColumn(t *testing.T) {
	t.Parallel()
	const head = "ref,kind,region,zone,instance_type,quantity,recurring_hour,starts_at,ends_at\n"
	const good = "a,aws_zonal_ri,r,z,m5.large,1,0.1,2026-01-01,2027-01-01\n"
	for _, c := range []struct{ name, text, field string }{
		{"no quantity", head + good + "b,aws_zonal_ri,r,z,m5.large,,0.1,2026-01-01,2027-01-01\n", "row 3.quantity"},
		{"half a machine", head + "b,aws_zonal_ri,r,z,m5.large,0.5,0.1,2026-01-01,2027-01-01\n", "row 2.quantity"},
		{"a price that is no number", head + "b,aws_zonal_ri,r,z,m5.large,1,1e9,2026-01-01,2027-01-01\n", "row 2.recurring_hour"},
		{"a negative price", head + "b,aws_zonal_ri,r,z,m5.large,1,-1,2026-01-01,2027-01-01\n", "row 2.recurring_hour"},
		{"a missing price is not zero", head + "b,aws_zonal_ri,r,z,m5.large,1,,2026-01-01,2027-01-01\n", "row 2.recurring_hour"},
		{"ends before it starts", head + "b,aws_zonal_ri,r,z,m5.large,1,1,2026-01-01,2025-01-01\n", "row 2.ends_at"},
		{"a date of no calendar", head + "b,aws_zonal_ri,r,z,m5.large,1,1,2026-02-30,2027-01-01\n", "row 2.starts_at"},
		{"an unknown kind", head + "b,aws_magic,r,z,m5.large,1,1,2026-01-01,2027-01-01\n", "row 2.kind"},
		{"the same ref twice", head + good + good, "row 3.ref"},
		{"no zone", head + "b,aws_zonal_ri,r,,m5.large,1,1,2026-01-01,2027-01-01\n", "row 2.zone"},
		{"an unknown column", "ref,colour\n", "row 1.colour"},
		{"control characters", head + "b\x01,aws_zonal_ri,r,z,m5.large,1,1,2026-01-01,2027-01-01\n", "row 2.ref"},
	} {
		got, err := commitment.ReadCSV([]byte(c.text), "USD")
		var coded *fleet.Error
		if got != nil || !errors.As(err, &coded) || coded.Field != c.field || coded.Code != fleet.CodeInvalid {
			t.Errorf("%s: %v, %v, want field %s", c.name, got, err, c.field)
		}
		if err != nil && !strings.Contains(err.Error(), strings.SplitN(c.field, ".", 2)[0]) {
			t.Errorf("%s: %q does not name the row", c.name, err)
		}
	}
	for _, text := range []string{"", head, "ref\n\"open", head + "a,b\n"} {
		if _, err := commitment.ReadCSV([]byte(text), "USD"); err == nil {
			t.Errorf("%q was read", text)
		}
	}
	if _, err := commitment.ReadCSV(bytes.Repeat([]byte("x"), commitment.MaxImportBytes+1), "USD"); err == nil {
		t.Error("an endless import was read")
	}
	for _, text := range []string{"", "{}", "[1]", "[]", `[{"ref":{}}]`, `[{"nope":1}]`, `[{"kind":"aws_compute_sp","ref":"x","hourly_commitment":1,"rates":"m5.large=-1","starts_at":"2026-01-01","ends_at":"2027-01-01"}]`,
		`[{"kind":"aws_compute_sp","ref":"x","hourly_commitment":1,"discount_percent":20,"currency":"EUR","starts_at":"2026-01-01","ends_at":"2027-01-01"}]`} {
		if _, err := commitment.ReadJSON([]byte(text), "USD"); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

func FuzzReadCSV(f *testing.F) {
	f.Add([]byte(sheet))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := commitment.ReadCSV(text, "USD")
		if err != nil {
			return
		}
		for _, c := range all {
			if err := c.Validate(); err != nil {
				t.Fatalf("read %+v: %v", c, err)
			}
			_ = c.Bought(fleet.Interval{From: hour, To: hour.AddDate(300, 0, 0)})
		}
	})
}
