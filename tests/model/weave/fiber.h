/* SPDX-License-Identifier: Apache-2.0 */
/* fiber.h - a second stack to run on, and the jump between stacks.
 *
 * Why not swapcontext: it asks the kernel for the signal mask twice per switch, about half a
 * microsecond, and the explorer switches hundreds of millions of times. On x86-64 a switch here is
 * six pushes and six pops; other processors fall back to ucontext.
 *
 * Rules:
 *   F1 a stack is mapped once and reused for every later run of its fiber;
 *   F2 the lowest page of a stack is a guard: running over it is a segmentation fault, not a
 *      riddle;
 *   F3 the entry function never returns.
 * Threads: all fibers live on one thread. */
#pragma once

#include <stddef.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

/* Room for printf and for the deepest call chain of the kernel, five times over. Pages that are
 * never touched cost nothing. */
enum { FIBER_STACK_BYTES = 256 * 1024 };

struct fiber {
    void *stack; /* lowest address of the mapping; NULL until first prepared */
#if defined(__x86_64__)
    void *sp;
#else
    ucontext_t uc;
#endif
};

/* Makes the next switch to `f` call entry() on a fresh stack. */
void fiber_prepare(struct fiber *f, void (*entry)(void));

/* Saves the running stack in `from` and goes on where `to` was left. */
void fiber_switch(struct fiber *from, struct fiber *to);
