/* SPDX-License-Identifier: Apache-2.0 */
/* kernel/src/http/ops/collect.h - samples of guards, for collectors that cover several; private to
 * http. */
#pragma once

#include "ron/http/ops.h"

/* `arg` is a struct ron_ops_breaker, a struct ron_ops_retry. */
void ron__collect_breaker(struct ron_scrape *sc, void *arg);
void ron__collect_retry(struct ron_scrape *sc, void *arg);
