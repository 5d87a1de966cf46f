package services_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	mdLink    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	mdFence   = regexp.MustCompile("(?s)```.*?```")
	mdCode    = regexp.MustCompile("`[^`\n]*`")
	mdHeading = regexp.MustCompile(`(?m)^#{1,6}\s+(.*)$`)
	roomLine  = regexp.MustCompile(`^  ([a-z]+(?:/[a-z]+)*)/?\s`)
)

// pages are all Markdown files of the repository, relative to its root, that are ours.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != ".." && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata" || name == "shared" || name == "dist") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("..", path)
		out[filepath.ToSlash(rel)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDocsLinkToWhatExists: no link inside the repository is dead, anchors included, and the index has every page of docs.
func TestDocsLinkToWhatExists(t *testing.T) {
	t.Parallel()
	all := pages(t)
	if len(all) < 50 || all["docs/README.md"] == "" {
		t.Fatalf("found %d pages", len(all))
	}
	indexed := map[string]bool{}
	for page, text := range all {
		prose := mdCode.ReplaceAllString(mdFence.ReplaceAllString(text, ""), "")
		for _, m := range mdLink.FindAllStringSubmatch(prose, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := page
			if file != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(page), file))
			}
			if page == "docs/README.md" {
				indexed[target] = true
			}
			if _, err := os.Stat(filepath.Join("..", target)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", page, m[1])
			} else if anchor != "" && !slices.Contains(anchors(all[target]), anchor) {
				t.Errorf("%s: %s has no heading for the link %s", page, target, m[1])
			}
		}
	}
	for _, page := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(page, "docs/") && !strings.HasPrefix(page, "docs/adr/") && page != "docs/README.md" && !indexed[page] {
			t.Errorf("docs/README.md has no link to %s", page)
		}
	}
}

// anchors are the names that headings of a page have as a link's target.
func anchors(text string) (out []string) {
	for _, m := range mdHeading.FindAllStringSubmatch(mdFence.ReplaceAllString(text, ""), -1) {
		out = append(out, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(m[1])))
	}
	return out
}

// TestArchitectureDrawsTheFloorPlan: docs/architecture.md has a line for each room of the plan and for no other, and names the pure ones.
func TestArchitectureDrawsTheFloorPlan(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "\nservices/\n")
	block, rest, ok := strings.Cut(block, "\nagent/\n")
	if !ok {
		t.Fatal("no picture of services/ above agent/")
	}
	drawn := map[string]bool{}
	for line := range strings.SplitSeq(block, "\n") {
		if m := roomLine.FindStringSubmatch(line); m != nil {
			drawn[m[1]] = true
		}
	}
	wanted, pure := map[string]bool{}, map[string]bool{}
	for name, r := range plan {
		top, _, nested := strings.Cut(name, "/")
		switch {
		case top == "wire" || top == "cloud": // the picture has one line for what lies below them
			wanted[top] = true
		case top == "cmd", !nested:
			wanted[name] = true
		default: // a room within a room is drawn with it, or on a line of its own
			if !drawn[name] && !strings.Contains(block, strings.TrimPrefix(name, top+"/")+"/") {
				t.Errorf("docs/architecture.md does not mention the room %s", name)
			}
			wanted[name] = drawn[name]
		}
		if r.pure && !nested {
			pure[name] = true
		}
	}
	for name := range wanted {
		if wanted[name] && !drawn[name] {
			t.Errorf("docs/architecture.md has no line for the room %s", name)
		}
	}
	for name := range drawn {
		if !wanted[name] {
			t.Errorf("docs/architecture.md draws the room %s, which the floor plan does not have", name)
		}
	}
	sentence, _, ok := strings.Cut(rest, " are pure: ")
	if !ok {
		t.Fatal("no sentence that says which rooms are pure")
	}
	sentence = sentence[strings.LastIndex(sentence, "\n")+1:]
	told := map[string]bool{}
	for _, name := range strings.FieldsFunc(strings.ReplaceAll(sentence, " and ", ", "), func(r rune) bool { return r == ',' || r == ' ' }) {
		told[name] = true
	}
	if !maps.Equal(told, pure) {
		t.Errorf("told to be pure: %v, are: %v", slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(pure)))
	}
}
