/* SPDX-License-Identifier: Apache-2.0 */
/* wheel_testing.h - what tests ask of a timer wheel. */
#pragma once

#include "ron/base/wheel.h"

/* Walks the whole wheel and asserts its invariants; for tests. */
void ron_wheel_assert(const struct ron_wheel *wheel);
