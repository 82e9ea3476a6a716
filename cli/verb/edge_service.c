/* SPDX-License-Identifier: Apache-2.0 */
/* cli/verb/edge_service.c - `ron edge`: hands over to the frame of `ron/app`. What can be done with
 * packs while no service runs is in edge.c. */
#include "cli/base/cli.h"
#include "edge/edge.h"

int cli_edge(int argc, char **argv)
{
    return ron_app_main(&edg_app, argc, argv);
}
