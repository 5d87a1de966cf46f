package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/lab"
)

// source is a workload with the folder that its files are relative to.
type source struct {
	lab.Workload
	dir string
}

// chosen is the workloads that were asked for, in the order of the scoreboard; those of files come in the order of the flags.
func (f *replayFlags) chosen() ([]source, error) {
	if *f.files != "" {
		return f.fromFiles()
	}
	all := lab.BuiltinWorkloads()
	if *f.data != "" {
		all = lab.Workloads()
	}
	want, known := map[string]bool{}, []string{}
	for _, n := range names(*f.workloads) {
		want[n] = true
	}
	out := []source{}
	for _, w := range all {
		known = append(known, w.Name)
		if len(want) == 0 || want[w.Name] {
			out = append(out, source{w, *f.data})
		}
	}
	if len(out) == 0 || len(out) < len(want) {
		return nil, fleet.Errorf(fleet.CodeInvalid, "%d of the workloads %q are known; there are %s", len(out), *f.workloads, strings.Join(known, ", "))
	}
	return out, nil
}

func (f *replayFlags) fromFiles() ([]source, error) {
	if *f.workloads != "" {
		return nil, fleet.Errorf(fleet.CodeInvalid, "-workload names workloads of the program, -workload-file those of files: want one of them")
	}
	out := []source{}
	seen := map[string]string{}
	for _, path := range names(*f.files) {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fleet.Errorf(fleet.CodeInvalid, "read the workload: %v", err)
		}
		if info.Size() > 1<<20 {
			return nil, fleet.Errorf(fleet.CodeTooLarge, "%s has %d bytes; a workload is a few lines", path, info.Size())
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fleet.Errorf(fleet.CodeInvalid, "read the workload: %v", err)
		}
		w, err := lab.ParseWorkload(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if other, twice := seen[w.Name]; twice {
			return nil, fleet.Errorf(fleet.CodeInvalid, "%s and %s are both named %s", other, path, w.Name)
		}
		seen[w.Name] = path
		dir := filepath.Dir(path)
		if *f.data != "" {
			dir = *f.data
		}
		out = append(out, source{w, dir})
	}
	return out, nil
}

// each calls fn with every load that was asked for.
func (f *replayFlags) each(ctx context.Context, fn func(l lab.Load) error) error {
	return f.eachOf(ctx, *f.span, fn)
}

// eachOf does it for a span, test or train.
func (f *replayFlags) eachOf(ctx context.Context, span string, fn func(l lab.Load) error) error {
	sources, err := f.chosen()
	if err != nil {
		return err
	}
	found := 0
	read := reading{clients: map[string][]lab.Client{}}
	for _, s := range sources {
		if err := ctx.Err(); err != nil {
			return err
		}
		t, err := read.trace(&s, *f.seed)
		if err != nil {
			return err
		}
		if span == "train" {
			if t.From == 0 {
				continue // a day without history before it: nothing to train on
			}
			t = t.Span(0, t.From)
		}
		l, err := s.Load(t)
		if err != nil {
			return err
		}
		found++
		if err := fn(l); err != nil {
			return err
		}
	}
	if found == 0 {
		return fleet.Errorf(fleet.CodeInvalid, "none of the workloads has history to train on (history_hours)")
	}
	return nil
}

// reading keeps the clients of a model for the next workload.
type reading struct{ clients map[string][]lab.Client }

func (r *reading) trace(s *source, seed uint64) (*lab.Trace, error) {
	path := s.path(s.Source.File)
	switch s.Source.Kind {
	case lab.SourceInvented:
		return s.Build(s.Invent(seed), seed)
	case lab.SourceServeGen:
		key := strings.Join([]string{path, s.path(s.Source.Tokens), s.Source.Model}, "\x00")
		if r.clients[key] == nil {
			c, err := readClients(path, s.path(s.Source.Tokens), s.Source.Model)
			if err != nil {
				return nil, err
			}
			r.clients[key] = c
		}
		return s.Build(r.clients[key], seed)
	case lab.SourceAzure, lab.SourceMooncake:
		read := lab.ReadAzureLLM
		if s.Source.Kind == lab.SourceMooncake {
			read = lab.ReadMooncake
		}
		var requests []lab.Request
		err := readTrace(path, func(r io.Reader) (err error) {
			requests, err = read(r)
			return err
		})
		if err != nil {
			return nil, err
		}
		return s.BuildRequests(requests, seed)
	case lab.SourceCounts:
		var counts lab.Counts
		err := readTrace(path, func(r io.Reader) (err error) {
			counts, err = lab.ReadCounts(r)
			return err
		})
		if err != nil {
			return nil, err
		}
		return s.BuildCounts(counts, seed)
	default:
		return nil, fleet.Errorf(fleet.CodeInvalid, "workload %s: there is no reader for %q", s.Name, s.Source.Kind)
	}
}

func (s *source) path(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(s.dir, file)
}

// readClients reads what ServeGen published about one model.
func readClients(rates, tokens, model string) ([]lab.Client, error) {
	var clients []lab.Client
	err := readTrace(rates, func(r io.Reader) (err error) {
		clients, err = lab.ReadRates(r, model)
		return err
	})
	if err != nil {
		return nil, err
	}
	return clients, readTrace(tokens, func(r io.Reader) error { return lab.ReadTokens(r, model, clients) })
}

// readTrace opens a file, gzipped or not, of at most maxTraceBytes of text.
func readTrace(path string, read func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "open the trace: %v", err)
	}
	defer f.Close()
	r, err := plainText(f)
	if err != nil {
		return fleet.Errorf(fleet.CodeInvalid, "%s: %v", path, err)
	}
	bounded := &io.LimitedReader{R: r, N: maxTraceBytes + 1}
	err = read(bounded)
	if bounded.N <= 0 {
		err = fleet.Errorf(fleet.CodeTooLarge, "more than %d MiB", maxTraceBytes>>20)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// plainText unpacks gzip where the first bytes say so.
func plainText(f io.Reader) (io.Reader, error) {
	buffered := bufio.NewReaderSize(f, 1<<16)
	if magic, _ := buffered.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		return gzip.NewReader(buffered)
	}
	return buffered, nil
}
