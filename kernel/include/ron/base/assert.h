/* SPDX-License-Identifier: Apache-2.0 */
/* assert.h - assertions that stay on, and the report they leave behind.
 *
 * Place: base; used by every module. An assertion is for a programmer's mistake. Never assert on
 * input, disk content or a clock: those are results (rc.h).
 *
 * What happens on failure: one write to standard error with the expression, file and line,
 * function, thread, task, build id and the last events of this thread (ctx.h), then a trap in
 * place, so that a debugger or core dump shows the failing frame. The report neither allocates nor
 * goes through stdio buffers, so it also works when the heap is damaged.
 *
 *   RON_ASSERT(cond)               always on, also in release
 *   RON_ASSERT_MSG(cond, fmt, ..)  the same with a sentence (name the invariant: "I3: ...")
 *   RON_ASSERT_SLOW(cond)          only when RON_CHECKED; for checks that cost more than a branch.
 *                                  In release cond is not evaluated but must still compile.
 *   RON_ALWAYS(x), RON_NEVER(x)    a defensive condition: the value of x, and an assertion when
 *                                  RON_CHECKED. `if (RON_NEVER(p == NULL)) { return ...; }`
 *   RON_UNREACHABLE()              always on
 *   RON_IMPLIES(a, b)              logic for use inside an assertion
 *   RON_CHECK_MAGIC(ptr, MAGIC)    ptr is not NULL and its field `magic` is MAGIC
 *   RON_OBJ(ptr, type, MAGIC)      the way from `void *` (task argument, message, callback) to a
 *                                  type: checks the magic and yields `type *`. MAGIC is four
 *                                  letters, set by the object's init, zeroed by its done.
 *
 * One condition per assertion, so that the report says which one failed.
 */
#pragma once

#include <stdbool.h>

#include "ron/base/macros.h"

__attribute__((noreturn, cold)) void ron_assert_fail(const char *expr, const char *file, int line,
                                                     const char *func);
__attribute__((noreturn, cold)) void ron_assert_fail_msg(const char *expr, const char *file,
                                                         int line, const char *func,
                                                         const char *fmt, ...) RON_PRINTF(5, 6);

#define RON_ASSERT_NAMED_(cond, text)                                                              \
    (RON_LIKELY(cond) ? (void)0 : ron_assert_fail((text), __FILE__, __LINE__, __func__))

#define RON_ASSERT(cond) RON_ASSERT_NAMED_(cond, #cond)

#define RON_ASSERT_MSG(cond, ...)                                                                  \
    (RON_LIKELY(cond) ? (void)0                                                                    \
                      : ron_assert_fail_msg(#cond, __FILE__, __LINE__, __func__, __VA_ARGS__))

#define RON_UNREACHABLE() ron_assert_fail("unreachable", __FILE__, __LINE__, __func__)

#define RON_IMPLIES(a, b) (!(a) || (b))

#if RON_CHECKED
#define RON_ASSERT_SLOW(cond) RON_ASSERT_NAMED_(cond, #cond)
#define RON_ALWAYS(x)                                                                              \
    (RON_LIKELY(x) || (ron_assert_fail("RON_ALWAYS(" #x ")", __FILE__, __LINE__, __func__), false))
#define RON_NEVER(x)                                                                               \
    (RON_UNLIKELY(x) && (ron_assert_fail("RON_NEVER(" #x ")", __FILE__, __LINE__, __func__), true))
#else
#define RON_ASSERT_SLOW(cond) ((void)sizeof((cond) ? 1 : 0))
#define RON_ALWAYS(x) RON_LIKELY(x)
#define RON_NEVER(x) RON_UNLIKELY(x)
#endif

#define RON_CHECK_MAGIC(ptr, MAGIC)                                                                \
    do {                                                                                           \
        const __typeof__(*(ptr)) *ron_magic_ptr_ = (ptr);                                          \
        RON_ASSERT_NAMED_(ron_magic_ptr_ != NULL, #ptr " != NULL");                                \
        RON_ASSERT_NAMED_(ron_magic_ptr_->magic == (MAGIC), #ptr "->magic == " #MAGIC);            \
    } while (0)

#define RON_OBJ(ptr, type, MAGIC)                                                                  \
    __extension__({                                                                                \
        type *ron_obj_ = (ptr);                                                                    \
        RON_ASSERT_NAMED_(ron_obj_ != NULL, #ptr " != NULL");                                      \
        RON_ASSERT_NAMED_(ron_obj_->magic == (MAGIC), #ptr "->magic == " #MAGIC);                  \
        ron_obj_;                                                                                  \
    })
