#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Alone: it builds the package.
"""The Debian package in a clean root: installed by dpkg where nothing is but Debian's essential
packages and what the package says it needs, set up, run as its units run it, upgraded, removed.

Method: `./dev package`; a root made of the files that this machine's own packages of that list own,
with a dpkg database of them alone; namespaces of their own for mounts, network and processes, so
that the ports of the installed settings are free and nothing is left. A library that the package
needs and does not name is missing there. Needs root; skipped without."""
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
# As StateDirectory and RuntimeDirectory of the units.
install -d -o ron -g ron -m 0700 /var/lib/ron/ledger /run/ron/ledger /run/ron/wallet
cd /var/lib/ron
$as_ron ron ledger --config /etc/ron/ledger.toml >/tmp/ledger.log 2>&1 &
L=$!
$as_ron ron wallet --config /etc/ron/wallet.toml >/tmp/wallet.log 2>&1 &
W=$!
$as_ron ron cap mint --keys /var/lib/ron/keys/cap.keys --aud wallet \
    --scope wallet.issue,wallet.transfer,wallet.read --ttl 1d >/tmp/app.token
chmod 600 /tmp/app.token
export RON_WALLET_URL=http://127.0.0.1:7100 RON_TOKEN_FILE=/tmp/app.token
tries=0
until ron issue alice 500 --key first 2>/tmp/issue.log; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { cat /tmp/issue.log /tmp/wallet.log /tmp/ledger.log; exit 1; }
    sleep 0.1
done
ron transfer alice bob 40 --key lunch
ron balance alice
kill $W; wait $W; kill $L; wait $L
echo "services: drained"
sha256sum /var/lib/ron/keys/cap.keys >/tmp/before
echo '# mine' >>/etc/ron/edge.toml
dpkg -i /ron.deb >/dev/null 2>&1
sha256sum -c /tmp/before
grep -c '^# mine' /etc/ron/edge.toml | sed 's/^/settings kept: /'
unset RON_WALLET_URL RON_TOKEN_FILE
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
    packages = closure(wanted, rows, provides)
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
    return packages


def run_inside(root):
    inside = (f"mount --rbind /dev {root}/dev && mount -t proc proc {root}/proc && "
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
