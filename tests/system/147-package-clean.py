#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it builds the package.
"""The Debian package in a clean root: installed by dpkg where nothing is but Debian's essential
packages and what the package says it needs, set up, all six services run with the settings that it
installed, changed as docs/ops/install.md says, upgraded, removed.

Method: `./dev package`; a root made of the files that this machine's own packages of that list own,
with a dpkg database of them alone (and mount(8), for this test); namespaces of their own for
mounts, network and processes, so that the ports of the installed settings are free and nothing is
left. A library that the package needs and does not name is missing there. Needs root; skipped
without.

No systemd runs in there. Of each unit the command, user, folders and umask are applied, and of its
sandbox what needs no systemd: no new privileges, no capabilities, a read-only system but for the
unit's own folders, a /tmp of its own, a /proc with its own processes alone. Not applied: the filter
of system calls, MemoryDenyWriteExecute, PrivateDevices, the Restrict* rules, limits, restarts and
the order of starts; of those 145-package.py only asks systemd-analyze."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from httpkit import check, finish

TREE = Path(__file__).resolve().parents[2]
SCRIPT = r"""
set -eu
export PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive HOME=/root
as_ron="setpriv --reuid=ron --regid=ron --clear-groups"
dpkg -i /ron.deb >/tmp/dpkg.log 2>&1 || { cat /tmp/dpkg.log; exit 1; }
echo "installed: $(dpkg-query -W -f '${Status}' ron)"
ldd /usr/bin/ron /usr/bin/ron-audit | grep 'not found' && exit 1
echo "version: $(ron --version | head -1)"
stat -c 'mode: %a %U %n' /var/lib/ron/keys/*

# start SERVICE: as much of its unit as goes without systemd; its number is in /tmp/SERVICE.pid.
start()
{
    install -d -o ron -g ron -m 0700 "/var/lib/ron/$1" "/run/ron/$1"
    command=$(sed -n 's/^ExecStart=//p' "/lib/systemd/system/ron-$1.service")
    unshare --mount sh -euc '
        for own in "/var/lib/ron/$0" "/run/ron/$0"; do mount --bind "$own" "$own"; done
        mount -o remount,bind,ro /
        mount -t tmpfs -o mode=1777 none /tmp
        mount -t proc -o hidepid=invisible,subset=pid none /proc
        cd /
        umask 0077
        exec setpriv --reuid=ron --regid=ron --clear-groups --no-new-privs \
            --bounding-set=-all --inh-caps=-all --ambient-caps=-all "$@"' "$1" $command \
        >>"/tmp/$1.log" 2>&1 &
    echo $! >"/tmp/$1.pid"
}

# stop SERVICE: as systemctl would; it must drain.
stop()
{
    kill "$(cat "/tmp/$1.pid")"
    wait "$(cat "/tmp/$1.pid")" || { echo "$1 ended with $?"; cat "/tmp/$1.log"; exit 1; }
}

# until_done COMMAND...: it may take a while until the service is up.
until_done()
{
    tries=0
    until "$@" >/tmp/out 2>/tmp/err; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || { echo "$*"; cat /tmp/err /tmp/*.log; exit 1; }
        sleep 0.1
    done
    cat /tmp/out
}

# The marks of the sandbox, as the kernel sees them.
boxed()
{
    of=/proc/$(cat "/tmp/$1.pid")
    sed -nE "s/^(Uid|CapEff|CapBnd|NoNewPrivs|Umask):\\s+(\\S+).*/box $1 \\1=\\2/p" "$of/status"
    sed -nE "s/^\\S+ \\/ \\S+ (r.).*/box $1 root=\\1/p" "$of/mounts"
}

services="ledger wallet rewarder edge interop console"
for s in $services; do start $s; done
$as_ron ron cap mint --keys /var/lib/ron/keys/cap.keys --ttl 1d >/tmp/app.token
chmod 600 /tmp/app.token
export RON_LEDGER_URL=http://127.0.0.1:7200 RON_WALLET_URL=http://127.0.0.1:7100 \
    RON_REWARDER_URL=http://127.0.0.1:7300 RON_EDGE_URL=http://127.0.0.1:7400 \
    RON_INTEROP_URL=http://127.0.0.1:7500 RON_CONSOLE_URL=http://127.0.0.1:7000 \
    RON_TOKEN_FILE=/tmp/app.token
until_done ron issue alice 500 --key first
ron transfer alice bob 40 --key lunch
ron balance alice
echo "ledger: $(until_done ron root --json)"
echo "rewarder: $(until_done ron reward list --json)"
echo "edge: $(until_done ron edge packs --json)"
echo "interop: $(until_done ron mailbox send builds ready --key one)"
echo "console: $(until_done ron console link)"
for s in $services; do boxed $s; done

