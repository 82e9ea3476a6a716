// SPDX-License-Identifier: Apache-2.0

// witness.go - a witness (C2SP tlog-cosignature, v1) made of Go's own packages, for test_go_witness.c.
//
//	witness DIR key     writes the witness's verifier key
//	witness DIR cosign  opens the log's checkpoint, and writes it with a cosignature
//	witness DIR verify  opens the published checkpoint with the keys of both
package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

const (
	name = "witness.example/go"
	when = 1700000123
)

var dir = os.Args[1]

func read(file string) []byte {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		log.Fatal(err)
	}
	return data
}

func write(file string, data []byte) {
	if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
		log.Fatal(err)
	}
}

type cosigner struct{ key ed25519.PrivateKey }

func (c cosigner) public() []byte { return append([]byte{4}, c.key.Public().(ed25519.PublicKey)...) }

func (c cosigner) Name() string { return name }

func (c cosigner) KeyHash() uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), c.public()...))
	return binary.BigEndian.Uint32(sum[:])
}

func message(t uint64, text []byte) []byte {
	return append([]byte(fmt.Sprintf("cosignature/v1\ntime %d\n", t)), text...)
}

func (c cosigner) Sign(text []byte) ([]byte, error) {
	out := binary.BigEndian.AppendUint64(nil, when)
	return append(out, ed25519.Sign(c.key, message(when, text))...), nil
}

func (c cosigner) Verify(text, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize || binary.BigEndian.Uint64(sig) != when {
		return false
	}
	return ed25519.Verify(c.key.Public().(ed25519.PublicKey), message(when, text), sig[8:])
}

func open(file string, verifiers ...note.Verifier) *note.Note {
	n, err := note.Open(read(file), note.VerifierList(verifiers...))
	if err != nil {
		log.Fatalf("%s: %v", file, err)
	}
	if len(n.Sigs) != len(verifiers) || len(n.UnverifiedSigs) != 0 {
		log.Fatalf("%s: %d good signatures, %d unknown", file, len(n.Sigs), len(n.UnverifiedSigs))
	}
	return n
}

func main() {
	seed := sha256.Sum256([]byte("the witness of the test"))
	me := cosigner{ed25519.NewKeyFromSeed(seed[:])}
	if os.Args[2] == "key" {
		write("wkey", []byte(fmt.Sprintf("%s+%08x+%s", name, me.KeyHash(),
			base64.StdEncoding.EncodeToString(me.public()))))
		return
	}
	ledger, err := note.NewVerifier(strings.TrimSpace(string(read("vkey"))))
	if err != nil {
		log.Fatal(err)
	}
	switch os.Args[2] {
	case "cosign":
		signed, err := note.Sign(open("checkpoint", ledger), me)
		if err != nil {
			log.Fatal(err)
		}
		write("cosigned", signed)
	case "verify":
		n := open("published", ledger, me)
		if lines := strings.Split(n.Text, "\n"); lines[0] != ledger.Name() || lines[1] != "70000" {
			log.Fatalf("published: %q", n.Text)
		}
	}
	fmt.Println("ok:", os.Args[2])
}
