// Command gen-catalog writes the price catalogue that ships inside the services binary, from tables of facts that the clouds publish:
//
//	./scripts/gen catalog <folder with catalog/ and availability/>
//
// The tables it reads, their dates and licences are listed in sources.go; services/market/catalog/README.md describes the
// format. The same facts give the same bytes.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
)

func main() {
	log.SetFlags(0)
	facts := flag.String("facts", "", "folder that holds catalog/ and availability/")
	out := flag.String("out", "", "file to write")
	flag.Parse()
	if *facts == "" || *out == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*facts, *out); err != nil {
		log.Fatal("gen-catalog: ", err)
	}
}

func run(facts, out string) error {
	var b book
	for _, read := range []func(string, *book) error{readAWS, readAzure, readGCP} {
		if err := read(facts, &b); err != nil {
			return err
		}
	}
	b.tidy()
	b.quarantine()
	weights := fitAll(b.types)
	var text bytes.Buffer
	b.write(&text, weights)
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(text.Bytes()); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(out, packed.Bytes(), 0o644); err != nil {
		return err
	}
	prices, offered, doubts := 0, 0, 0
	for _, t := range b.types {
		prices += len(t.prices)
		offered += len(t.offered)
		doubts += len(t.doubts)
	}
	b.report(os.Stdout)
	fmt.Printf("%s: %d types, %d regions with a price, %d without, %d prices in quarantine, %d bytes of text, %d packed\n",
		filepath.Base(out), len(b.types), prices, offered, doubts, text.Len(), packed.Len())
	for _, w := range weights {
		fmt.Printf("weight %s %s %s\n", w.cloud, w.what, nano(w.perHour))
	}
	return nil
}
