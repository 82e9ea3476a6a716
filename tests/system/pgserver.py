# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL 15 for a test: private clusters on loopback ports, a primary and, on demand, a standby
by streaming replication that commits wait for. Needs Debian's postgresql-15; as root the servers
run as its user `postgres`."""
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

BIN = Path("/usr/lib/postgresql/15/bin")


def there():
    return (BIN / "initdb").exists()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    """One server. `primary` makes it a standby of that one, which then waits for it."""

    def __init__(self, primary=None):
        self.folder = Path(tempfile.mkdtemp(prefix="ron-pg-"))
        self.port = free_port()
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres")
        # A test that is killed ends nothing: then the other end of its pipe closes, and this does.
        self.guard = subprocess.Popen(
            self.words(f"cat; {BIN}/pg_ctl -D {self.folder}/data -m immediate stop; "
                       f"rm -rf {self.folder}"),
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        data = self.folder / "data"
        if primary is None:
            self.run(f"{BIN}/initdb -D {data} -A trust -U postgres --no-locale -E UTF8 --no-sync")
        else:
            self.run(f"{BIN}/pg_basebackup -D {data} -h 127.0.0.1 -p {primary.port} -U postgres -R "
                     "-X stream -c fast --no-sync")
        self.start()
        if primary is not None:
            primary.sql("ALTER SYSTEM SET synchronous_standby_names='*'")
            primary.sql("SELECT pg_reload_conf()")

    @staticmethod
    def words(command):
        return ["su", "postgres", "-s", "/bin/sh", "-c", command] if os.getuid() == 0 else \
            ["sh", "-c", command]

    def run(self, command, ok=True):
        done = subprocess.run(self.words(command), capture_output=True, text=True)
        if ok and done.returncode != 0:
            raise RuntimeError(f"{command}\n{done.stdout}{done.stderr}")
        return done

    def start(self):
        self.run(f"{BIN}/pg_ctl -D {self.folder}/data -w -l {self.folder}/log -o '"
                 f"-c listen_addresses=127.0.0.1 -p {self.port} -c unix_socket_directories= "
                 "-c wal_sender_timeout=2s -c wal_receiver_timeout=2s -c hot_standby=on' start")
        self.pid = int((self.folder / "data" / "postmaster.pid").read_text().split("\n")[0])

    def stop(self, mode="immediate"):
        self.run(f"{BIN}/pg_ctl -D {self.folder}/data -m {mode} stop", ok=False)

    def promote(self):
        self.run(f"{BIN}/pg_ctl -D {self.folder}/data -w promote")

    def sql(self, text):
        return subprocess.run(["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres",
                               "-At", "-v", "ON_ERROR_STOP=1", "-c", text], check=True,
                              capture_output=True, text=True).stdout.strip()

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.guard.stdin.close()
        self.guard.wait()


def dsn(*clusters):
    """Of several, the one that takes writes."""
    hosts = ",".join("127.0.0.1" for _ in clusters)
    ports = ",".join(str(c.port) for c in clusters)
    return f"host={hosts} port={ports} user=postgres dbname=postgres"
