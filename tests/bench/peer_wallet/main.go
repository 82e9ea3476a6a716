// SPDX-License-Identifier: Apache-2.0

// The peer of `./dev bench wallet`: the thin HTTP layer that a user would put before PostgreSQL.
// Go's own server with JSON in and out, pgx with a pool and prepared statements, the functions of
// ../peer_pg. It takes the wallet's requests: POST /v1/transfer, GET /v1/balance.
//
//	peer ADDR PG-SOCKET-FOLDER CONNECTIONS
//
// It checks nothing but the shape of a request: no capabilities, nonces, ceilings or receipts.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v4/pgxpool"
)

type transfer struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Asset  string `json:"asset"`
	Amount string `json:"amount_minor"`
	Memo   string `json:"memo"`
}

type receipt struct {
	Seq    int64  `json:"seq"`
	From   string `json:"from"`
	To     string `json:"to"`
	Amount string `json:"amount_minor"`
	Idem   string `json:"idem"`
}

// "acct:" and hexadecimal digits, from 0; the schema counts from 1.
func account(name string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimPrefix(name, "acct:"), 16, 63)
	return n + 1, err
}

func answer(w http.ResponseWriter, value interface{}) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		log.Print(err)
	}
}

func main() {
	pool, err := pgxpool.Connect(context.Background(), fmt.Sprintf(
		"host=%s user=postgres dbname=bench pool_max_conns=%s", os.Args[2], os.Args[3]))
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/v1/transfer", func(w http.ResponseWriter, r *http.Request) {
		var t transfer
		if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		from, err1 := account(t.From)
		to, err2 := account(t.To)
		key := r.Header.Get("Idempotency-Key")
		if err1 != nil || err2 != nil || key == "" {
			http.Error(w, "account or key", http.StatusBadRequest)
			return
		}
		var seq int64
		err := pool.QueryRow(r.Context(),
			"SELECT led.transfer($1::text::uuid, $2, $3, $4::text::numeric, $5)",
			key, from, to, t.Amount, t.Memo).Scan(&seq)
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		answer(w, receipt{seq, t.From, t.To, t.Amount, key})
	})
	http.HandleFunc("/v1/balance", func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("account")
		id, err := account(name)
		var balance string
		if err == nil {
			err = pool.QueryRow(r.Context(),
				"SELECT balance::text FROM led.accounts WHERE id = $1", id).Scan(&balance)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		answer(w, map[string]string{"account": name, "amount_minor": balance})
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
