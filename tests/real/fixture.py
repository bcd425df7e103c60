"""What the servers serve: a tree of thousands of files, a binary, a repository with a large commit. Made anew for each run."""

import random
import subprocess
from pathlib import Path

SEED = 20260731
DIRECTORIES = 50
FILES_EACH = 100
BINARY_BYTES = 5_000_000
#: Bytes of text that the large commit adds.
COMMIT_BYTES = 700_000
WORDS = 'gate way file tree root save call tool whole answer bytes hash größe 漢字 naïve 🙂 \\back "quoted" tab\there'.split(" ")


class Fixture:
    """The paths of what was made beneath `home`."""

    def __init__(self, home):
        self.home = Path(home)
        self.tree = self.home / "tree"
        self.binary = self.home / "data.bin"
        self.small = self.home / "small.txt"
        self.missing = self.home / "not-there.txt"
        self.repository = self.home / "repository"
        chance = random.Random(SEED)
        _make_tree(self.tree, chance)
        self.binary.write_bytes(chance.randbytes(BINARY_BYTES))
        self.small.write_text("a small answer\nwith a second line: größe 🙂\n", encoding="utf-8")
        _make_repository(self.repository, chance)


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
    lines, size = [], 0
    while size < COMMIT_BYTES:
        lines.append(" ".join(chance.choices(WORDS, k=9)))
        size += len(lines[-1].encode()) + 1
    half = len(lines) // 2
    _commit(repository, "large", {"one.txt": "\n".join(lines[:half]) + "\n", "two.txt": "\n".join(lines[half:]) + "\n"})


def _commit(repository, message, files):
    for name, text in files.items():
        (repository / name).write_text(text, encoding="utf-8")
    _git(repository, "add", "--all")
    _git(repository, "commit", "--quiet", "--no-gpg-sign", "-m", message)


def _git(repository, *arguments):
    who = ["-c", "user.name=Real Test", "-c", "user.email=real@test.invalid", "-c", "core.autocrlf=false"]
    subprocess.run(["git", *who, "-C", repository, *arguments], check=True, timeout=60)
