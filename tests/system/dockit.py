# SPDX-License-Identifier: Apache-2.0
"""What the tests of documents share: the commands of a guide in an empty folder, its table of
errors against the code, and alert rules with promtool.
"""
import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

from httpkit import check, missing
from ledgerkit import PROGRAM

TREE = Path(__file__).resolve().parents[2]


def run_guide(guide, ports, settings, folder, seconds=90):
    """All commands of the guide, in one shell, with other ports (by what stands for each) and
    settings (of the environment). What it printed."""
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```$", guide, re.S | re.M))
    for written, port in ports.items():
        script = script.replace(written, f"127.0.0.1:{port}")
    # The clean-up is the test's: a person would leave all of it running.
    script = f"set -e\ntrap 'kill $(jobs -p); wait' EXIT\n{script}"
    ran = subprocess.Popen(
        ["bash", "-c", script], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
        env={**os.environ, "PATH": f"{Path(PROGRAM).parent}:{os.environ['PATH']}", **settings})
    try:
        out, err = ran.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(ran.pid, signal.SIGKILL)
        out, err = ran.communicate()
    check("guide: every command works in an empty folder", ran.returncode == 0, (out, err))
    return out, err


def errors(guide, header, enum):
    """The table of errors in the guide, and the codes that the API document knows, against the
    table in the header."""
    text = (TREE / header).read_text(encoding="utf-8")
    rows = [r for r in re.findall(
        r'X\((\w+), "(\w*)", "(\w*)", (\d+), (true|false),\s*\\?\s*"([^"]*)"\)', text)
        if r[0] != "NONE"]
    wanted = [f"| {code} | {status} | {label} | {'yes' if retry == 'true' else 'no'} | {text} |"
              for _, label, code, status, retry, text in rows]
    told = [line for line in guide.splitlines() if re.match(r"\| [A-Z_]+ \| \d", line)]
    check("guide: the table of errors is that of the code", wanted == told and len(rows) > 15,
          "\n".join(wanted))
    kernel = (TREE / "kernel/include/ron/http/reason.h").read_text(encoding="utf-8")
    codes = {r[2] for r in rows} | set(re.findall(r'X\([A-Z_]+, \d+, "([A-Z_]+)"', kernel))
    codes.remove("OK")
    check("API: every code of the program is in the enum, and no other", set(enum) == codes,
          (sorted(codes - set(enum)), sorted(set(enum) - codes)))


def alert_rules(name, series, wanted, at):
    """Whether of these series (by name, their values in promtool's notation) exactly the wanted
    alerts fire at a time: {alert: labels as YAML, or None for one that must not}."""
    if missing("promtool"):
        return
    rules = (TREE / "docs/ops/alerts.rules.yml").read_text(encoding="utf-8")
    plain = "\n".join(line for line in rules.splitlines()
                      if not line.lstrip().startswith(("annotations:", "summary:")))
    text = ("rule_files: [plain.yml]\nevaluation_interval: 30s\ntests:\n  - interval: 30s\n"
            "    input_series:\n")
    for one, values in series.items():
        text += f"      - series: '{one}'\n        values: '{values}'\n"
    text += "    alert_rule_test:\n"
    for alert, labels in wanted.items():
        text += f"      - eval_time: {at}\n        alertname: {alert}\n        exp_alerts:" + (
            " []\n" if labels is None else f"\n          - exp_labels: {{{labels}}}\n")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "plain.yml").write_text(plain, encoding="utf-8")
        (Path(folder) / "tests.yml").write_text(text, encoding="utf-8")
        ran = subprocess.run(["promtool", "test", "rules", str(Path(folder) / "tests.yml")],
                             capture_output=True, text=True, check=False)
    check(f"alerts: {name}", ran.returncode == 0, ran.stdout + ran.stderr)
