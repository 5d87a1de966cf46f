package cloud

import (
	"context"

	"plimsoll.dev/services/fleet"
)

// Bounds of a list, far above what the longest one has: a week of Spot prices of a large region is some 200,000 rows.
const (
	maxPages = 5_000
	maxRows  = 2_000_000
)

// Pages calls fetch with the token of each page, the empty one first, until a page names no next one. A token that comes back a second
// time is an error, since the list would be cut short or never end. fetch collects; when Pages fails, what it collected is to be thrown
// away.
func Pages(ctx context.Context, fetch func(token string) (next string, err error)) error {
	seen := map[string]bool{"": true}
	token := ""
	for range maxPages {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, err := fetch(token)
		if err != nil {
			return err
		}
		if next == "" {
			return nil
		}
		if seen[next] {
			return fleet.Errorf(fleet.CodeUnavailable, "the cloud's list does not end: a page names one that was there before")
		}
		seen[next], token = true, next
	}
	return fleet.Errorf(fleet.CodeUnavailable, "the cloud's list has more than %d pages", maxPages)
}

// Room says whether a list of so many rows may grow on; it is asked page by page.
func Room(rows int) error {
	if rows > maxRows {
		return fleet.Errorf(fleet.CodeTooLarge, "the cloud's list has more than %d rows", maxRows)
	}
	return nil
}
