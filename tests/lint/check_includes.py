#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dependency law and the doors to the operating system.

1. A module includes only headers of the modules that the table USES allows. A private header (in a
   src folder of the kernel, or any header of a service that rooms.toml does not call public)
   belongs to its own module, and a public header includes public ones only.
2. A service never includes another service: they meet on the wire. The auditor knows no service
   at all, least of all the ledger that it audits: it stands on base and io.
3. Each door of the table DOORS is used only where the table says. That keeps time, randomness,
   network and disk replaceable by the simulator, and threads by the schedule explorer.
4. Inside a service the rooms of rooms.toml keep their order: an include goes to its own room or to
   an earlier one, never to another room's priv.h, and is spelled from the root. svc.h is for svc.c.
Tests may use everything but fences.
"""
import posixpath
import re

from common import code_lines, files, main, read
from debt import without_debt
from rooms import TOPS as ROOMS, place

LOW = ["base", "sync", "chan", "task", "io"]
SERVICES = ["ledger", "wallet", "rewarder", "edge", "interop", "console"]
# chan and task stand side by side in the law; task drives channels, and channels know no tasks.
USES = {
    "base": [],
    "sync": ["base"],
    "chan": ["base", "sync"],
    "task": ["base", "sync", "chan"],
    "io": ["base", "sync", "chan", "task"],
}
MIDDLE = ["guard", "obs", "conf", "cap", "cas", "merkle", "pg"]
FRONT = ["http", "wire"]  # and front, what they share
UPPER = MIDDLE + ["sql", "front"] + FRONT + ["s3", "app"]
USES.update({module: LOW for module in MIDDLE})
USES["sql"] = LOW + ["cas", "pg"]
USES["front"] = LOW
USES.update({module: LOW + MIDDLE + ["front"] for module in FRONT})
USES["s3"] = LOW + MIDDLE + ["http"]
USES["app"] = LOW + MIDDLE + FRONT
USES["client"] = LOW + ["guard"]  # how services speak with the ledger, and with which
USES.update({service: LOW + UPPER + ["client"] for service in SERVICES})
USES["ledger"] = LOW + UPPER  # which needs no client of its own
USES["cli"] = LOW + UPPER + ["client"] + SERVICES
USES["audit"] = ["base", "io"]
TOPS = SERVICES + ["client", "audit", "cli"]

SYNC = ["kernel/include/ron/sync/", "kernel/src/sync/"]
# (what, regular expression, places where it may stand, why). A call is a name followed by a bracket
# that is no member of a struct; the expressions run on code without comments and strings.
DOORS = [
    ("fence", r"\b(atomic_(thread|signal)_fence|__atomic_thread_fence|__sync_synchronize)\b", [],
     "ThreadSanitizer cannot follow fences: order on the atomic itself"),
    ("thread header", r'#\s*include\s*<(pthread|stdatomic|threads|semaphore)\.h>', SYNC,
     "threads and atomics come from ron/sync"),
    ("thread or atomic", r"\b(pthread_\w+|_Atomic|atomic_\w+|__atomic_\w+|__sync_\w+|futex)\b",
     SYNC, "threads and atomics come from ron/sync"),
    ("clock", r"CALL(clock_gettime|gettimeofday|time|times|ftime|timespec_get)",
     ["kernel/src/io/", "kernel/src/sync/"], "time comes from struct ron_env"),
    ("sleep", r"CALL(sleep|usleep|nanosleep|clock_nanosleep)", SYNC,
     "waits have a wake-up: ron/sync, ron/chan or the timer wheel"),
    ("randomness", r"CALL(s?rand|s?random|rand_r|[dlm]rand48|getrandom|getentropy|arc4random\w*)",
     ["kernel/src/io/"], "randomness comes from struct ron_env"),
    ("network", r"CALL(socket|socketpair|bind|listen|accept4?|connect|getaddrinfo|[gs]etsockopt"
     r"|send(to|msg|mmsg|file)?|recv(from|msg|mmsg)?|shutdown)", ["kernel/src/io/"],
     "the network comes from struct ron_env"),
    ("poller", r"CALL(epoll_\w+|eventfd|timerfd_\w+|signalfd|ppoll|poll|p?select|io_uring_\w+)",
     ["kernel/src/io/", "kernel/src/pg/"], "the poller comes from struct ron_env"),
    ("disk", r"CALL(open(at)?|creat|fopen|freopen|pread(v2?)?|pwrite(v2?)?|fsync|fdatasync"
     r"|sync_file_range|syncfs|rename(at2?)?|unlink(at)?|remove|mkdir(at)?|rmdir|link(at)?|opendir"
     r"|f?truncate|fallocate|posix_fallocate|mmap|msync|statvfs|flock)", ["kernel/src/io/"],
     "files come from struct ron_env"),
]


def compiled(rule):
    if rule.startswith("CALL"):
        rule = r"(?<![\w.>])" + rule.removeprefix("CALL") + r"\s*\("
    return re.compile(rule)


DOORS = [(what, compiled(rule), places, why) for what, rule, places, why in DOORS]
FENCE = DOORS[0]
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def owner(path):
    """(module, is public header) of a path, or (None, False) for what the law does not rule."""
    parts = path.as_posix().split("/")
    if parts[:3] == ["kernel", "include", "ron"] and len(parts) > 4:
        return parts[3], True
    if parts[:2] == ["kernel", "src"] and len(parts) > 3:
        return parts[2], False
    if parts[0] in TOPS:
        rooms = ROOMS.get(parts[0], {})
        return parts[0], "/".join(parts[1:]) in rooms.get("public", [])
    return None, False


def resolve(tree, path, name):
    """The file of the tree that an include means, or None."""
    folders = [path.parent.as_posix(), "", "kernel/include", "kernel/src", "tests"]
    for folder in folders:
        candidate = posixpath.normpath(posixpath.join(folder, name))
        if candidate in tree:
            return tree[candidate]
    return None


def room_fault(path, name, target):
    """What is wrong with an include inside one service or sectioned module, or None."""
    here, there = place(path), place(target)
    if here is None or there is None:
        return None
    if here.top in TOPS and name != target.as_posix():
        return f'"{name}" is spelled "{target.as_posix()}": includes name the path from the root'
    if here.room == there.room:
        return None
    if target.name == "priv.h" or target.stem.endswith("_priv"):
        return f'"{name}" is private to {there.top}/{there.room}'
    if there.name == "conf.h":
        first = ROOMS[there.top].get("conf")
        if first and here.rank >= ROOMS[there.top]["rooms"].index(first):
            return None
    if there.rank > here.rank:
        return f'room {here.room} must not include "{name}": {there.room} comes after it'
    return None


def include_fault(tree, path, name):
    """What is wrong with this include, or None."""
    module, public = owner(path)
    target = resolve(tree, path, name)
    if target is None:
        # Generated headers have no file in the tree; the compiler finds real mistakes.
        return None
    other, other_public = owner(target)
    if other is None:
        return f'"{name}" is no header of the product'
    if public and not other_public:
        return f'a public header includes the private "{name}"'
    if other == module:
        return room_fault(path, name, target)
    if not other_public:
        return f'"{name}" is private to {other}'
    if module in SERVICES and other in SERVICES:
        return f"service {module} includes service {other}: they meet on the wire"
    if other not in USES.get(module, []):
        return f'{module} must not include "{name}": it stands below {other}'
    return None


def door_faults(path, lines):
    doors = DOORS if owner(path)[0] else [FENCE]
    for number, line in enumerate(lines, 1):
        for what, rule, places, why in doors:
            match = rule.search(line)
            if match and not any(path.as_posix().startswith(place) for place in places):
                yield path, number, f"{what} `{match.group().strip(' (')}`: {why}"
                break


def every_fault(root):
    tree = {path.as_posix(): path for path in files(root, ".c", ".h")}
    for path in tree.values():
        text = read(root, path)
        module, _ = owner(path)
        if module is not None:
            if module not in USES:
                yield path, 0, f"unknown module {module}: give it a row in USES"
                continue
            for number, line in enumerate(text.split("\n"), 1):
                match = INCLUDE.match(line)
                fault = include_fault(tree, path, match.group(1)) if match else None
                if fault:
                    yield path, number, fault
        yield from door_faults(path, code_lines(text))


def check(root):
    yield from without_debt(root, "includes", every_fault(root), "rooms")


H = "kernel/include/ron"
S = "kernel/src"
CASES = [
    ("a debt that was paid",
     {"tests/lint/rooms_debt.txt": "includes: ledger/a.c: an old finding\n"}, "delete it"),
    ("base includes sync", {f"{H}/sync/m.h": "", f"{S}/base/a.c": '#include "ron/sync/m.h"\n'},
     "base must not include"),
    ("chan includes task", {f"{H}/task/t.h": "", f"{S}/chan/a.c": '#include "ron/task/t.h"\n'},
     "chan must not include"),
    ("task includes chan is fine",
     {f"{H}/chan/t.h": "", f"{S}/task/a.c": '#include "ron/chan/t.h"\n'}, None),
    ("private header of another module",
     {f"{S}/sync/p.h": "", f"{S}/chan/a.c": '#include "sync/p.h"\n'}, "private to sync"),
    ("public header includes a private one",
     {f"{S}/chan/p.h": "", f"{H}/chan/a.h": '#include "chan/p.h"\n'}, "includes the private"),
    ("product includes a test header",
     {"tests/support/p.h": "", f"{S}/chan/a.c": '#include "support/p.h"\n'}, "no header of the"),
    ("service includes service",
     {"wallet/wallet.h": "", "ledger/svc.c": '#include "wallet/wallet.h"\n'}, "meet on the wire"),
    ("kernel includes a service",
     {"wallet/wallet.h": "", f"{S}/io/a.c": '#include "wallet/wallet.h"\n'}, "io must not include"),
    ("the auditor includes the ledger",
     {"ledger/book/book.h": "", "audit/run.c": '#include "ledger/book/book.h"\n'},
     "private to ledger"),
    ("the auditor includes the ledger by its path",
     {"ledger/book/book.h": "", "audit/run.c": '#include "../ledger/book/book.h"\n'},
     "private to ledger"),
    ("the auditor includes what stands above io",
     {f"{H}/http/h.h": "", "audit/run.c": '#include "ron/http/h.h"\n'}, "audit must not include"),
    ("the auditor includes base is fine",
     {f"{H}/base/h.h": "", "audit/run.c": '#include "ron/base/h.h"\n'}, None),
    ("an earlier room is fine",
     {"ledger/entry/entry.h": "", "ledger/book/a.c": '#include "ledger/entry/entry.h"\n'}, None),
    ("a later room", {"ledger/log/log.h": "", "ledger/book/a.c": '#include "ledger/log/log.h"\n'},
     'room book must not include "ledger/log/log.h": log comes after it'),
    ("the private header of another room",
     {"ledger/log/priv.h": "", "ledger/index/a.c": '#include "ledger/log/priv.h"\n'},
     "private to ledger/log"),
    ("the service from one of its rooms",
     {"ledger/svc.h": "", "ledger/stage/a.c": '#include "ledger/svc.h"\n'},
     "room stage must not include"),
    ("the settings from a high room",
     {"ledger/conf.h": "", "ledger/stage/a.c": '#include "ledger/conf.h"\n'}, None),
    ("the settings from a low room",
     {"ledger/conf.h": "", "ledger/log/a.c": '#include "ledger/conf.h"\n'},
     "room log must not include"),
    ("an include that is not spelled from the root",
     {"ledger/log/log.h": "", "ledger/log/a.c": '#include "log.h"\n'}, "path from the root"),
    ("a later room of the HTTP module",
     {f"{S}/http/ops/ops.h": "", f"{S}/http/tls/a.c": '#include "http/ops/ops.h"\n'},
     "room tls must not include"),
    ("unknown module", {f"{S}/misc/a.c": "\n"}, "unknown module misc"),
    ("pthread.h outside sync", {f"{S}/chan/a.c": "#include <pthread.h>\n"}, "thread header"),
    ("pthread call outside sync", {"cli/main.c": "pthread_mutex_lock(&m);\n"}, "thread or atomic"),
    ("_Atomic outside sync", {f"{H}/task/a.h": "_Atomic int x;\n"}, "thread or atomic"),
    ("builtin outside sync", {f"{S}/io/a.c": "__atomic_load_n(p, 0);\n"}, "thread or atomic"),
    ("sync may", {f"{S}/sync/a.c": "#include <pthread.h>\npthread_self();\n"}, None),
    ("fence even in sync", {f"{S}/sync/a.c": "atomic_thread_fence(x);\n"}, "fence"),
    ("fence in a test", {"tests/unit/base/test_a.c": "__sync_synchronize();\n"}, "fence"),
    ("clock in chan", {f"{S}/chan/a.c": "x = clock_gettime(a, b);\n"}, "clock `clock_gettime`"),
    ("time in a service", {"ledger/svc.c": "x = time(NULL);\n"}, "clock `time`"),
    ("rand in task", {f"{S}/task/a.c": "return rand();\n"}, "randomness"),
    ("socket in task", {f"{S}/task/a.c": "fd = socket(a, b, c);\n"}, "network"),
    ("open in cli", {"cli/main.c": "fd = open(path, 0);\n"}, "disk"),
    ("fsync in a service", {"ledger/svc.c": "fsync(fd);\n"}, "disk"),
    ("epoll in task", {f"{S}/task/a.c": "epoll_wait(a, b, c, d);\n"}, "poller"),
    ("sleep in io", {f"{S}/io/a.c": "usleep(3);\n"}, "sleep"),
    ("members, comments and strings are no calls",
     {f"{S}/task/a.c": 'env->open(x); ops.time(); /* time(0) */ puts("open(");\n'}, None),
    ("io may", {f"{S}/io/a.c": "socket(1, 2, 3); epoll_wait(1, 2, 3, 4); fsync(3);\n"}, None),
    ("tests may", {"tests/unit/io/test_a.c": "#include <pthread.h>\nopen(x);\n"}, None),
]

if __name__ == "__main__":
    main(check, CASES)
