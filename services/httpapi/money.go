package httpapi

import (
	"encoding/base64"
	"encoding/json"

	"github.com/google/uuid"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/store"
)

// Money is an exact amount: a decimal string with up to nine places, so that no client rounds it by reading it.
type Money struct {
	Amount   string `json:"amount" example:"12.340000000" doc:"decimal, exact to 1e-9"`
	Currency string `json:"currency" example:"USD" doc:"ISO 4217"`
}

// money shows an amount.
func money(m fleet.Money, currency string) Money {
	return Money{Amount: m.String(), Currency: currency}
}

// moneyOrNil shows an amount that may be unknown.
func moneyOrNil(m *fleet.Money, currency string) *Money {
	if m == nil {
		return nil
	}
	v := money(*m, currency)
	return &v
}

// nanoOrNil shows an amount in nano-units that may be unknown.
func nanoOrNil(n *int64, currency string) *Money {
	if n == nil {
		return nil
	}
	v := money(fleet.Money(*n), currency)
	return &v
}

// encodeCursor makes the opaque text that continues a list after a row; decodeCursor reads it back into what the list sorts by.
func encodeCursor(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func decodeCursor(s string, v any) error {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	return badCursor(err)
}

// cursorID checks an id in a cursor: anybody can write one.
func cursorID(id string) error { return badCursor(uuid.Validate(id)) }

func badCursor(err error) error {
	if err != nil {
		return &fleet.Error{Code: fleet.CodeInvalid, Message: "this cursor is not one that a list gave", Field: "query.cursor", Err: err}
	}
	return nil
}

// positionOf reads the cursor of a list that goes on by time and id; none is its beginning.
func positionOf(cursor string) (after store.Position, err error) {
	if cursor == "" {
		return after, nil
	}
	if err := decodeCursor(cursor, &after); err != nil {
		return after, err
	}
	return after, cursorID(after.ID)
}
