"""The agent's code on a node of a Ray cluster: nobody else can put other code in its place."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from forewarp.gpu_runner.remote import slot
from forewarp.gpu_runner.remote.far_end import bootstrap

# As on a node: the class comes by value, forewarp is not installed there.
NODE = """
import os, sys, tempfile
package = open(sys.argv[1], "rb").read()
seen = []
exec(open(sys.argv[2]).read())
real = tempfile.TemporaryDirectory
class Watched(real):
    def cleanup(self):
        status = os.stat(self.name)
        files = [(f, oct(os.stat(os.path.join(self.name, f)).st_mode & 0o777)) for f in os.listdir(self.name)]
        seen.append((os.path.basename(self.name), oct(status.st_mode & 0o777), files))
        super().cleanup()
tempfile.TemporaryDirectory = Watched
os.umask(0)
made = RaySlot(package, sys.executable, {})
from forewarp.gpu_runner.remote.far_end import bootstrap, link
print(seen[0][0], seen[0][1], seen[0][2], type(link.Link).__name__, [p for p in sys.path if p.startswith(sys.argv[3])])
"""


def run_node(folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "package.zip").write_bytes(bootstrap.package())
    shared = folder / "shared"
    shared.mkdir(exist_ok=True)
    shared.chmod(0o1777)
    environment = {n: v for n, v in os.environ.items() if n != "PYTHONPATH"} | {"TMPDIR": str(shared)}
    source = str(Path(slot.__file__).resolve())
    return subprocess.run(
        [sys.executable, "-P", "-c", NODE, str(folder / "package.zip"), source, str(shared)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_code_lies_in_a_private_folder_with_a_drawn_name_and_is_gone_afterwards(tmp_path: Path) -> None:
    names: set[str] = set()
    for _ in range(2):
        done = run_node(tmp_path)
        assert done.returncode == 0, done.stderr
        name, mode, *rest = done.stdout.split(maxsplit=2)
        names.add(name)
        assert (mode, rest[0]) == ("0o700", "[('agent.zip', '0o600')] type []\n")
    assert len(names) == 2
    assert list((tmp_path / "shared").iterdir()) == []


def test_a_planted_archive_is_not_imported(tmp_path: Path) -> None:
    digest = hashlib.sha256(bootstrap.package()).hexdigest()
    (tmp_path / "shared").mkdir()
    for name in (digest, digest[:16], digest[:32]):
        (tmp_path / "shared" / f"forewarp-{os.getuid()}-{name}.zip").write_bytes(b"planted")
    done = run_node(tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    code = (
        "import os, sys, tempfile\nexec(open(sys.argv[1]).read())\nreal = tempfile.mkdtemp\n"
        "def open_to_all(*a, **k):\n    made = real(*a, **k)\n    os.chmod(made, 0o777)\n    return made\n"
        "tempfile.mkdtemp = open_to_all\nload(b'code')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(Path(slot.__file__).resolve())],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "is not private to this user" in done.stderr
