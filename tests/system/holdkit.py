# SPDX-License-Identifier: Apache-2.0
"""Threads of a service that stand still: a test holds the thread of a task with ptrace, so that
what waits behind it does so for certain and no result depends on the speed of the machine.

Where ptrace is not allowed `held` raises PermissionError, and the test says what it leaves out.
"""
import contextlib
import ctypes
import os
import threading
import time
from pathlib import Path

from httpkit import check, eventually

_SEIZE, _INTERRUPT, _DETACH, _SYSCALL, _WALL = 0x4206, 0x4207, 17, 24, 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long] * 4


def names_of(service):
    """The names of the process's threads."""
    return set(_threads(service).values())


def _threads(service):
    found = {}
    for t in Path(f"/proc/{service.process.pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has just ended
            found[int(t.name)] = (t / "comm").read_text(encoding="ascii").strip()
    return found


def threads_of(service, names):
    return [t for t, name in _threads(service).items() if name in names]


@contextlib.contextmanager
def held(service, *names):
    """The threads of these tasks stand still; or those of them that are still there at the end
    go on."""
    check(f"{', '.join(names)}: has a thread", eventually(
        lambda: len(threads_of(service, names)) == len(names)))
    tids = threads_of(service, names)
    for tid in tids:
        if _libc.ptrace(_SEIZE, tid, 0, 0) != 0 or _libc.ptrace(_INTERRUPT, tid, 0, 0) != 0:
            raise PermissionError(ctypes.get_errno(), "ptrace")
        os.waitpid(tid, _WALL)
    try:
        yield tids
    finally:
        for tid in tids:
            _libc.ptrace(_DETACH, tid, 0, 0)


@contextlib.contextmanager
def held_behind(service, name, ask):
    """Calls `ask` beside, while the thread of this task goes on from one system call to the next;
    it stands still behind the one that let `ask` return, so before anything that it does later.
    Gives what `ask` returned."""
    said = []
    asker = threading.Thread(target=lambda: said.append(ask()))
    with held(service, name) as (tid,):
        asker.start()
        while True:
            asker.join(0.02)  # what the last call set off
            if not asker.is_alive():
                break
            _libc.ptrace(_SYSCALL, tid, 0, 0)
            while os.waitpid(tid, _WALL | os.WNOHANG)[0] == 0:
                if not asker.is_alive():  # a busy machine: the answer took longer than that
                    _libc.ptrace(_INTERRUPT, tid, 0, 0)
                    os.waitpid(tid, _WALL)
                    break
                time.sleep(0.0005)
        yield said[0]


def reap(tid):
    """Waits for the end of a held thread whose process has ended: until then nobody is told that
    the process has."""
    with contextlib.suppress(ChildProcessError):
        while not os.WIFEXITED(status := os.waitpid(tid, _WALL)[1]) and \
                not os.WIFSIGNALED(status):
            pass
