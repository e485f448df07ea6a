"""Which files a model may read through the tools of a conversation, and what it writes only with the user's word."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scripted_model import Call, scripted

from forewarp.agent.conversation import Conversation
from forewarp.agent.events import ApprovalAsked, ApprovalReply, ConversationEvent, Failed, SettingChanged, ToolReturned
from forewarp.agent.files import (
    SECRET_FILES,
    SECRET_FOLDERS,
    files_to_begin_with,
    list_files,
    read_lines,
    readable_file,
    refuse_task_secrets,
    secret,
    with_mentioned_files,
)
from forewarp.agent.settings import Settings
from forewarp.cli import headless
from forewarp.cli.options import Output
from forewarp.core.errors import TaskError, UsageError
from forewarp.gpu_runner.formats import kernelbot
from forewarp.tools.parts import Place

SECRET = "AWS_SECRET = 'hunter2'\n"

SECRETS = [
    *(".env", ".env.local", ".ENV", "prod.env", "server.pem", "tls/private.key", "id_rsa", "id_ed25519.bak"),
    *("hosts.yml", "wallet.dat", "UTC--2026-11-27T08", "rclone.conf", "client_secret_1.json", "logins.json"),
    *(".netrc", ".npmrc", ".pypirc", ".git-credentials", "credentials", "gcp_credentials.json", "secrets.toml"),
    *(
        "kaggle.json",
        "auth.json",
        ".vault-token",
        "prod.tfvars",
        "pip.conf",
        ".git/config",
        "deploy_rsa",
        "prod.env.bak",
    ),
    *("terraform.tfstate.backup", "key.pem.old", ".secrets.toml", "password.txt", "OPENAI_API_KEY", ".env~", "token.1"),
    *(".git/modules/x/config", ".modal.toml"),
    *(".ssh/config", ".aws/config", "home/.kube/config", ".docker/config.json", "secrets/db.txt", "token"),
]
OPEN = ["kernel.cu", "tokenizer.py", "environment.yml", "keys.py", "monkey.py", "proc/k.cpp", ".clang-format", "key.md"]

Make = Callable[..., Conversation]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "work"
    found.mkdir()
    return found


@pytest.fixture
def talk(folder: Path, tmp_path: Path) -> Make:
    def made(*calls: Call, **values: Any) -> Conversation:
        place = Place(device="cpu", archive=str(tmp_path / "archive.db"))
        chosen: dict[str, Any] = {"folder": folder, "approval": "never", **values}
        return Conversation(Settings(place=place, model=scripted(*calls), **chosen))

    return made


async def turn(made: Conversation, reply: ApprovalReply = "no", text: str = "Go on.") -> list[ConversationEvent]:
    seen: list[ConversationEvent] = []
    async for event in made.say(text):
        seen.append(event)
        if isinstance(event, ApprovalAsked):
            made.answer(event.call, reply)
    made.close()
    return seen


def asked(events: list[ConversationEvent]) -> list[ApprovalAsked]:
    return [e for e in events if isinstance(e, ApprovalAsked)]


def results(events: list[ConversationEvent]) -> list[dict[str, Any]]:
    return [dict(e.result) for e in events if isinstance(e, ToolReturned)]


def put(path: Path, text: str = SECRET) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def told(made: Conversation, events: list[ConversationEvent]) -> str:
    """All that the model, the board and the user were told."""
    return repr(events) + repr([r.forecast.source for r in made.candidates])


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_known_by_their_names(name: str) -> None:
    assert secret(Path("/work") / name)


@pytest.mark.parametrize("name", OPEN)
def test_other_files_are_not_taken_for_secrets(name: str) -> None:
    assert not secret(Path("/work") / name)


def test_every_pattern_is_lower_case_and_of_use() -> None:
    for pattern in SECRET_FILES:
        assert secret(Path("/work") / pattern.replace("*", "")) or "*" in pattern
        assert pattern == pattern.lower()
    assert secret(Path("/proc/self/environ"))
    assert all(secret(Path("/home/me") / name / "x") for name in SECRET_FOLDERS)


@pytest.mark.parametrize("name", [".env", "server.pem", ".ssh/config", "link", "again", "linked/config", "./x/../.env"])
async def test_no_tool_of_the_model_opens_a_secret(talk: Make, folder: Path, name: str) -> None:
    for path in (".env", "server.pem", ".ssh/config", ".env.prod"):
        put(folder / path)
    (folder / "x").mkdir()
    (folder / "link").symlink_to(".env")
    (folder / "again").symlink_to("link")
    (folder / "linked").symlink_to(".ssh")
    calls: list[Call] = [
        ("read_file", {"path": name}),
        ("forecast_kernel", {"task": "softmax", "path": name}),
        ("measure_kernel", {"task": "softmax", "path": name}),
        ("search", {"task": "softmax", "seed_kernels": [name]}),
        ("describe_task", {"task": name}),
        ("forecast_kernel", {"task": name, "source": "x"}),
        ("write_file", {"path": name, "text": "x"}),
    ]
    made = talk(*calls)
    events = await turn(made, "yes")
    for result in results(events):
        assert "keys, tokens or passwords" in result["error"], result
        assert "paste the lines" in result["hint"]
    assert len(results(events)) == len(calls)
    assert "hunter2" not in told(made, events)
    assert (folder / ".env").read_text() == SECRET


async def test_a_link_in_between_that_is_named_as_a_secret_counts(talk: Make, folder: Path) -> None:
    put(folder / "plain.txt")
    (folder / ".env").symlink_to("plain.txt")
    (folder / "notes.txt").symlink_to(".env")
    [result] = results(await turn(talk(("read_file", {"path": "notes.txt"}))))
    assert ".env*" in result["error"]


async def test_lists_name_no_secrets_and_nothing_that_leads_away(talk: Make, folder: Path, tmp_path: Path) -> None:
    for name in ("a.cu", "sub/b.cu", "server.pem", ".env", ".git/config", "secrets/c.txt"):
        put(folder / name)
    put(tmp_path / "outside" / "private.txt")
    (folder / "out").symlink_to(tmp_path / "outside")
    (folder / "away.txt").symlink_to(tmp_path / "outside" / "private.txt")
    (folder / "env.txt").symlink_to(".env")
    (folder / "git.txt").symlink_to(".git/config")
    (folder / "same.cu").symlink_to("a.cu")
    calls: list[Call] = [("list_files", {"pattern": p}) for p in ("**/*", "out/*", "*", ".git/*")]
    everything, out, top, hidden = results(await turn(talk(*calls)))
    assert everything["files"] == ["a.cu", "same.cu", "sub/b.cu"]
    assert out["files"] == hidden["files"] == []
    assert top["files"] == ["a.cu", "same.cu"]


@pytest.mark.parametrize("name", [".env", "server.pem", "link.txt"])
async def test_a_mention_does_not_send_a_secret_to_the_model(talk: Make, folder: Path, name: str) -> None:
    put(folder / ".env")
    put(folder / "server.pem")
    (folder / "link.txt").symlink_to(".env")
    with pytest.raises(UsageError, match="keys, tokens or passwords"):
        with_mentioned_files(f"look at @{name}", folder)
    last = (await turn(talk(), text=f"look at @{name}"))[-1]
    assert isinstance(last, Failed)
    assert "paste the lines" in last.hint


@pytest.mark.parametrize("source", [".env", "../.env", "helper.py"])
async def test_a_task_folder_is_not_made_of_secrets(talk: Make, folder: Path, source: str) -> None:
    put(folder / ".env")
    put(folder / "t" / ".env")
    (folder / "t" / "helper.py").symlink_to("../.env")
    entries = [("reference.py", source), ("submission.py", "@SUBMISSION@")]
    files = [{"name": name, "source": path} for name, path in entries]
    put(folder / "t" / "task.yml", json.dumps({"lang": "py", "files": files, "config": {}}))
    made = talk(("describe_task", {"task": "t"}), ("describe_task", {"task": "t/task.yml"}))
    events = await turn(made)
    for result in results(events):
        assert "keys, tokens or passwords" in result["error"], result
    assert "hunter2" not in told(made, events)


async def test_links_of_a_task_folder_stay_inside(talk: Make, folder: Path, tmp_path: Path) -> None:
    (folder / "t" / "seeds").mkdir(parents=True)
    put(folder / "t" / "task.toml", 'title = "t"\n')
    (folder / "t" / "reference.py").symlink_to(put(tmp_path / "outside.py"))
    (folder / "u" / "seeds").mkdir(parents=True)
    put(folder / "u" / "task.toml", 'title = "u"\n')
    put(folder / "u" / "reference.py", "")
    (folder / "u" / "seeds" / "cpp.cpp").symlink_to(put(folder / ".env"))
    first, second = results(await turn(talk(("describe_task", {"task": "t"}), ("describe_task", {"task": "u"}))))
    assert "outside of the working folder" in first["error"]
    assert "keys, tokens or passwords" in second["error"]


WRITES = {
    "hook": (".git/hooks/pre-commit", "x\n", "hidden"),
    "hidden file": (".clang-format", "x\n", "hidden"),
    "deep": ("a/.vscode/tasks.json", "{}", "hidden"),
    "through a link": ("hooks/pre-commit", "x\n", "hidden"),
    "script": ("build.sh", "#!/bin/sh\nrm -rf ~\n", "first line"),
    "script with a byte order mark": ("build.sh", "\ufeff#!/bin/sh\n", "first line"),
    "executable": ("run.py", "print()\n", "executable"),
    "run by its name": ("Makefile", "all:\n", "name or place"),
    "read by pip": ("requirements-dev.txt", "x\n", "name or place"),
    "told to the next agent": ("AGENTS.md", "x\n", "name or place"),
    "told to the next agent, below": ("sub/Claude.local.md", "x\n", "name or place"),
    "compiled by cargo": ("build.rs", "x\n", "name or place"),
    "settings of a linter": ("pylintrc", "x\n", "name or place"),
    "opened by an editor": ("p.code-workspace", "{}\n", "name or place"),
    "run when documents are built": ("docs/conf.py", "x\n", "name or place"),
    "read by Python when it starts": ("venv/lib/site-packages/x.pth", "import os\n", "name or place"),
    "in place of an installed module": ("torch.py", "x\n", "in place of their module torch"),
    "in place of a module of Python": ("json/__init__.py", "x\n", "in place of their module json"),
}


@pytest.mark.parametrize(("path", "text", "why"), WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("approval", ["each", "never"])
async def test_hidden_and_executable_files_are_written_with_a_word_only(
    talk: Make, folder: Path, path: str, text: str, why: str, approval: str
) -> None:
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / "hooks").symlink_to(".git/hooks")
    put(folder / "run.py", "old\n").chmod(0o755)
    write: Call = ("write_file", {"path": path, "text": text})
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    events = await turn(talk(write, approval=approval), "no")
    [question] = asked(events)
    assert why in question.reason
    assert f"+{text.splitlines()[0]}" in question.text
    assert "the user said no" in results(events)[0]["error"]
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    # A yes is for this once: the same again is asked again, although the file is the model's own by then.
    events = await turn(talk(write, write, approval=approval), "yes")
    assert len(asked(events)) == 2
    assert (folder / path).read_text() == text


async def test_nothing_of_the_folder_is_imported_before_a_command_is_confined(talk: Make, folder: Path) -> None:
    ran = folder / "ran"
    for name in ("json", "numpy"):
        put(folder / f"{name}.py", f"open({str(ran)!r}, 'w')\n")
    events = await turn(talk(("run_command", {"command": "echo done"})), "yes")
    assert "done" in str(results(events)[0])
    assert not ran.exists()


async def test_a_file_of_its_own_that_became_executable_is_asked_for(talk: Make, folder: Path) -> None:
    write: Call = ("write_file", {"path": "k.cu", "text": "a\n"})
    made = talk(write)
    seen: list[ConversationEvent] = []
    for _ in range(2):
        async for event in made.say("Go on."):
            seen.append(event)
            if isinstance(event, ApprovalAsked):
                made.answer(event.call, "no")
        (folder / "k.cu").chmod(0o755)
        made.change("scripted", model=scripted(write, write))
    made.close()
    [question] = asked(seen)
    assert "executable" in question.reason
    assert len(results(seen)) == 2


async def test_always_is_about_measuring_and_not_about_files(talk: Make, folder: Path) -> None:
    calls: list[Call] = [("write_file", {"path": f".hidden{n}", "text": "x"}) for n in range(2)]
    events = await turn(talk(*calls, approval="each"), "always")
    assert len(asked(events)) == 2
    assert not [e for e in events if isinstance(e, SettingChanged)]


async def test_the_question_names_the_file_that_is_really_written(talk: Make, folder: Path) -> None:
    put(folder / ".git" / "hooks" / "post-merge", "old\n")
    (folder / "notes.txt").symlink_to(".git/hooks/post-merge")
    [question] = asked(await turn(talk(("write_file", {"path": "notes.txt", "text": "new\n"}))))
    assert question.command == "overwrite .git/hooks/post-merge"


async def test_a_file_that_becomes_another_one_while_the_user_thinks_is_not_written(talk: Make, folder: Path) -> None:
    put(folder / "mine.txt", "old\n")
    put(folder / "other.txt", "other\n")
    made = talk(("write_file", {"path": "mine.txt", "text": "new\n"}))
    seen: list[ConversationEvent] = []
    async for event in made.say("Go on."):
        seen.append(event)
        if isinstance(event, ApprovalAsked):
            (folder / "mine.txt").unlink()
            (folder / "mine.txt").symlink_to("other.txt")
            made.answer(event.call, "yes")
    made.close()
    assert "became another file" in results(seen)[0]["error"]
    assert (folder / "other.txt").read_text() == "other\n"


async def test_links_out_of_the_folder_are_not_written(talk: Make, folder: Path, tmp_path: Path) -> None:
    put(tmp_path / "there.txt", "old\n")
    (folder / "file").symlink_to(tmp_path / "there.txt")
    (folder / "new").symlink_to(tmp_path / "missing.txt")
    (folder / "dir").symlink_to(tmp_path)
    names = ("file", "new", "dir/made.txt")
    events = await turn(talk(*[("write_file", {"path": n, "text": "x"}) for n in names]), "yes")
    assert all("outside of the working folder" in r["error"] for r in results(events))
    assert (tmp_path / "there.txt").read_text() == "old\n"
    assert not (tmp_path / "missing.txt").exists()
    assert not (tmp_path / "made.txt").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a FIFO")
async def test_what_is_no_file_is_neither_read_nor_written(talk: Make, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    events = await turn(talk(("read_file", {"path": "pipe"}), ("write_file", {"path": "pipe", "text": "x"})), "yes")
    assert all("is no file" in r["error"] for r in results(events))


@pytest.mark.parametrize(
    "path", ["~nosuchuser/x", "a\0b", "a" * 5000, "\ud800x"], ids=["user", "NUL", "long", "surrogate"]
)
def test_what_can_be_no_path_is_refused(folder: Path, path: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be opened"):
        readable_file(folder, path)


@pytest.mark.parametrize("pattern", ["**/a/**/b", "a" * 5000, *["**a"] * (sys.version_info < (3, 13)), "x/../../y"])
def test_patterns_that_take_for_ever_or_are_none_are_refused(folder: Path, pattern: str) -> None:
    with pytest.raises(UsageError, match=r"pattern|leaves"):
        list_files(folder, pattern, 10)


def test_repeated_stars_find_what_one_finds(folder: Path) -> None:
    place = folder / "/".join("abcdefgh")
    place.mkdir(parents=True)
    (place / "k.py").touch()
    assert list_files(folder, "**/" * 12 + "k.py", 10) == ["a/b/c/d/e/f/g/h/k.py"]


def test_a_line_that_lies_too_far_is_not_looked_for(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarp.agent.files.LISTING_S", 0.05)
    with (folder / "sparse").open("wb") as file:
        file.truncate(1 << 38)
    with pytest.raises(UsageError, match="takes too long"):
        read_lines(folder / "sparse", "sparse", 10**9, 1000)


def test_aliases_of_a_task_file_do_not_grow_without_bounds(folder: Path) -> None:
    lists = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    (folder / "task.yml").write_text(f"a0: &a0 [x, x]\n{lists}files:\n- {{name: x, source: *a8}}\n")
    refuse_task_secrets(folder, folder / "task.yml")
    with pytest.raises(TaskError, match="more than 100,000 values"):
        kernelbot.load(folder / "task.yml")


async def test_what_is_no_text_is_not_sent_to_the_model(talk: Make, folder: Path) -> None:
    (folder / "k.so").write_bytes(b"\x7fELF\0\0\xff")
    [result] = results(await turn(talk(("read_file", {"path": "k.so"}))))
    assert "is no text" in result["error"]


def test_without_a_terminal_all_of_it_is_refused(talk: Make, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(folder / ".env")
    calls: list[Call] = [
        ("write_file", {"path": ".git/hooks/pre-commit", "text": "#!/bin/sh\n"}),
        ("write_file", {"path": "run.sh", "text": "#!/bin/sh\n"}),
        ("read_file", {"path": ".env"}),
        ("write_file", {"path": "k.cu", "text": "fine\n"}),
    ]
    assert headless.run(talk(*calls), ["Go on."], "text", Output()) == 0
    out, err = capsys.readouterr()
    assert "? write .git/hooks/pre-commit" in err
    assert "? write run.sh" in err
    assert "hunter2" not in out + err
    assert sorted(p.name for p in folder.rglob("*")) == [".env", "k.cu"]


def test_a_folder_s_own_problem_and_kernels_are_found(tmp_path: Path) -> None:
    assert files_to_begin_with(tmp_path) == ("", "")
    (tmp_path / "a.py").write_text("import triton\n\n@triton.jit\ndef k(x): ...\n")
    (tmp_path / "b.py").write_text("class Model: ...\ndef get_inputs(): ...\n")
    (tmp_path / "c.py").write_text("class Model: ...\nclass ModelNew: ...\ndef get_inputs(): ...\n")
    os.mkfifo(tmp_path / "0.py")
    assert files_to_begin_with(tmp_path) == ("b.py", "a.py")
