/* SPDX-License-Identifier: Apache-2.0 */
/* pg_priv.h - what the files of this folder share. */
#pragma once

#include "ron/pg/pg.h"

/* SQLSTATE of the last refusal, "" for none. */
const char *ron_pg_state(const struct ron_pg *pg);

bool ron_pg_connected(const struct ron_pg *pg);
