// Package uplink carries reports from the cluster to the service and plans back: enrolment, credentials, the bidirectional
// stream with its HTTP/1.1 fallback, and a bounded spool on disk that survives kill -9. It may never look into a report's
// figures, never decide about a plan, and never renumber or lose a report that the service could have acknowledged.
package uplink

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// State is the agent's state directory, held by one process at a time.
type State struct {
	dir  string
	lock *os.File
	id   string
}

// Identity is what enrolment gave: who this agent is and how it proves it.
type Identity struct {
	Tenant    string `json:"tenant_id"`
	Cluster   string `json:"cluster_id"`
	Token     string `json:"access_token"`
	ExpiresMS int64  `json:"expires_ms"`
	// ObtainedMS is when this token came; it is renewed when a third of its life is left.
	ObtainedMS int64 `json:"obtained_ms"`
}

// OpenState creates the directory if need be, takes its lock and reads or makes the install id. A second agent on the same
// directory gets an error.
func OpenState(dir string) (*State, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another agent is using the state directory %s", dir)
		}
		return nil, fmt.Errorf("lock state directory: %w", err)
	}
	s := &State{dir: dir, lock: lock}
	if s.id, err = s.installID(); err != nil {
		lock.Close()
		return nil, err
	}
	return s, nil
}

// Close gives the lock back.
func (s *State) Close() error { return s.lock.Close() }

// Path names a file of the state directory.
func (s *State) Path(name string) string { return filepath.Join(s.dir, name) }

// InstallID is random, made at the first start and kept for the life of the directory.
func (s *State) InstallID() string { return s.id }

func (s *State) installID() (string, error) {
	path := s.Path("install_id")
	b, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(b)); err == nil && len(id) >= 16 && len(id) <= 64 {
		return id, nil // made here earlier, or given by the installation
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read install id: %w", err)
	}
	var raw [16]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return "", fmt.Errorf("make install id: %w", err)
	}
	id := hex.EncodeToString(raw[:])
	return id, WriteFile(path, []byte(id))
}

// Identity reads what enrolment stored; false when there is none that can be used.
func (s *State) Identity() (Identity, bool) {
	var id Identity
	b, err := os.ReadFile(s.Path("identity.json"))
	if err != nil || json.Unmarshal(b, &id) != nil || id.Token == "" {
		return Identity{}, false
	}
	return id, true
}

// SaveIdentity stores the identity, readable by the agent's user only.
func (s *State) SaveIdentity(id Identity) error {
	b, err := json.Marshal(id) //nolint:gosec // into a file that only the agent's user may read
	if err != nil {
		return err
	}
	return WriteFile(s.Path("identity.json"), b)
}

// WriteFile replaces a file so that after a crash either the old or the new content is there, whole and on disk.
func WriteFile(path string, b []byte) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func unixMS(t time.Time) int64 { return t.UnixMilli() }
