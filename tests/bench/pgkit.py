# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL 15 as the peer of a benchmark: a private cluster with its defaults for durability and
the schema of peer_pg/. Needs the package postgresql-15 and root."""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PG = Path(__file__).resolve().parent / "peer_pg"


class Postgres:
    """A private cluster with the schema; `there` is False where it cannot be."""

    def __init__(self):
        tools = subprocess.run("dpkg -L postgresql-15 | grep '/bin/initdb$'", shell=True,
                               capture_output=True, text=True).stdout.strip()
        self.there = bool(tools) and os.getuid() == 0
        if not self.there:
            return
        self.bin = Path(tools).parent
        self.folder = Path(tempfile.mkdtemp(prefix="ron-pg-"))
        shutil.chown(self.folder, "postgres")
        self.as_user(f"{self.bin}/initdb -D {self.folder}/data -A trust --no-locale -E UTF8")
        self.as_user(f"{self.bin}/pg_ctl -D {self.folder}/data -w -l {self.folder}/log -o '"
                     f"-c listen_addresses= -c unix_socket_directories={self.folder} "
                     "-c shared_buffers=1GB -c max_wal_size=4GB -c checkpoint_timeout=15min' start")
        self.to = ["-h", str(self.folder), "-U", "postgres"]
        subprocess.run(["createdb", *self.to, "bench"], check=True)
        subprocess.run(["psql", *self.to, "-q", "-d", "bench", "-f", PG / "schema.sql"], check=True,
                       capture_output=True)
        self.pid = int((self.folder / "data" / "postmaster.pid").read_text().split("\n")[0])

    def as_user(self, command):
        subprocess.run(["su", "postgres", "-c", command], check=True, capture_output=True)

    def rest(self):
        """After a run: what it left to be done is not the next one's."""
        subprocess.run(["psql", *self.to, "-q", "-d", "bench", "-c", "vacuum analyze led.accounts",
                        "-c", "checkpoint"], check=True, capture_output=True)

    def stop(self):
        if self.there:
            self.as_user(f"{self.bin}/pg_ctl -D {self.folder}/data -m fast stop")
            shutil.rmtree(self.folder, ignore_errors=True)
