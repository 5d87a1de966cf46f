package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"plimsoll.dev/services/fleet"
	"plimsoll.dev/services/market"
	"plimsoll.dev/services/store"
)

func marketImport(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set := flag.NewFlagSet("plimsoll market import FILE...", flag.ContinueOnError)
	source := set.String("source", "", "name kept with the prices (default: the file's name)")
	trust := set.Bool("trust", false, "believe prices that jump; for histories of the auctions before 2017")
	const most = 1000
	if err := parse(set, args, stderr, most); err != nil {
		return err
	}
	if set.NArg() == 0 {
		return fleet.Errorf(fleet.CodeInvalid, "name at least one CSV file, plain or gzip, or - for standard input")
	}
	db, err := openMarket(ctx)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, path := range set.Args() {
		if err := importFile(ctx, db, path, store.SpotWriteOptions{Source: or(*source, filepath.Base(path)), Trust: *trust, Prices: market.Catalogue()}, stdout); err != nil {
			return fmt.Errorf("%s: nothing of it was imported: %w", path, err)
		}
	}
	return nil
}

func importFile(ctx context.Context, db *store.DB, path string, opt store.SpotWriteOptions, stdout io.Writer) error {
	in := io.ReadCloser(os.Stdin)
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		in = file
	}
	defer in.Close()
	var w store.SpotWritten
	err := db.Global(ctx, func(tx *store.Tx) (err error) {
		w, err = importSpot(ctx, tx, in, opt)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s: %d rows, %d changes new, %d known, %d quarantined (%d of them new), %d pools new\n",
		path, w.Rows, w.Added, w.Unchanged, w.Quarantined, w.Doubts, w.NewPools)
	return nil
}

// Bounds of a file: what it may unpack to, and how many of its bad rows are named.
const (
	maxImportBytes = 8 << 30
	maxBadRows     = 20
)

// importSpot reads a CSV of prices, plain or gzip, into the transaction. If any row is malformed it names the first ones by row
// number and fails, so that the caller takes everything back.
func importSpot(ctx context.Context, tx *store.Tx, in io.Reader, opt store.SpotWriteOptions) (store.SpotWritten, error) {
	rows, err := openCSV(in)
	if err != nil {
		return store.SpotWritten{}, err
	}
	header, err := rows.Read()
	if err != nil {
		return store.SpotWritten{}, fleet.Errorf(fleet.CodeInvalid, "no header: %v", err)
	}
	shape, err := market.NewSpotShape(header)
	if err != nil {
		return store.SpotWritten{}, err
	}
	w, err := store.NewSpotWriter(ctx, tx, opt)
	if err != nil {
		return store.SpotWritten{}, err
	}
	var bad badRows
	for n := 2; bad.count < maxBadRows; n++ { // the header is row 1
		record, err := rows.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var malformed *csv.ParseError
		if err != nil && !errors.As(err, &malformed) {
			return store.SpotWritten{}, fmt.Errorf("row %d: the file breaks off: %w", n, err)
		}
		if err != nil {
			bad.add(n, malformed.Err)
			continue
		}
		row, err := shape.Row(record)
		if err == nil && bad.count == 0 {
			err = w.Add(ctx, row)
		}
		var coded *fleet.Error
		switch {
		case err == nil:
		case errors.As(err, &coded) && coded.Code == fleet.CodeInvalid:
			bad.add(n, err)
		default:
			return store.SpotWritten{}, err
		}
	}
	if bad.count > 0 {
		return store.SpotWritten{}, bad.err()
	}
	return w.Close(ctx)
}

// openCSV reads CSV, unpacking gzip where it is.
func openCSV(in io.Reader) (*csv.Reader, error) {
	buffered := bufio.NewReaderSize(in, 1<<16)
	var text io.Reader = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fleet.Errorf(fleet.CodeInvalid, "broken gzip: %v", err)
		}
		text = z
	}
	rows := csv.NewReader(&bounded{r: text, left: maxImportBytes})
	rows.ReuseRecord, rows.FieldsPerRecord = true, -1 // the shape counts fields, and says so better
	return rows, nil
}

// bounded fails instead of ending early when there is more than it may read.
type bounded struct {
	r    io.Reader
	left int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fleet.Errorf(fleet.CodeTooLarge, "more than %d bytes", int64(maxImportBytes))
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// badRows collects what is wrong with a file.
type badRows struct {
	count int
	text  bytes.Buffer
}

func (b *badRows) add(row int, err error) {
	b.count++
	fmt.Fprintf(&b.text, "\n  row %d: %v", row, err)
}

func (b *badRows) err() error {
	more := ""
	if b.count == maxBadRows {
		more = "\n  and perhaps more"
	}
	return fleet.Errorf(fleet.CodeInvalid, "bad rows:%s%s", b.text.String(), more)
}
