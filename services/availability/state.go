package availability

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"plimsoll.dev/services/fleet"
)

// Row is one part of a model's state: an offering or a wider level. A model is the set of its rows; each can be kept on its own.
type Row struct {
	Key   string          `json:"key"` // offering/..., region/..., type/..., zone/...
	State json.RawMessage `json:"state"`
}

// State is the whole model, sorted by key.
func (m *Model) State() []Row {
	keys := make([]string, 0, len(m.pools)+len(m.levels))
	for _, p := range m.pools {
		keys = append(keys, p.key)
	}
	return m.rows(slices.AppendSeq(keys, maps.Keys(m.levels)))
}

// Changes are the rows that changed since the last call, sorted by key.
func (m *Model) Changes() []Row {
	out := m.rows(slices.Collect(maps.Keys(m.dirty)))
	clear(m.dirty)
	return out
}

func (m *Model) rows(keys []string) []Row {
	slices.Sort(keys)
	byKey := make(map[string]*pool, len(m.pools))
	for _, p := range m.pools {
		byKey[p.key] = p
	}
	out := make([]Row, 0, len(keys))
	for _, key := range keys {
		var v any = m.levels[key]
		if p, ok := byKey[key]; ok {
			v = p
		}
		text, err := json.Marshal(v)
		if err != nil {
			panic("availability: a state that is no JSON: " + err.Error()) // finite numbers and times of this century only
		}
		out = append(out, Row{key, text})
	}
	return out
}

// Restore makes a model from its rows, in whatever order.
func Restore(p Params, rows []Row) (*Model, error) {
	m := New(p)
	for _, r := range rows {
		if strings.HasPrefix(r.Key, "offering/") {
			var s pool
			if err := json.Unmarshal(r.State, &s); err != nil {
				return nil, &fleet.Error{Code: fleet.CodeInternal, Message: "the availability state " + r.Key + " cannot be read", Err: err}
			}
			if poolKey(s.Offering) != r.Key {
				return nil, fleet.Errorf(fleet.CodeInternal, "the availability state %s is that of another offering", r.Key)
			}
			m.adopt(&s)
			continue
		}
		var l level
		if err := json.Unmarshal(r.State, &l); err != nil {
			return nil, &fleet.Error{Code: fleet.CodeInternal, Message: "the availability state " + r.Key + " cannot be read", Err: err}
		}
		m.levels[r.Key] = &l
	}
	return m, nil
}
