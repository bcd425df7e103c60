"""What the servers serve: a tree of files, texts, binaries, a repository, a graph and a table. Made anew for each run."""

import json
import random
import sqlite3
import subprocess
from pathlib import Path

SEED = 20260731
DIRECTORIES = 50
FILES_EACH = 100
BINARY_BYTES = 5_000_000
BLOB_BYTES = 40_000
LOG_BYTES = 1_190_000
JSON_BYTES = 460_000
#: Bytes of text that the large commit adds.
COMMIT_BYTES = 700_000
ENTITIES = 1_000
ROWS = 5_000
WORDS = 'gate way file tree root save call tool whole answer bytes hash größe 漢字 naïve 🙂 \\back "quoted" tab\there'.split(" ")


class Fixture:
    """The paths of what was made beneath `home`."""

    def __init__(self, home):
        self.home = Path(home)
        self.tree = self.home / "tree"
        self.binary = self.home / "data.bin"
        self.blob = self.home / "blob.bin"
        self.small = self.home / "small.txt"
        self.log = self.home / "log.txt"
        self.json = self.home / "data.json"
        self.missing = self.home / "not-there.txt"
        self.repository = self.home / "repository"
        self.graph = self.home / "graph.jsonl"
        self.database = self.home / "table.db"
        chance = random.Random(SEED)
        _make_tree(self.tree, chance)
        self.binary.write_bytes(chance.randbytes(BINARY_BYTES))
        self.small.write_text("a small answer\nwith a second line: größe 🙂\n", encoding="utf-8")
        self.blob.write_bytes(chance.randbytes(BLOB_BYTES))
        self.log.write_text(_lines(chance, LOG_BYTES), encoding="utf-8")
        self.json.write_text(_json(chance, JSON_BYTES), encoding="utf-8")
        _make_repository(self.repository, chance)
        _make_graph(self.graph, chance)
        _make_table(self.database, chance)


def _make_tree(tree, chance):
    for d in range(DIRECTORIES):
        directory = tree / f"directory-{d:02}"
        directory.mkdir(parents=True)
        for f in range(FILES_EACH):
            (directory / f"{chance.choice(['a', 'ü', '漢', 'b c'])}-{f:03}.txt").write_text(f"{d} {f}\n")


def _make_repository(repository, chance):
    repository.mkdir()
    _git(repository, "init", "--quiet", "--initial-branch=main")
    _commit(repository, "first", {"README.md": "A repository to read from.\n"})
    _commit(repository, "second", {"README.md": "A repository to read from, and to compare.\n"})
    lines = _lines(chance, COMMIT_BYTES).splitlines(keepends=True)
    half = len(lines) // 2
    _commit(repository, "large", {"one.txt": "".join(lines[:half]), "two.txt": "".join(lines[half:])})


def _make_graph(graph, chance):
    """The file of a memory server: entities, each with what was observed of it, and a chain of relations."""
    names = [f"entity {n}" for n in range(ENTITIES)]
    notes = [[" ".join(chance.choices(WORDS, k=9)) for _ in range(3)] for _ in names]
    entities = [
        {"type": "entity", "name": name, "entityType": "thing", "observations": seen}
        for name, seen in zip(names, notes, strict=True)
    ]
    relations = [
        {"type": "relation", "from": one, "to": other, "relationType": "comes before"}
        for one, other in zip(names, names[1:], strict=False)
    ]
    graph.write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in entities + relations), encoding="utf-8")


def _make_table(database, chance):
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT, size REAL)")
    rows = [(n, " ".join(chance.choices(WORDS, k=3)), chance.random()) for n in range(ROWS)]
    connection.executemany("INSERT INTO things VALUES (?, ?, ?)", rows)
    connection.commit()
    connection.close()


def _lines(chance, least_bytes):
    lines, size = [], 0
    while size < least_bytes:
        lines.append(" ".join(chance.choices(WORDS, k=9)) + "\n")
        size += len(lines[-1].encode())
    return "".join(lines)


def _json(chance, least_bytes):
    values, size = [], 0
    while size < least_bytes:
        values.append({"words": chance.choices(WORDS, k=5), "number": chance.random()})
        size += len(json.dumps(values[-1], ensure_ascii=False).encode())
    return json.dumps(values, ensure_ascii=False)


def _commit(repository, message, files):
    for name, text in files.items():
        (repository / name).write_text(text, encoding="utf-8")
    _git(repository, "add", "--all")
    _git(repository, "commit", "--quiet", "--no-gpg-sign", "-m", message)


def _git(repository, *arguments):
    who = ["-c", "user.name=Real Test", "-c", "user.email=real@test.invalid", "-c", "core.autocrlf=false"]
    subprocess.run(["git", *who, "-C", repository, *arguments], check=True, timeout=60)
