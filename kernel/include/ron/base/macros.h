/* SPDX-License-Identifier: Apache-2.0 */
/* macros.h - the few compiler conveniences that every module may lean on.
 *
 * Place: bottom of the kernel; includes nothing of ours.
 * Rules: every macro evaluates each argument once (RON_CONTAINER_OF and RON_ARRAY_LEN evaluate
 *   theirs at most once), works with gcc 12 and clang 14 under -Wpedantic -Wshadow, and may be
 *   nested in itself.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* 1 in every build but release. A build that says nothing gets the checks. */
#ifndef RON_CHECKED
#define RON_CHECKED 1
#endif

#define RON_STR_(x) #x
#define RON_STR(x) RON_STR_(x)
#define RON_PASTE_(a, b) a##b
#define RON_PASTE(a, b) RON_PASTE_(a, b)

#define RON_LIKELY(cond) __builtin_expect(!!(cond), 1)
#define RON_UNLIKELY(cond) __builtin_expect(!!(cond), 0)

/* Number of elements of a true array; a pointer does not compile (negative array size). */
#define RON_ARRAY_LEN(array)                                                                       \
    (sizeof(array) / sizeof((array)[0]) +                                                          \
     0 * sizeof(char[1 - 2 * __builtin_types_compatible_p(__typeof__(array),                       \
                                                          __typeof__(&(array)[0]))]))

/* The struct of `type` whose field `member` is at `ptr`. The dead arm of the conditional makes a
 * pointer of the wrong type a compile-time complaint. */
#define RON_CONTAINER_OF(ptr, type, member)                                                        \
    ((type *)(void *)((char *)(1 ? (ptr) : &((type *)0)->member) - offsetof(type, member)))

/* Runs fn(&variable) when the variable leaves its scope, on every path. */
#define RON_CLEANUP(fn) __attribute__((cleanup(fn)))

/* Gives the value of a pointer away and leaves NULL behind, so that a cleanup does nothing. */
#define RON_TAKE(ptr)                                                                              \
    (__extension__({                                                                               \
        __typeof__(ptr) *ron_take_slot_ = &(ptr);                                                  \
        __typeof__(ptr) ron_take_value_ = *ron_take_slot_;                                         \
        *ron_take_slot_ = NULL;                                                                    \
        ron_take_value_;                                                                           \
    }))

/* The caller must look at the result. gcc does not accept a (void) cast as looking. */
#define RON_MUST_USE __attribute__((warn_unused_result))

/* Drops a RON_MUST_USE result on purpose. Write the reason beside it. */
#define RON_IGNORE(expr)                                                                           \
    do {                                                                                           \
        __typeof__(expr) ron_ignored_ = (expr);                                                    \
        (void)ron_ignored_;                                                                        \
    } while (0)

/* Lets the compiler check a printf-like format: fmt is parameter `a`, its first value `b`. */
#define RON_PRINTF(a, b) __attribute__((format(printf, a, b)))

/* Both operands must have the same type: mixing signs or widths is a compile-time complaint. */
#define RON_MIN_(a, b, ua, ub)                                                                     \
    (__extension__({                                                                               \
        __typeof__(a) ua = (a);                                                                    \
        __typeof__(b) ub = (b);                                                                    \
        (void)(&ua == &ub);                                                                        \
        ua < ub ? ua : ub;                                                                         \
    }))
#define RON_MAX_(a, b, ua, ub)                                                                     \
    (__extension__({                                                                               \
        __typeof__(a) ua = (a);                                                                    \
        __typeof__(b) ub = (b);                                                                    \
        (void)(&ua == &ub);                                                                        \
        ua > ub ? ua : ub;                                                                         \
    }))
#define RON_MIN(a, b)                                                                              \
    RON_MIN_(a, b, RON_PASTE(ron_min_a_, __COUNTER__), RON_PASTE(ron_min_b_, __COUNTER__))
#define RON_MAX(a, b)                                                                              \
    RON_MAX_(a, b, RON_PASTE(ron_max_a_, __COUNTER__), RON_PASTE(ron_max_b_, __COUNTER__))

/* 64 bytes on every x86-64 and on the 64-bit Arm cores we run on. Fields written by different
 * threads sit on different lines. */
#define RON_CACHELINE 64
#define RON_ALIGNED_CACHELINE __attribute__((aligned(RON_CACHELINE)))
