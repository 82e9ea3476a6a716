/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/reward_live.h - an epoch at the running rewarder, for the verbs that ask for one. */
#pragma once

#include "cli/base/net.h"

/* Stores the snapshot, then has the epoch computed under the policy, and waits for the manifest.
 * `policy_key` is "ID=HEX" for a signed policy, or NULL. CLI_OK with the manifest in the answer;
 * else what is wrong was told. The answer is done by the caller. */
int cli_reward_run(struct cli_client *c, const char *epoch, struct ron_str snapshot,
                   struct ron_str policy, const char *policy_key, struct cli_answer *ret_answer);
