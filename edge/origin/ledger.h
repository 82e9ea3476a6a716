/* SPDX-License-Identifier: Apache-2.0 */
/* edge/origin/ledger.h - what of a transparency log may be served from the edge, and for how long
 * (C2SP tlog-tiles; docs/formats/ledger-proofs.md).
 *
 * Place: edge, before an origin of kind `ledger`. Auditors read a log over and over;
 * what they read never changes once it is there, so the edge answers them and the ledger is asked
 * once. Pure.
 *
 * Rules:
 *   G1. A tile or bundle, full or partial, holds hashes or entries of fixed places of a log that
 *       only grows: it never changes (immutable).
 *   G2. A checkpoint is the newest head: kept for a moment only, and older than the tiles that
 *       exist, never newer.
 *   G3. Everything else of a ledger (accounts, entries by name, writes) is not for an edge, and so
 *       is a path with a form that tlog-tiles does not have: a client cannot make the edge
 *       fetch the same tile under two names.
 *
 * Threads: any. */
#pragma once

#include "ron/base/buf.h"
#include "ron/http/parse.h"

enum edg_ledger_kind {
    EDG_LEDGER_OTHER,      /* not served */
    EDG_LEDGER_CHECKPOINT, /* /checkpoint, also with a number of witnesses */
    EDG_LEDGER_TILE,       /* /tile/L/N[.p/W]: hashes, public */
    EDG_LEDGER_ENTRIES,    /* /tile/entries/N[.p/W]: entries, only with a capability */
};

enum { EDG_LEDGER_LEVEL_MAX = 63, EDG_LEDGER_CONTROL_SIZE = 64 };

/* `target` is the path below the origin with its query. */
enum edg_ledger_kind edg_ledger_kind(struct ron_str target);
/* The Cache-Control that the edge gives it; empty for what is not served. */
struct ron_str edg_ledger_control(enum edg_ledger_kind kind, uint64_t checkpoint_s,
                                  char room[EDG_LEDGER_CONTROL_SIZE]);
