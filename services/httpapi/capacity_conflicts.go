package httpapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"plimsoll.dev/services/store"
)

// GroupConflict is a group of machines at a cloud whose size or bounds others write as well.
type GroupConflict struct {
	GroupID        string             `json:"group_id"`
	Ref            string             `json:"ref" doc:"of the group, as its cloud names it"`
	Cloud          string             `json:"cloud"`
	Enabled        bool               `json:"enabled" doc:"capacity plans may change it"`
	Own            bool               `json:"own" doc:"Plimsoll was told to stop what of the cloud changes it"`
	Yields         bool               `json:"yields" doc:"Plimsoll leaves it to one of its writers"`
	Stopped        bool               `json:"stopped" doc:"somebody undid Plimsoll's size three times within an hour: nothing more is asked of the group until an hour has fewer"`
	Writers        []CloudGroupWriter `json:"writers" doc:"what of the cloud itself changes it, as it was looked at last; empty with changes: a person or a tool from outside of the cloud"`
	WritersAt      *time.Time         `json:"writers_at" doc:"null: nobody has looked yet"`
	WritersProblem string             `json:"writers_problem" doc:"why it is not known what of the cloud changes it; empty: it is"`
	Suspended      []string           `json:"suspended" doc:"what of the cloud's own scaling is stopped, in its words"`
	Restarted      int                `json:"restarted" doc:"how often the cloud's own scaling was stopped by Plimsoll in the last day; more than once: somebody starts it again"`
	Applied        int                `json:"applied" doc:"sizes that Plimsoll asked for in the last day and the cloud took"`
	Changes        int                `json:"changes" doc:"of size or bounds in the last day that others made"`
	Undone         int                `json:"undone" doc:"of those, how often they undid a size of Plimsoll's"`
	Replaced       int                `json:"replaced" doc:"sizes of Plimsoll's in the last day that somebody else's size came in place of before they were reached"`
	FightsHour     float64            `json:"fights_per_hour" doc:"sizes of Plimsoll's that were undone within the last hour"`
	LastAt         *time.Time         `json:"last_at" doc:"of the newest change, by Plimsoll's clock; null: none in the last day"`
	Newest         []GroupChange      `json:"newest" doc:"changes that others made, newest first, at most 10"`
}

// GroupChange is a change of a group that Plimsoll did not make.
type GroupChange struct {
	At     time.Time `json:"at" doc:"when it was seen, by Plimsoll's clock"`
	Field  string    `json:"field" enum:"desired,min,max"`
	Before int       `json:"before" doc:"-1: the cloud knew none"`
	After  int       `json:"after" doc:"-1: the cloud knows none"`
	Undid  bool      `json:"undid" doc:"what it changed was the size that Plimsoll had asked for"`
}

func groupConflictView(c *store.GroupConflict) (GroupConflict, error) {
	g := &c.Group
	v := GroupConflict{GroupID: g.ID, Ref: g.Ref, Cloud: string(g.Cloud), Enabled: g.Enabled, Own: g.Own, Stopped: g.Enabled && g.Contended(), Writers: []CloudGroupWriter{}, WritersAt: g.WritersAt,
		WritersProblem: g.WritersWhy, Suspended: g.Suspended, Restarted: len(g.StoppedAt), Applied: c.Applied, Changes: c.Changes, Undone: c.Undone, Replaced: c.Replaced, FightsHour: float64(g.Undone),
		LastAt: c.LastAt, Newest: []GroupChange{}}
	if err := json.Unmarshal(g.Writers, &v.Writers); err != nil {
		return v, fmt.Errorf("read writers of group %s: %w", g.ID, err)
	}
	v.Yields = g.Enabled && slices.ContainsFunc(v.Writers, func(x CloudGroupWriter) bool { return x.Sizes || g.Shrink })
	for _, n := range c.Newest {
		v.Newest = append(v.Newest, GroupChange(n))
	}
	return v, nil
}
