# SPDX-License-Identifier: Apache-2.0
"""Ceph RGW for a test: a monitor, an OSD in memory and a gateway on loopback, from the packages
radosgw, ceph-mon, ceph-osd and ceph-common. About 15 s to the first answer, 150 MB of memory.
cephx is off: the cluster lives on loopback ports of its own and dies with the test. S3 requests are
signed and checked strictly all the same."""
import http.client
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

TOOLS = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "monmaptool", "ceph")
ACCESS = "RONTESTACCESSKEY0001"
SECRET = "ron/test+secret=key0123456789abcdefABCDEF"
REGION = "default"


def missing():
    """The programs that are not here."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Rgw:
    """A cluster of one. `stop` and `start` are for the gateway alone, as are `kill`, `freeze` and
    `thaw`; the port stays."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="ron-rgw-"))
        self.port = free_port()
        self.mon_port = free_port()
        self.children = {}
        self.conf = self.folder / "ceph.conf"
        fsid = uuid.uuid4()
        self.conf.write_text(f"""[global]
fsid = {fsid}
mon_host = v1:127.0.0.1:{self.mon_port}
mon_initial_members = a
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_cluster_mode = crc
ms_service_mode = crc
ms_client_mode = crc
ms_mon_cluster_mode = crc
ms_mon_service_mode = crc
ms_mon_client_mode = crc
ms_bind_ipv6 = false
ms_bind_msgr2 = false
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 1
osd_pool_default_pgp_num = 1
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = 2147483648
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_warn = 1
mon_data_avail_crit = 1
run_dir = {self.folder}
admin_socket = {self.folder}/$name.asok
log_file = {self.folder}/$name.log
pid_file = {self.folder}/$name.pid
crash_dir = {self.folder}
keyring = {self.folder}/keyring
mon_data = {self.folder}/mon
osd_data = {self.folder}/osd
rgw_data = {self.folder}/rgw
rgw_frontends = beast endpoint=127.0.0.1:{self.port} tcp_nodelay=1
rgw_enable_usage_log = false
rgw_thread_pool_size = 64
""")
        for name in ("mon", "osd", "rgw"):
            (self.folder / name).mkdir()
        try:
            self.cluster(fsid)
            self.start()
        except BaseException:
            self.close()
            raise

    # ---- the cluster ----

    def tool(self, *words, timeout=60):
        done = subprocess.run([words[0], "-c", self.conf, *words[1:]], capture_output=True,
                              text=True, timeout=timeout)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def spawn(self, name, *words):
        out = open(self.folder / f"{name}.out", "ab")
        self.children[name] = subprocess.Popen([words[0], "-c", self.conf, "-f", *words[1:]],
                                               stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        out.close()

    def tail(self, name):
        logs = [self.folder / f"{name}.out", *self.folder.glob(f"{name}*.log")]
        return "".join(x.read_text(errors="replace")[-2000:] for x in logs if x.exists())

    def cluster(self, fsid):
        monmap = self.folder / "monmap"
        subprocess.run(["monmaptool", "--create", "--fsid", str(fsid), "--addv", "a",
                        f"[v1:127.0.0.1:{self.mon_port}]", monmap], check=True,
                       capture_output=True)
        self.tool("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap)
        self.spawn("mon", "ceph-mon", "-i", "a")
        osd = str(uuid.uuid4())
        self.tool("ceph", "--connect-timeout", "30", "osd", "new", osd, "0")
        self.tool("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self.spawn("osd", "ceph-osd", "-i", "0")
        until = time.monotonic() + 40
        while '"num_up_osds":1' not in self.tool("ceph", "osd", "stat", "-f", "json").replace(
                " ", ""):
            if time.monotonic() > until:
                raise RuntimeError("the OSD does not come up\n" + self.tail("osd"))
            time.sleep(0.2)
        self.tool("radosgw-admin", "user", "create", "--uid=ron", "--display-name=ron",
                  f"--access-key={ACCESS}", f"--secret-key={SECRET}", timeout=120)

    # ---- the gateway ----

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        # The mode on the command line, too: without it the gateway waits for ever.
        self.spawn("rgw", "radosgw", "-n", "client.ron", "--ms_mon_client_mode=crc")
        until = time.monotonic() + 90
        while not self.answers():
            if time.monotonic() > until or self.children["rgw"].poll() is not None:
                raise RuntimeError("the gateway does not answer\n" + self.tail("rgw"))
            time.sleep(0.1)

    def answers(self):
        try:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            c.request("GET", "/")
            return c.getresponse().status == 200
        except OSError:
            return False

    def signal(self, number):
        os.kill(self.children["rgw"].pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.children.pop("rgw").wait()

    def freeze(self):
        self.signal(signal.SIGSTOP)

    def thaw(self):
        self.signal(signal.SIGCONT)

    def close(self):
        for name in ("rgw", "osd", "mon"):
            child = self.children.pop(name, None)
            if child is not None and child.poll() is None:
                child.kill()
                child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
