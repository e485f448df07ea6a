"""Configuration files: who wins, and what a project may not loosen without the user's word."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarp.agent import config
from forewarp.agent.config import configured, trust, write
from forewarp.agent.instructions import notes_of
from forewarp.core.errors import UsageError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder; the user's configuration lies beside it."""
    monkeypatch.setattr(config, "user_folder", lambda: tmp_path / "user")
    (tmp_path / "user").mkdir()
    found = tmp_path / "project"
    found.mkdir()
    return found


def put(folder: Path, text: str) -> None:
    (folder / config.NAME).write_text(text)


def test_the_project_wins_over_the_user_where_it_is_stricter(project: Path) -> None:
    put(project.parent / "user", 'model = "openai:a"\napprove = "budget"\n[budget]\nmeasurements = 50\nusd = 2.0\n')
    put(project, 'model = "openai:b"\ntheme = "light"\napprove = "each"\n[budget]\nmeasurements = 40\nusd = 1.0\n')
    found = configured(project)
    assert not found.held_back
    assert found.values == {
        "model": "openai:b",
        "theme": "light",
        "approve": "each",
        "budget.measurements": 40,
        "budget.usd": 1.0,
    }
    assert found.get("theme", "dark") == "dark"


LOOSER = [
    *('approve = "budget"', 'approve = "never"', "shell = true", 'base_url = "http://evil.example/v1"'),
    *("[budget]\nmeasurements = 25", "[budget]\nsteps = 81", "[budget]\nusd = 3.0"),
]


@pytest.mark.parametrize("text", LOOSER)
def test_what_a_project_would_loosen_is_held_back_until_its_text_is_trusted(project: Path, text: str) -> None:
    put(project.parent / "user", "[budget]\nusd = 2.0\n")
    put(project, text)
    found = configured(project)
    [(name, value)] = found.held_back.items()
    assert found.values.get(name) != value
    trust(project)
    assert configured(project).values[name] == value
    put(project, f"{text}\n# changed\n")
    assert configured(project).held_back


@pytest.mark.parametrize(
    ("text", "says"),
    [("model = ", "no TOML"), ("colour = 'red'", "colour"), ("shell = 1", "shell"), ('approve = "always"', "approve")],
)
def test_a_malformed_file_says_what_is_wrong(project: Path, text: str, says: str) -> None:
    put(project, text)
    with pytest.raises(UsageError, match=says):
        configured(project)


def test_a_value_is_written_with_comments_kept_and_taken_away_again(project: Path) -> None:
    user = project.parent / "user"
    put(user, '# mine\nmodel = "openai:a"  # the small one\n\n[budget]\nusd = 2.0\n')
    for name, value in (("budget.measurements", "12"), ("theme", "light"), ("shell", "true"), ("budget.usd", "none")):
        assert write(project, name, value, project=False) == user / config.NAME
    text = (user / config.NAME).read_text()
    assert text.startswith('# mine\nmodel = "openai:a"  # the small one\n')
    assert configured(project).values == {
        "model": "openai:a",
        "theme": "light",
        "shell": True,
        "budget.measurements": 12,
    }


def test_what_the_user_writes_into_a_projects_file_is_trusted_but_not_what_stood_there(project: Path) -> None:
    write(project, "budget.measurements", "99", project=True)
    assert configured(project).values == {"budget.measurements": 99}
    put(project, "shell = true\n")
    write(project, "theme", "light", project=True)
    assert configured(project).held_back == {"shell": True}


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("colour", "red", "there is no setting colour"),
        ("context", "5", "context is 5"),
        ("approve", "always", "approve is 'always'"),
        ("shell.x", "1", "there is no setting shell.x"),
        ("budget", "5", "budget is 5"),
    ],
)
def test_a_value_that_the_file_may_not_hold_is_not_written(project: Path, name: str, value: str, problem: str) -> None:
    put(project, "shell = false\n")
    with pytest.raises(UsageError, match=problem):
        write(project, name, value, project=True)
    assert (project / config.NAME).read_text() == "shell = false\n"


def test_notes_of_a_folder_are_read_once_and_only_as_text(project: Path) -> None:
    assert notes_of(project) == {}
    (project / "AGENTS.md").write_text("Use tabs.\n")
    (project / "CLAUDE.md").write_text("Use tabs.\n")
    assert notes_of(project) == {"AGENTS.md": "Use tabs."}
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to("/etc/hostname")
    (project / "CLAUDE.md").write_bytes(b"\0\1")
    assert notes_of(project) == {}
