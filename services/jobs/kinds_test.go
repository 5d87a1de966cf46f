package jobs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"plimsoll.dev/services/notify"
	"plimsoll.dev/services/store"
)

// Every kind of alert that is opened here is named on the dashboard, told in both languages, and in the guide.
func TestEveryKindOfAlertHasWords(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	constant := regexp.MustCompile(`(?m)^\s*(?:const )?[aA]lert[A-Z]\w*\s+= "([a-z_]+)"`)
	plain := regexp.MustCompile(`store\.OpenAlert\(ctx, tx, "([a-z_]+)"`)
	var kinds []string
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text := read(t, f)
		for _, m := range append(constant.FindAllStringSubmatch(text, -1), plain.FindAllStringSubmatch(text, -1)...) {
			kinds = append(kinds, m[1])
		}
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	if len(kinds) < 20 {
		t.Fatalf("found only %v", kinds)
	}
	page, guide := read(t, "../../web/src/lib/alert.ts"), read(t, "../../docs/guides/alerts.md")
	for _, kind := range kinds {
		if !strings.Contains(page, `"`+kind+`"`) {
			t.Errorf("the dashboard does not name %s", kind)
		}
		if !strings.Contains(guide, "`"+kind+"`") {
			t.Errorf("the guide does not name %s", kind)
		}
		for _, lang := range []notify.Language{notify.English, notify.Chinese} {
			n := notify.Notice{Event: store.EventOpened, Kind: kind, Subject: "subject/1"}
			if text := n.Headline(lang); text == kind+": subject/1" {
				t.Errorf("%s has no words in %s", kind, lang)
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
