/* SPDX-License-Identifier: Apache-2.0 */
/* ledger/core/news.h - words that sequencer, committer, indexer and leader leave for each other.
 *
 * Place: service. A word is an atomic, not a message: many changes between two rounds of the reader
 * cost one look. Beside each word: which task sets it and which clears it. */
#pragma once

#include "ron/sync/sync.h"
#include "ron/task/task.h"

enum { LED_NEWS_BLOCKS = 2 }; /* for the book, which never wants more at once */

struct led_news {
    struct ron_task *seq_task;     /* is woken after a word for it was set; NULL before the build */
    struct ron_au64 durable_works; /* the committer adds; the engine's replacement sets 0 */
    struct ron_au32 abort_wanted;  /* committer and leader set; the sequencer clears, and undoes */
    struct ron_au32 reign;         /* leadership losses; the leader adds, after abort_wanted */
    struct ron_au64 indexed_seq;   /* the indexer sets, and the engine's replacement */
    struct ron_au64 log_bytes;     /* the same */
    struct ron_au64 segments_late; /* of all logs since the start; the indexer adds */
    struct ron_au32 image_wanted;  /* the indexer sets; the sequencer clears when it begins one */
    struct ron_au64 image_accounts; /* of the last image, about; the sequencer sets */
    struct ron_au32 blocks_wanted;  /* the sequencer sets: memory for the book (book/book.h) */
    struct ron_aptr blocks[LED_NEWS_BLOCKS]; /* the indexer fills, the sequencer takes; or NULL */
    struct ron_au32 at_rest; /* the indexer sets after a while without entries; sequencer clears */
};

static inline void led_news_wake(const struct led_news *n)
{
    if (n->seq_task != NULL) {
        ron_task_wake(n->seq_task);
    }
}
