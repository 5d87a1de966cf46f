package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"plimsoll.dev/services/fleet"
)

// mountDashboard answers everything that no other route does: files of the dashboard, its index for deep links, and problems under
// the paths of machines.
func (s *Server) mountDashboard() {
	page := http.Handler(http.HandlerFunc(notBuilt))
	if s.cfg.Dashboard != nil {
		files, err := readDashboard(s.cfg.Dashboard)
		if err != nil {
			s.deps.Log.Warn("dashboard files cannot be served", "error", err)
		} else {
			page = files
		}
	}
	s.router.NotFound(func(w http.ResponseWriter, r *http.Request) {
		machine := strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/api" || strings.HasPrefix(r.URL.Path, "/plimsoll.")
		if machine || (r.Method != http.MethodGet && r.Method != http.MethodHead) {
			writeProblem(w, r, fleet.Errorf(fleet.CodeNotFound, "there is nothing at %s", r.URL.Path))
			return
		}
		page.ServeHTTP(w, r)
	})
}

// notBuiltPage is what a person sees who started the service from a source tree without its web files.
const notBuiltPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Plimsoll</title><style>body{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem}</style></head>
<body><h1>The dashboard is not built</h1><p>The service runs and its API answers under <code>/api/v1</code>, but this binary came without the web files.</p>
<p>Run <code>./scripts/dev</code>, or <code>npm ci &amp;&amp; npm run build</code> in <code>web/</code> and build the service again.</p></body></html>
`

func notBuilt(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(notBuiltPage))
}

// dashboard holds the built files in memory: 2 MiB of them.
type dashboard map[string]asset

type asset struct {
	kind       string // Content-Type
	etag       string
	plain      []byte
	compressed []byte // gzip; nil: not worth it
}

const (
	dashboardIndex    = "index.html"
	maxDashboardBytes = 64 << 20
	worthCompressing  = 1 << 10
)

// compressible names the file endings that gzip makes smaller.
var compressible = []string{".html", ".js", ".css", ".json", ".svg", ".txt", ".map", ".webmanifest"}

// readDashboard loads the built files. A file with a .gz beside it is served from that; others are compressed once, here.
func readDashboard(files fs.FS) (dashboard, error) {
	d := dashboard{}
	total := int64(0)
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasSuffix(name, ".gz") {
			return err
		}
		a, err := readAsset(files, name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		if total += int64(len(a.plain)); total > maxDashboardBytes {
			return fmt.Errorf("files have more than %d bytes", maxDashboardBytes)
		}
		d[name] = a
		return nil
	})
	if err != nil {
		return nil, err
	}
	if _, ok := d[dashboardIndex]; !ok {
		return nil, fmt.Errorf("there is no %s", dashboardIndex)
	}
	return d, nil
}

func readAsset(files fs.FS, name string) (a asset, err error) {
	if a.plain, err = fs.ReadFile(files, name); err != nil {
		return a, err
	}
	sum := sha256.Sum256(a.plain)
	a.etag = hex.EncodeToString(sum[:12])
	if a.kind = mime.TypeByExtension(path.Ext(name)); a.kind == "" {
		a.kind = http.DetectContentType(a.plain)
	}
	if !slices.Contains(compressible, path.Ext(name)) || len(a.plain) < worthCompressing {
		return a, nil
	}
	if a.compressed, err = fs.ReadFile(files, name+".gz"); err == nil {
		return a, nil
	}
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return a, err
	}
	if _, err := z.Write(a.plain); err != nil {
		return a, err
	}
	if err := z.Close(); err != nil {
		return a, err
	}
	a.compressed = out.Bytes()
	return a, nil
}

// ServeHTTP serves a file, or the index for every other path, which the dashboard's router then reads. A missing hashed asset is
// a 404: an old page must not get the index as its script.
func (d dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	a, ok := d[name]
	if !ok {
		if strings.HasPrefix(name, "assets/") {
			writeProblem(w, r, fleet.Errorf(fleet.CodeNotFound, "there is nothing at %s", r.URL.Path))
			return
		}
		name = dashboardIndex
		a = d[name]
	}
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Add("Vary", "Accept-Encoding")
	if strings.HasPrefix(name, "assets/") {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-cache")
	}
	body, etag := a.plain, a.etag
	if a.compressed != nil && acceptsGzip(r.Header.Get("Accept-Encoding")) {
		h.Set("Content-Encoding", "gzip")
		body, etag = a.compressed, a.etag+"-gz"
	}
	h.Set("ETag", `"`+etag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// acceptsGzip reads an Accept-Encoding header: gzip or anything, unless its weight is zero.
func acceptsGzip(header string) bool {
	for _, part := range strings.Split(header, ",") {
		coding, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if coding = strings.TrimSpace(coding); coding != "gzip" && coding != "*" {
			continue
		}
		weight = strings.ReplaceAll(weight, " ", "")
		return weight != "q=0" && weight != "q=0.0" && weight != "q=0.00" && weight != "q=0.000"
	}
	return false
}
