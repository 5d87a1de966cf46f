package main

import (
	"encoding/base64"
	"log/slog"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"unicode"

	"plimsoll.dev/services/auth"
	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/notify"
)

// config is what the processes of the service need to know. Each field names its environment variable.
type config struct {
	databaseURL string // PLIMSOLL_DATABASE_URL: the service role
	// PLIMSOLL_ENROLMENTS_PER_MINUTE: agents that may enrol from one address in a minute; raise it to bring up a large estate at once. Default 60.
	enrolments int
	listen     string   // PLIMSOLL_LISTEN, default ":8080"
	publicURL  string   // PLIMSOLL_PUBLIC_URL, default "http://localhost:8080": how people and agents reach the service
	secretKey  []byte   // PLIMSOLL_SECRET_KEY: 32 bytes in base64; seals keys, webhook secrets and access to cloud accounts at rest
	oldKeys    [][]byte // PLIMSOLL_SECRET_KEYS_OLD: what earlier values of it sealed is opened with these, and sealed anew with it
	// PLIMSOLL_SPOT_KEEP_YEARS: how long Spot prices are kept, before the newest of their cloud. Default 5, 0 for ever.
	spotKeepYears int
	// PLIMSOLL_WEBHOOK_ALLOW: comma-separated CIDRs of private networks that webhooks may reach. Default none.
	webhookAllow []netip.Prefix
	// PLIMSOLL_TRUSTED_PROXIES: comma-separated CIDRs of the proxies whose X-Forwarded-For is believed. Default none.
	trustedProxies []netip.Prefix
	clouds         clouds // PLIMSOLL_CLOUD_IDENTITY: see readClouds
	// PLIMSOLL_SMTP_HOST, _PORT (587), _TLS (starttls, tls, none), _USER, _PASSWORD, _FROM: the mail server. Default none.
	mailer *notify.Mailer
	log    *slog.Logger // PLIMSOLL_LOG_LEVEL: debug, info (default), warn, error
}

func configFromEnv() (config, error) {
	c := config{
		databaseURL: os.Getenv("PLIMSOLL_DATABASE_URL"),
		listen:      or(os.Getenv("PLIMSOLL_LISTEN"), ":8080"),
		publicURL:   strings.TrimRight(or(os.Getenv("PLIMSOLL_PUBLIC_URL"), "http://localhost:8080"), "/"),
	}
	if c.databaseURL == "" {
		return c, fleet.Errorf(fleet.CodeInvalid, "set PLIMSOLL_DATABASE_URL to a URL of a role in plimsoll_service")
	}
	key, err := base64.StdEncoding.DecodeString(os.Getenv("PLIMSOLL_SECRET_KEY"))
	if err != nil || len(key) != auth.SealKeySize {
		return c, fleet.Errorf(fleet.CodeInvalid, "set PLIMSOLL_SECRET_KEY to 32 random bytes in base64: openssl rand -base64 32")
	}
	c.secretKey = key
	if c.oldKeys, err = readOldKeys(os.Getenv("PLIMSOLL_SECRET_KEYS_OLD")); err != nil {
		return c, err
	}
	c.spotKeepYears = defaultSpotKeepYears
	if text := os.Getenv("PLIMSOLL_SPOT_KEEP_YEARS"); text != "" {
		if c.spotKeepYears, err = strconv.Atoi(text); err != nil || c.spotKeepYears < 0 || c.spotKeepYears > 100 {
			return c, fleet.Errorf(fleet.CodeInvalid, "PLIMSOLL_SPOT_KEEP_YEARS: %q is not 0 (for ever) to 100", text)
		}
	}
	if c.webhookAllow, err = networks("PLIMSOLL_WEBHOOK_ALLOW"); err != nil {
		return c, err
	}
	if c.trustedProxies, err = networks("PLIMSOLL_TRUSTED_PROXIES"); err != nil {
		return c, err
	}
	if c.clouds, err = readClouds(); err != nil {
		return c, err
	}
	if text := os.Getenv("PLIMSOLL_ENROLMENTS_PER_MINUTE"); text != "" {
		if c.enrolments, err = strconv.Atoi(text); err != nil || c.enrolments < 1 || c.enrolments > 100_000 {
			return c, fleet.Errorf(fleet.CodeInvalid, "PLIMSOLL_ENROLMENTS_PER_MINUTE: %q is not 1 to 100000", text)
		}
	}
	if c.mailer, err = readMailer(); err != nil {
		return c, err
	}
	c.log, err = newLog(os.Getenv("PLIMSOLL_LOG_LEVEL"))
	return c, err
}

// readMailer reads the mail server of the environment; nil: there is none, and mail channels say so.
func readMailer() (*notify.Mailer, error) {
	port := 0
	if text := os.Getenv("PLIMSOLL_SMTP_PORT"); text != "" {
		var err error
		if port, err = strconv.Atoi(text); err != nil {
			return nil, fleet.Errorf(fleet.CodeInvalid, "PLIMSOLL_SMTP_PORT: %q is not a port", text)
		}
	}
	return notify.NewMailer(notify.SMTPConfig{Host: os.Getenv("PLIMSOLL_SMTP_HOST"), Port: port, TLS: notify.TLSMode(os.Getenv("PLIMSOLL_SMTP_TLS")),
		User: os.Getenv("PLIMSOLL_SMTP_USER"), Password: os.Getenv("PLIMSOLL_SMTP_PASSWORD"), From: os.Getenv("PLIMSOLL_SMTP_FROM")})
}

const (
	maxOldKeys           = 16
	defaultSpotKeepYears = 5
)

// readOldKeys reads keys in base64, separated by commas or white space. Errors never quote one.
func readOldKeys(text string) (keys [][]byte, err error) {
	for i, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		key, err := base64.StdEncoding.DecodeString(word)
		if err != nil || len(key) != auth.SealKeySize {
			return nil, fleet.Errorf(fleet.CodeInvalid, "PLIMSOLL_SECRET_KEYS_OLD: key %d is not 32 bytes in base64", i+1)
		}
		if i >= maxOldKeys {
			return nil, fleet.Errorf(fleet.CodeInvalid, "PLIMSOLL_SECRET_KEYS_OLD: more than %d keys", maxOldKeys)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// networks reads comma-separated CIDRs from the environment.
func networks(variable string) (out []netip.Prefix, err error) {
	for text := range strings.SplitSeq(os.Getenv(variable), ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fleet.Errorf(fleet.CodeInvalid, "%s: %q is not a network such as 10.0.0.0/8", variable, text)
		}
		out = append(out, prefix)
	}
	return out, nil
}

func newLog(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(or(level, "info"))); err != nil {
		return nil, fleet.Errorf(fleet.CodeInvalid, "PLIMSOLL_LOG_LEVEL: %q is none of debug, info, warn, error", level)
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: l})), nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
