#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Goal: `ron reward tree` and the npm package @openzeppelin/merkle-tree make the same trees and
believe each other's proofs; a run becomes a tree; what is wrong is refused with a place.

Method: random sets of 1 to 300 leaves, with the usual two types and with all types, given to both:
dumps must be equal byte for byte. The package verifies every proof that the program prints, and the
program checks dumps of the package, sorted and not. A run made by `ron reward compute` becomes a
tree of either kind, whose leaves are compared with its payouts. Without node, npm or network the
package is named and left out.
"""
import json
import os
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

PROGRAM = os.environ["RON_BIN"]
BUILD = os.environ.get("RON_BUILD_DIR", tempfile.gettempdir())
SEED = int(os.environ.get("RON_SEED", random.SystemRandom().randrange(1 << 32)))

POLICY = {"v": 1, "id": "policy:v1", "version": 1, "funding_source": "creator_pool", "asset": "roc",
          "max_payout_minor_units": "1000000000", "min_payout_minor_units": "1",
          "weight_bps": 10000, "rounding": "floor", "residual": "unissued",
          "weights": {"bytes_stored": "1", "bytes_served": "1/4", "uptime_seconds": "1"}}

# Reads cases from standard input; writes the dump of each, and of the first ones an unsorted one.
# Then proofs: [types, root, value, proof] each, all of which must hold.
NODE = """
const { StandardMerkleTree } = require("@openzeppelin/merkle-tree");
const input = JSON.parse(require("fs").readFileSync(0, "utf8"));
if (input.cases) {
  console.log(JSON.stringify(input.cases.map(c => ({
    dump: JSON.stringify(StandardMerkleTree.of(c.values, c.types).dump()),
    unsorted: JSON.stringify(
      StandardMerkleTree.of(c.values, c.types, {sortLeaves: false}).dump()) }))));
} else {
  const bad = input.proofs.filter(p =>
    !StandardMerkleTree.verify(p.root, p.types, p.value, p.proof)).length;
  console.log(JSON.stringify(bad));
}
"""


def check(good, why):
    """Ends the test with a sentence."""
    if not good:
        raise AssertionError(why)


def ron(*args, code=0):
    """Standard output of `ron reward ...`, which must end with `code`."""
    done = subprocess.run([PROGRAM, "reward", *map(str, args)], capture_output=True, text=True,
                          timeout=100, check=False)
    check(done.returncode == code, f"ron reward {' '.join(map(str, args))}: exit "
          f"{done.returncode} instead of {code}: {done.stderr.strip()}")
    return done.stdout if code == 0 else done.stderr


def find_package():
    """A command that has the npm package, installed into the build folder on first use."""
    folder = os.path.join(BUILD, "npm-merkle-tree")
    package = os.path.join(folder, "node_modules", "@openzeppelin", "merkle-tree")
    if not shutil.which("node") or not shutil.which("npm"):
        print("left out: node or npm is not installed")
        return None
    if not os.path.isdir(package):
        os.makedirs(folder, exist_ok=True)
        try:
            subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts",
                            "--prefix", folder, "@openzeppelin/merkle-tree@1"],
                           capture_output=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            pass
    if not os.path.isdir(package):
        print("left out: the npm package @openzeppelin/merkle-tree cannot be installed (no "
              "network?)")
        return None
    script = os.path.join(folder, "ask.js")
    with open(script, "w", encoding="utf-8") as out:
        out.write(NODE)
    return ["node", script]


def ask(node, question):
    """What the package answers."""
    done = subprocess.run(node, input=json.dumps(question), capture_output=True, text=True,
                          timeout=100, check=False)
    check(done.returncode == 0, f"the package failed: {done.stderr[-300:]}")
    return json.loads(done.stdout)


def draw(rand, kind):
    """A random value of a type."""
    if kind == "address":
        return "0x" + "".join(rand.choice("0123456789abcdefABCDEF") for _ in range(40))
    if kind == "bool":
        return rand.random() < 0.5
    if kind.startswith("uint"):
        return str(rand.getrandbits(rand.randrange(int(kind[4:]) + 1)))
    if kind == "bytes":
        return "0x" + rand.randbytes(rand.randrange(80)).hex()
    if kind == "bytes32":
        return "0x" + rand.randbytes(32).hex()
    return "".join(rand.choice('ab,"\\\t/éß€😀\u2028\x7f\x01') for _ in range(rand.randrange(40)))


def write_csv(path, values):
    """Values as `ron reward tree oz` reads them."""
    def field(value):
        if isinstance(value, bool):
            return "true" if value else "false"
        return '"' + value.replace('"', '""') + '"' if set(value) & set(',"') else value
    path.write_bytes("".join(",".join(map(field, v)) + "\n" for v in values).encode())


def random_cases(rand):
    """Sets of leaves: sizes around powers of two and between, usual and unusual types."""
    plain = ["address", "uint256"]
    every = ["string", "address", "bool", "bytes32", "uint8", "bytes", "uint128"]
    sizes = [1, 2, 3, 4, 5, 7, 8, 9, 31, 33, 64, 100, 257, 300] + \
        [rand.randrange(1, 300) for _ in range(4)]
    cases = [{"types": plain, "values": [[draw(rand, t) for t in plain] for _ in range(n)]}
             for n in sizes]
    cases += [{"types": every, "values": [[draw(rand, t) for t in every] for _ in range(n)]}
              for n in (1, 2, 17, 60)]
    twice = [draw(rand, t) for t in plain]
    cases.append({"types": plain, "values": [twice, [draw(rand, t) for t in plain], twice]})
    return cases


def with_package(node, folder, rand):
    """Both make the same, and believe each other."""
    cases = random_cases(rand)
    answers = ask(node, {"cases": cases})
    proofs = []
    for case, answer in zip(cases, answers):
        write_csv(folder / "in.csv", case["values"])
        out = folder / "out.json"
        said = ron("tree", "oz", "--csv", folder / "in.csv", "--types", ",".join(case["types"]),
                   "--out", out)
        mine = out.read_bytes()
        what = f"{len(case['values'])} leaves of {','.join(case['types'])}"
        check(mine == answer["dump"].encode(), f"{what}: the dump differs from the package's")
        root = json.loads(mine)["tree"][0]
        check(f"root        {root}\n" in said, f"{what}: {said}")
        (folder / "theirs.json").write_text(answer["unsorted"], encoding="utf-8")
        ron("tree", "check", folder / "theirs.json")
        where = case["types"].index("address")
        for value in rand.sample(case["values"], min(5, len(case["values"]))):
            for line in ron("tree", "proof", out, "--address", value[where]).split("\n")[:-1]:
                got = json.loads(line)
                check(got["value"] in case["values"] and got["root"] == root, f"{what}: {line}")
                proofs.append({"types": case["types"], "root": root, "value": got["value"],
                               "proof": got["proof"]})
    check(len(proofs) > 60, f"{len(proofs)} proofs")
    check(ask(node, {"proofs": proofs}) == 0, "the package does not believe a proof")
    for proof in proofs:
        proof["root"] = "0x" + "11" * 32
    check(ask(node, {"proofs": proofs}) == len(proofs), "the package believes anything")


def from_run(folder, rand):
    """Payees that are addresses, alone or behind a colon, become leaves; others are counted."""
    addresses = ["0x" + rand.randbytes(20).hex() for _ in range(20)]
    names = addresses[:8] + [f"eth:{a}" for a in addresses[8:]] + [f"x:{addresses[0]}"] + \
        ["acct_a", "acct_b"]
    rows = [{"account": name, "bytes_stored": 100 + i, "bytes_served": 0, "uptime_seconds": 0}
            for i, name in enumerate(names)]
    (folder / "snapshot.json").write_text(json.dumps(
        {"produced_at_millis": 1, "pool_minor_units": "1000000", "contributions": rows}))
    (folder / "policy.json").write_text(json.dumps(POLICY))
    ron("compute", "--epoch", "e1", "--snapshot", folder / "snapshot.json", "--policy",
        folder / "policy.json", "--out", folder / "runs")
    run = folder / "runs" / "e1"
    paid = {}
    for line in (run / "payouts.ndjson").read_text().splitlines():
        payout = json.loads(line)
        if "0x" in payout["account"]:
            address = payout["account"][-42:]
            paid[address] = paid.get(address, 0) + int(payout["amount_minor_units"])
    said = ron("tree", "oz", "--run", run, "--out", folder / "oz.json")
    check("left out    2 payees" in said and "merged      1 " in said, said)
    values = [leaf["value"] for leaf in json.loads((folder / "oz.json").read_text())["values"]]
    check(values == [[a, str(paid[a])] for a in sorted(paid)], "leaves are not the payouts")
    ron("tree", "check", folder / "oz.json")

    ron("tree", "rocketpool", "--run", run, "--network", 3, "--asset", "eth", "--out",
        folder / "rp.json")
    nodes = json.loads((folder / "rp.json").read_text())["nodeRewards"]
    check({a: int(n["smoothingPoolEth"]) for a, n in nodes.items()} == paid,
          "nodes are not the payouts")
    check("Rocket Pool" in ron("tree", "check", folder / "rp.json"), "not known as Rocket Pool's")
    proof = json.loads(ron("tree", "proof", folder / "rp.json", "--address", addresses[3]))
    check(proof["reward"] == nodes[addresses[3]], str(proof))


def refusals(folder):
    """What is wrong ends with 1 or 2 and a place."""
    good = (folder / "oz.json").read_text()
    cases = [
        (good.replace('"treeIndex":', '"treeindex":', 1), "treeindex"),
        (good[:-1], "at byte"), ("", "at byte"), ("[]", "neither"), ('{"a":1}', "neither"),
        (good.replace("standard-v1", "simple-v1"), "standard-v1"),
        ((folder / "rp.json").read_text().replace('"rewardNetwork":3', '"rewardNetwork":4', 1),
         "merkleRoot is not the root"),
    ]
    for text, why in cases:
        (folder / "bad.json").write_text(text)
        said = ron("tree", "check", folder / "bad.json", code=1)
        check(why in said, f"{said.strip()!r} does not say {why!r}")
    csv = folder / "bad.csv"
    for text, why in [("0x11,5\n", "line 1: value 1 is no address"),
                      ("\n0x" + "1" * 40 + ",-5\n", "line 2: value 2 is no uint256"),
                      ("0x" + "1" * 40 + "\n", "line 1: 2 values"),
                      ("0x" + "1" * 40 + ",5,6\n", "line 1: 2 values"),
                      ('0x' + "1" * 40 + ',"5\n', "closing quote"), ("", "at least one leaf")]:
        csv.write_text(text)
        said = ron("tree", "oz", "--csv", csv, "--out", folder / "never.json", code=1)
        check(why in said, f"{said.strip()!r} does not say {why!r}")
    check(not list(folder.glob("never*")), "a refused tree left a file")
    check("no leaf of" in ron("tree", "proof", folder / "oz.json", "--address", "0x" + "0" * 40,
                              code=1), "a stranger is proven")
    ron("tree", "oz", "--csv", csv, code=2)
    ron("tree", "oz", "--csv", csv, "--run", folder, "--out", folder / "x", code=2)
    ron("tree", "check", code=2)
    ron("tree", "oz", "--csv", csv, "--types", "int8", "--out", folder / "x", code=1)


def main():
    """All of it."""
    rand = random.Random(SEED)
    print(f"RON_SEED={SEED} repeats this run")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        from_run(folder, rand)
        refusals(folder)
        node = find_package()
        if node is not None:
            with_package(node, folder, rand)
    print("good")


if __name__ == "__main__":
    main()
