package notify

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// NewSecret makes the secret that a webhook is signed with. It is shown once; the whole text is the key.
func NewSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails: the runtime ends the process instead
	return "plw_" + base64.RawURLEncoding.EncodeToString(b)
}

// SecretPurpose is what a webhook's secret is sealed for: it opens for no other row.
func SecretPurpose(tenant fleet.TenantID, webhook string) string {
	return "webhook/" + string(tenant) + "/" + webhook
}

// Sign makes the header Plimsoll-Signature: "t=<unix seconds>,v1=<hex HMAC-SHA256 of "<t>.<body>">", with one v1 per secret: there are two
// while a secret is exchanged.
func Sign(at time.Time, body []byte, secrets ...[]byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	out := "t=" + t
	for _, secret := range secrets {
		out += ",v1=" + hex.EncodeToString(mac(secret, t, body))
	}
	return out
}

// Verify checks a signature the way a receiver should: any v1 that fits counts (there are two while a secret is exchanged), and the
// time must lie within tolerance of now, so that an old message cannot be played again.
func Verify(secret []byte, header string, body []byte, now time.Time, tolerance time.Duration) error {
	var t string
	var given [][]byte
	for _, part := range strings.Split(header, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "t":
			t = value
		case "v1":
			if b, err := hex.DecodeString(value); err == nil {
				given = append(given, b)
			}
		}
	}
	seconds, err := strconv.ParseInt(t, 10, 64)
	if err != nil || len(given) == 0 {
		return errors.New("the signature header is malformed")
	}
	if d := now.Sub(time.Unix(seconds, 0)); d > tolerance || d < -tolerance {
		return errors.New("the signature is too old or from the future")
	}
	want := mac(secret, t, body)
	for _, g := range given {
		if hmac.Equal(g, want) {
			return nil
		}
	}
	return errors.New("the signature does not fit")
}

func mac(secret []byte, t string, body []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(t + "."))
	h.Write(body)
	return h.Sum(nil)
}
