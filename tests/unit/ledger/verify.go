// SPDX-License-Identifier: Apache-2.0

// verify.go - reads a folder that test_go.c or test_read_go.c wrote and checks it with Go's own
// packages.
//
// The checkpoint is opened by sumdb/note and parsed by sumdb/tlog. Tiles are read through
// tlog.TileHashReader, which checks them against the checkpoint (0.7.0 leaves out some when one tile
// serves several parts of the right edge); from them Go makes its own proofs, which must equal ours,
// and it verifies ours. Prints "ok" and what was checked.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

var dir = os.Args[1]

func read(name string) []byte {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		log.Fatal(err)
	}
	return data
}

// The paths of C2SP leave the height of a tile out.
type tiles struct{ count int }

func (t *tiles) Height() int { return 8 }

func (t *tiles) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	var out [][]byte
	for _, tile := range list {
		t.count++
		out = append(out, read(strings.Replace(tile.Path(), "tile/8/", "tile/", 1)))
	}
	return out, nil
}

func (t *tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func open(name string, verifiers note.Verifiers) tlog.Tree {
	n, err := note.Open(read(name), verifiers)
	if err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	tree, err := tlog.ParseTree([]byte(n.Text))
	if err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	return tree
}

// entry n of the log: out of its bundle when the folder has bundles, else a known text.
func entry(n int64) []byte {
	if _, err := os.Stat(filepath.Join(dir, "tile/entries")); err != nil {
		return []byte(fmt.Sprintf("entry %d", n))
	}
	name := fmt.Sprintf("tile/entries/%03d", n/256)
	if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
		widths, err := os.ReadDir(filepath.Join(dir, name+".p"))
		if err != nil || len(widths) != 1 {
			log.Fatalf("no bundle for entry %d: %v", n, err)
		}
		name += ".p/" + widths[0].Name()
	}
	bundle := read(name)
	for i := int64(0); i < n%256; i++ {
		bundle = bundle[2+int(binary.BigEndian.Uint16(bundle)):]
	}
	return bundle[2 : 2+int(binary.BigEndian.Uint16(bundle))]
}

func hashes(field string) (out []tlog.Hash) {
	for _, part := range strings.Fields(field) {
		var h tlog.Hash
		raw, err := base64.StdEncoding.DecodeString(part)
		if err != nil || copy(h[:], raw) != len(h) {
			log.Fatalf("no hash: %s", part)
		}
		out = append(out, h)
	}
	return out
}

func same(a, b []tlog.Hash) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

func main() {
	verifier, err := note.NewVerifier(strings.TrimSpace(string(read("vkey"))))
	if err != nil {
		log.Fatal(err)
	}
	verifiers := note.VerifierList(verifier)
	signer, err := note.NewSigner(strings.TrimSpace(string(read("skey"))))
	if err != nil {
		log.Fatal(err)
	}
	tree, old := open("checkpoint", verifiers), open("checkpoint.old", verifiers)
	// What Go signs over the same text are the bytes that we served.
	text := bytes.SplitAfter(read("checkpoint"), []byte("\n\n"))[0]
	signed, err := note.Sign(&note.Note{Text: string(text[:len(text)-1])}, signer)
	if err != nil || !bytes.Equal(signed, read("checkpoint")) {
		log.Fatalf("Go signs otherwise: %v\n%s", err, signed)
	}

	source := &tiles{}
	reader := tlog.TileHashReader(tree, source)
	if root, err := tlog.TreeHash(old.N, reader); err != nil || root != old.Hash {
		log.Fatalf("old root: %v", err)
	}
	inclusions, consistencies := 0, 0
	for _, line := range strings.Split(strings.TrimSpace(string(read("proofs"))), "\n") {
		var kind string
		var a int64
		parts := strings.SplitN(line, ":", 2)
		if _, err := fmt.Sscan(parts[0], &kind, &a); err != nil {
			log.Fatal(err)
		}
		ours := hashes(parts[1])
		switch kind {
		case "inclusion":
			leaf := tlog.RecordHash(entry(a))
			if err := tlog.CheckRecord(ours, tree.N, tree.Hash, a, leaf); err != nil {
				log.Fatalf("inclusion %d: %v", a, err)
			}
			theirs, err := tlog.ProveRecord(tree.N, a, reader)
			if err != nil || !same(ours, theirs) {
				log.Fatalf("inclusion %d: Go's proof differs, %v", a, err)
			}
			inclusions++
		case "consistency":
			root, err := tlog.TreeHash(a, reader)
			if err != nil {
				log.Fatal(err)
			}
			if err := tlog.CheckTree(ours, tree.N, tree.Hash, a, root); err != nil {
				log.Fatalf("consistency %d: %v", a, err)
			}
			theirs, err := tlog.ProveTree(tree.N, a, reader)
			if err != nil || !same(ours, theirs) {
				log.Fatalf("consistency %d: Go's proof differs, %v", a, err)
			}
			consistencies++
		default:
			log.Fatalf("unknown line: %s", line)
		}
	}
	if inclusions == 0 || consistencies == 0 || source.count == 0 {
		log.Fatal("nothing was checked")
	}
	fmt.Printf("ok: %d inclusion and %d consistency proofs, %d tiles read\n", inclusions,
		consistencies, source.count)
}