# docs/ops/install.md: the console may pay, and the bridge may.
sh -eu /install.sh
stop console; start console
stop interop; start interop
echo "console again: $(until_done ron console link)"
echo "interop again: $(until_done ron mailbox list --json)"
for s in console interop edge rewarder wallet ledger; do stop $s; done
echo "services: drained"
sha256sum /var/lib/ron/keys/cap.keys >/tmp/before
echo '# mine' >>/etc/ron/edge.toml
dpkg -i /ron.deb >/dev/null 2>&1
sha256sum -c /tmp/before
grep -c '^# mine' /etc/ron/edge.toml | sed 's/^/settings kept: /'
unset RON_LEDGER_URL RON_WALLET_URL RON_REWARDER_URL RON_EDGE_URL RON_INTEROP_URL \
    RON_CONSOLE_URL RON_TOKEN_FILE
install -d -o ron -g ron -m 0700 /data
$as_ron ron up --data /data >/tmp/up.log 2>&1 &
U=$!
export RON_DATA=/data
tries=0
until $as_ron ron status >/tmp/status 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { cat /tmp/up.log; exit 1; }
    sleep 0.1
done
$as_ron ron transfer nobody else 1 2>&1 || true
$as_ron ron down
wait $U
echo "up: 0"
dpkg -r ron >/dev/null 2>&1
test ! -e /usr/bin/ron
test -e /var/lib/ron/keys/cap.keys && echo "removed: the keys stay"
"""


BOX = {"CapEff=" + "0" * 16, "CapBnd=" + "0" * 16, "NoNewPrivs=1", "Umask=0077", "root=ro"}
# What each service answers to a command, after its name.
SAID = {"ledger": '"seq":2', "rewarder": '"epochs":', "edge": '"packs":',
        "interop": "sent to builds", "console": "http://127.0.0.1:7000/open/"}


def installed():
    """{package: (essential, [names of what it needs])} of this machine, and who provides what."""
    out = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\t${Essential}\t${Pre-Depends}, "
                          "${Depends}\t${Provides}\t${Status}\n"], capture_output=True, text=True,
                         check=True).stdout
    rows, provides = {}, {}
    for line in out.splitlines():
        name, essential, needs, offered, status = line.split("\t")
        if not status.startswith("install ok"):
            continue
        rows[name] = (essential == "yes", needs)
        for one in re.findall(r"[a-z0-9][a-z0-9.+-]+(?= |,|$)", offered):
            provides.setdefault(one, name)
    return rows, provides


def closure(wanted, rows, provides):
    todo = [n for n, (essential, _) in rows.items() if essential] + wanted
    found = set()
    while todo:
        name = todo.pop()
        name = name if name in rows else provides.get(name)
        if name is None or name in found:
            continue
        found.add(name)
        for group in rows[name][1].split(","):
            options = [re.split(r"[ (:\[]", o.strip())[0] for o in group.split("|")]
            todo += [o for o in options if o in rows or o in provides][:1]
    return found


def copy_files(packages, root):
    paths = set()
    for name in packages:
        listed = subprocess.run(["dpkg-query", "-L", name], capture_output=True, text=True,
                                check=True).stdout.splitlines()
        paths |= {p for p in listed if p.startswith("/") and p != "/."}
    keep = [p for p in sorted(paths)
            if not re.match(r"/usr/share/(doc|man|locale|info)/|/(proc|sys|dev|run)(/|$)", p)
            and os.path.lexists(p)]
    # The merged /usr: what is listed as /bin/sh lies in /usr/bin.
    for link in ("bin", "sbin", "lib", "lib64", "lib32", "libx32"):
        if os.path.islink(f"/{link}"):
            (root / "usr" / link).mkdir(parents=True, exist_ok=True)
            (root / link).symlink_to(f"usr/{link}")
    with tempfile.NamedTemporaryFile("wb") as names:
        names.write(b"\0".join(p[1:].encode() for p in keep))
        names.flush()
        subprocess.run(["sh", "-c", 'tar -C / --no-recursion --null -T "$0" -cf - | '
                        'tar -C "$1" --keep-directory-symlink -xf -', names.name, str(root)],
                       check=True, timeout=60)


def dpkg_database(packages, root):
    base = root / "var/lib/dpkg"
    for part in ("info", "updates", "triggers"):
        (base / part).mkdir(parents=True, exist_ok=True)
    text = subprocess.run(["dpkg-query", "-s", *sorted(packages)], capture_output=True, text=True,
                          check=True).stdout
    (base / "status").write_text(text.strip() + "\n", encoding="utf-8")
    (base / "available").write_text("")
    for name in packages:
        for path in Path("/var/lib/dpkg/info").glob(f"{name}[.:]*"):
            if path.suffix in (".list", ".md5sums"):
                shutil.copy(path, base / "info" / path.name)


def clean_root(package, root):
    needs = subprocess.run(["dpkg-deb", "-f", str(package), "Depends"], capture_output=True,
                           text=True, check=True).stdout
    rows, provides = installed()
    wanted = [re.split(r"[ (]", n.strip())[0] for n in needs.split(",")]
    missing = [n for n in wanted if n not in rows and n not in provides]
    check("what the package needs is in Debian", not missing and len(wanted) > 5, (wanted, missing))
    packages = closure(wanted + ["mount"], rows, provides)
    copy_files(packages, root)
    dpkg_database(packages, root)
    for folder in ("tmp", "root", "run", "proc", "dev", "var/log", "var/cache", "var/tmp", "etc"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    for name in ("passwd", "group"):
        shutil.copy(f"/usr/share/base-passwd/{name}.master", root / "etc" / name)
    (root / "etc/shadow").write_text("root:*:19000:0:99999:7:::\n")
    (root / "etc/gshadow").write_text("")
    shutil.copy(package, root / "ron.deb")
    (root / "script").write_text(SCRIPT, encoding="utf-8")
    (root / "install.sh").write_text(changes(), encoding="utf-8")
    return packages


def changes():
    """What docs/ops/install.md says to do, but for systemd: the commands of its second part."""
    text = (TREE / "docs/ops/install.md").read_text(encoding="utf-8")
    part = text.split("## Enabling payments")[1].split("\n## ")[0]
    lines = re.findall(r"^    (.*)$", part, re.M)
    return "\n".join(x for x in lines if not x.startswith("systemctl")) + "\n"


def run_inside(root):
    # The root is a mount of its own, so that a service can have it read-only.
    inside = (f"mount --bind {root} {root} && "
              f"mount --rbind /dev {root}/dev && mount -t proc proc {root}/proc && "
              f"ip link set lo up && exec chroot {root} /bin/sh /script")
    return subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "sh",
                           "-c", inside], capture_output=True, text=True, timeout=110, check=False)


def possible():
    if os.geteuid() != 0 or not shutil.which("dpkg-deb") or not shutil.which("ip"):
        return False
    return subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "mount", "-t", "tmpfs",
                           "none", "/mnt"], capture_output=True, check=False).returncode == 0


def main():
    if not possible():
        print("skipped: this needs root, ip, and namespaces of its own")
        sys.exit(77)
    built = subprocess.run([str(TREE / "dev"), "package"], capture_output=True, text=True,
                           cwd=TREE, check=False)
    found = re.search(r"built (\S+\.deb)", built.stdout + built.stderr)
    check("./dev package builds it", built.returncode == 0 and found, built.stdout + built.stderr)
    root = Path(tempfile.mkdtemp(prefix="ron-root-"))
    root.chmod(0o755)
    try:
        packages = clean_root(TREE / found[1], root)
        print(f"the root has {len(packages)} packages")
        check("the root is clean: no compiler, no curl, no python", not {"gcc", "curl", "python3"} &
              packages, packages)
        done = run_inside(root)
        said = done.stdout
        check("clean root: everything went well", done.returncode == 0, said + done.stderr)
        check("clean root: dpkg has configured it", "installed: install ok installed" in said, said)
        modes = re.findall(r"^mode: (\d+) (\w+) (\S+)", said, re.M)
        check("clean root: keys and tokens are for the user ron alone", len(modes) >= 3 and
              all(m[:2] == ("600", "ron") for m in modes), modes)
        check("clean root: money moves", "transferred 40 roc from alice to bob" in said and
              "alice has 460 roc" in said, said)
        for name, wanted in SAID.items():
            check(f"clean root: {name} works with its installed settings",
                  re.search(rf"^{name}: .*{wanted}", said, re.M), said)
        boxes = {}
        for name, mark in re.findall(r"^box (\w+) (\S+)$", said, re.M):
            boxes.setdefault(name, set()).add(mark)
        user = {m for b in boxes.values() for m in b if m.startswith("Uid=")}
        check("clean root: each ran as ron, boxed in", len(boxes) == 6 and len(user) == 1 and
              user != {"Uid=0"} and all(b - user == BOX for b in boxes.values()), boxes)
        check("clean root: console and bridge run with what install.md adds to them",
              "console again: http" in said and "interop again: {" in said, said)
        check("clean root: services drain", "services: drained" in said, said)
        check("clean root: an upgrade keeps keys and settings", "cap.keys: OK" in said and
              "settings kept: 1" in said, said)
        check("clean root: ron up runs for its user", "up: 0" in said and
              "INSUFFICIENT_FUNDS" in said, said)
        check("clean root: a removal keeps what may be money", "removed: the keys stay" in said,
              said)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    finish()


if __name__ == "__main__":
    main()
