package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// TLSMode is how a connection to the mail server is kept secret.
type TLSMode string

// Modes of a mail server's TLS.
const (
	TLSStart    TLSMode = "starttls" // required: a server that does not offer it gets nothing
	TLSImplicit TLSMode = "tls"      // from the first byte, port 465
	TLSNone     TLSMode = "none"     // for a relay on the same machine; never with a password
)

// SMTPConfig of a Mailer. Host empty: there is no mail.
type SMTPConfig struct {
	Host     string
	Port     int     // default 587, of TLSImplicit 465
	TLS      TLSMode // default TLSStart
	User     string  // empty: no sign-in
	Password string
	From     string        // "Plimsoll <alerts@example.com>"
	Timeout  time.Duration // of one mail, connection to last byte; default 20 s
	// Trust replaces the system's certificates; nil: those.
	Trust *tls.Config
}

// Mailer sends mail through one server. Safe for concurrent use; nil refuses everything.
type Mailer struct {
	cfg  SMTPConfig
	from *mail.Address
}

// NewMailer checks the configuration; nil without a host.
func NewMailer(cfg SMTPConfig) (*Mailer, error) {
	if cfg.Host == "" {
		return nil, nil //nolint:nilnil // no mail is a result
	}
	if cfg.TLS == "" {
		cfg.TLS = TLSStart
	}
	if cfg.Port == 0 {
		cfg.Port = map[TLSMode]int{TLSStart: 587, TLSImplicit: 465, TLSNone: 25}[cfg.TLS]
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 20 * time.Second
	}
	from, err := mail.ParseAddress(cfg.From)
	switch {
	case err != nil:
		return nil, fleet.Errorf(fleet.CodeInvalid, "the sender of mails %q is not an address", cfg.From)
	case cfg.TLS != TLSStart && cfg.TLS != TLSImplicit && cfg.TLS != TLSNone:
		return nil, fleet.Errorf(fleet.CodeInvalid, "mail: %q is none of starttls, tls, none", cfg.TLS)
	case cfg.TLS == TLSNone && cfg.User != "":
		return nil, fleet.Errorf(fleet.CodeInvalid, "mail: a password is not sent over a connection without TLS")
	case cfg.Port < 1 || cfg.Port > 65535:
		return nil, fleet.Errorf(fleet.CodeInvalid, "mail: %d is not a port", cfg.Port)
	}
	return &Mailer{cfg, from}, nil
}

// Mail is one letter to some people.
type Mail struct {
	To     []string
	ID     string // of the event: becomes the Message-ID, so that a repetition can be told
	At     time.Time
	Letter Letter
}

// ParseRecipients reads addresses separated by commas: one to twenty.
func ParseRecipients(text string) ([]string, error) {
	bad := func(why string) ([]string, error) {
		return nil, &fleet.Error{Code: fleet.CodeInvalid, Message: why, Field: "body.to"}
	}
	if len(text) > 2000 {
		return bad("the addresses are longer than 2000 characters")
	}
	list, err := mail.ParseAddressList(text)
	if err != nil || len(list) == 0 {
		return bad("these are not mail addresses separated by commas")
	}
	if len(list) > 20 {
		return bad("a channel has at most 20 addresses")
	}
	out := make([]string, len(list))
	for i, a := range list {
		if strings.ContainsAny(a.Address, "\r\n\x00 ,") {
			return bad("these are not mail addresses separated by commas")
		}
		out[i] = a.Address
	}
	return out, nil
}

// Send hands a mail to the server. An answer that is final (5xx) is ErrRefused. The status is the server's code; 0: no answer.
func (m *Mailer) Send(ctx context.Context, letter Mail) (int, error) {
	if m == nil {
		return 0, fmt.Errorf("%w: this service has no mail server", ErrRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	err := m.send(ctx, letter)
	var answer *textproto.Error
	switch {
	case err == nil:
		return 250, nil
	case errors.As(err, &answer) && answer.Code >= 500:
		return answer.Code, fmt.Errorf("%w: %w", ErrRefused, err)
	case errors.As(err, &answer):
		return answer.Code, err
	}
	return 0, reason(err)
}

func (m *Mailer) send(ctx context.Context, letter Mail) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(m.cfg.Host, fmt.Sprint(m.cfg.Port)))
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if m.cfg.Trust != nil {
		trust = m.cfg.Trust.Clone()
	}
	trust.ServerName = m.cfg.Host
	if m.cfg.TLS == TLSImplicit {
		conn = tls.Client(conn, trust)
	}
	c, err := smtp.NewClient(conn, m.cfg.Host)
	if err != nil {
		_ = conn.Close()
		return err
	}
	defer c.Close() //nolint:errcheck // Quit has said all there is to say
	if m.cfg.TLS == TLSStart {
		if ok, _ := c.Extension("STARTTLS"); !ok {
			return fmt.Errorf("%w: the mail server does not offer STARTTLS", ErrRefused)
		}
		if err := c.StartTLS(trust); err != nil {
			return err
		}
	}
	if m.cfg.User != "" {
		if err := c.Auth(smtp.PlainAuth("", m.cfg.User, m.cfg.Password, m.cfg.Host)); err != nil {
			return err
		}
	}
	if err := c.Mail(m.from.Address); err != nil {
		return err
	}
	for _, to := range letter.To {
		if err := c.Rcpt(to); err != nil {
			return err
		}
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	if _, err := w.Write(m.compose(letter)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	_ = c.Quit() // the mail is taken already
	return nil
}

// compose writes the mail as RFC 5322 has it.
func (m *Mailer) compose(letter Mail) []byte {
	_, domain, _ := strings.Cut(m.from.Address, "@")
	var b strings.Builder
	header := func(name, value string) { b.WriteString(name + ": " + oneLine(value) + "\r\n") }
	header("From", m.from.String())
	header("To", strings.Join(letter.To, ", "))
	header("Subject", mime.QEncoding.Encode("utf-8", oneLine(letter.Letter.Subject)))
	header("Date", letter.At.UTC().Format(time.RFC1123Z))
	header("Message-ID", "<"+letter.ID+"@"+domain+">")
	header("Auto-Submitted", "auto-generated")
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	q := quotedprintable.NewWriter(&b)
	_, _ = q.Write([]byte(letter.Letter.Text)) // into memory
	_ = q.Close()
	return []byte(b.String())
}
