// SPDX-License-Identifier: Apache-2.0
// An auditor with Go's own reader of tiles: every hash it reads from the folder is proven against
// the root of the checkpoint (the arguments: folder, size, root in base64), or it fails.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

type folder string

func (f folder) Height() int { return 8 }

func (f folder) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var all [][]byte
	for _, t := range tiles {
		// C2SP leaves the height out of the path.
		data, err := os.ReadFile(filepath.Join(string(f),
			strings.Replace(t.Path(), "tile/8/", "tile/", 1)))
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

func (f folder) SaveTiles([]tlog.Tile, [][]byte) {}

func main() {
	size, err := strconv.ParseInt(os.Args[2], 10, 64)
	fatal(err)
	root, err := tlog.ParseHash(os.Args[3])
	fatal(err)
	r := tlog.TileHashReader(tlog.Tree{N: size, Hash: root}, folder(os.Args[1]))
	for n := int64(0); n < size; n++ {
		h, err := r.ReadHashes([]int64{tlog.StoredHashIndex(0, n)})
		fatal(err)
		fmt.Println(h[0])
	}
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
