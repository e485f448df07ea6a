"""Searching for several targets from the command line, on a pool that was recorded on two synthetic cards."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.cards import NARROW, WIDE, Card, Cards, record_two
from support.recorded_pool import Recorded

from forewarp.archive.store import Archive, default_path
from forewarp.cli import exits
from forewarp.cli.main import main
from forewarp.cli.options import Output
from forewarp.cli.running import drive, overview
from forewarp.report import documents
from forewarp.report.artifacts import slug
from forewarp.report.tally import Tally
from forewarp.tools.joint_search import open_joint
from forewarp.tools.parts import Amounts
from forewarp.tools.search import SearchRequest

CARDS = f"{WIDE.name},{NARROW.name}"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record_two(tmp_path_factory.mktemp("pool"))


@pytest.fixture
def optimize(recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    return ["optimize", recorded.task, *recorded.flags, "--budget", "8", "--target", CARDS]


def test_the_document_names_a_winner_per_target_and_its_files_lie_by_target(
    optimize: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*optimize, "--json", "--out", "here"]) == 0
    found = json.loads(capsys.readouterr().out)
    documents.JointDocument.model_validate(found)
    assert found["status"] == "finished"
    assert {d for k in found["kernels"] for d in k["won"]} == {WIDE.name, NARROW.name}
    paths = [Path(a["path"]) for a in found["artifacts"]]
    assert all(p.is_file() for p in paths)
    names = {str(p.relative_to(tmp_path / "here")) for p in paths}
    assert {"compromise.cpp", "report.html", "result.json", "wide-1/best.cpp", "narrow-1/report.html"} <= names
    assert json.loads((tmp_path / "here" / "result.json").read_text()) == found
    assert (tmp_path / "here" / "compromise.cpp").read_text() == found["compromise"]["source"]


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


def test_the_page_leads_to_each_run_and_needs_no_network(
    optimize: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*optimize, "--quiet", "--out", "here"]) == 0
    capsys.readouterr()
    page = tmp_path / "here" / "report.html"
    links = Links()
    links.feed(page.read_text())
    assert {"wide-1/report.html", "narrow-1/report.html"} <= set(links.found)
    assert all((page.parent / link).is_file() for link in links.found if not link.startswith("#"))
    assert "Replay" in page.read_text()


def test_it_is_shown_listed_and_reported_by_its_name(
    optimize: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*optimize, "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "geometric mean" in told
    assert "replay of recorded measurements" in told
    folder = next((tmp_path / "forewarp-runs").iterdir())
    assert folder.name.startswith("g-")
    assert main(["runs", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["runs"]
    assert [line["group_id"] for line in lines] == [folder.name] * 2
    assert main(["show", folder.name[:5], "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    documents.JointDocument.model_validate(shown)
    assert shown["group_id"] == folder.name
    assert main(["report", folder.name, "--out", "page.html", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == str(tmp_path / "page.html")
    assert "wide-1" in (tmp_path / "page.html").read_text()


def test_events_of_all_runs_go_to_one_file(optimize: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*optimize, "--quiet", "--events", "events.jsonl"]) == 0
    capsys.readouterr()
    told = [json.loads(line) for line in Path("events.jsonl").read_text().splitlines()]
    assert len({e["run"] for e in told}) == 2
    for run in {e["run"] for e in told}:
        assert [e["seq"] for e in told if e["run"] == run] == list(range(1, 1 + sum(e["run"] == run for e in told)))


def test_resuming_adds_the_events_of_finished_runs_too(
    optimize: list[str], recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*optimize, "--quiet", "--events", "events.jsonl"]) == 0
    whole = [json.loads(line) for line in Path("events.jsonl").read_text().splitlines()]
    # As a kill leaves it: one run had ended, and neither's last events had reached the file.
    Path("events.jsonl").write_text("".join(json.dumps(e, separators=(",", ":")) + "\n" for e in whole[:-4]))
    with Archive(default_path()) as archive:
        done, cut = (run.id for run in archive.runs())
        group = str(archive.run(cut).settings["group"])
        archive.set_status(cut, "interrupted", "killed")
    assert main(["resume", group, *recorded.flags, "--quiet", "--events", "events.jsonl"]) == 0
    capsys.readouterr()
    told = [json.loads(line) for line in Path("events.jsonl").read_text().splitlines()]
    for run in (done, cut):
        with Archive(default_path()) as archive:
            assert [e["seq"] for e in told if e["run"] == run] == [e.seq for e in archive.events(run)]


def test_a_target_that_failed_is_told_by_the_exit_code(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cards = Cards(wide=Card(WIDE), narrow=Card(NARROW, gone_after=2))
    request = SearchRequest(task=recorded.task, seed_kernels=[recorded.seed], budget=Amounts(measurements=6))
    with open_joint(request, ["wide", "narrow"], cards) as job:
        assert drive(job, "optimize", out=tmp_path / "out", output=Output(json=True)) == exits.TRY_LATER
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "failed"
    assert found["error"]["message"] == "the machine is gone"
    assert found["runs"][0]["best"] is not None


def test_progress_says_on_which_target(optimize: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(optimize) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("wide-1: [") for line in lines)
    assert any(line.startswith("narrow-1: [") for line in lines)


def test_a_dry_run_estimates_each_target(optimize: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*optimize, "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    documents.JointEstimateDocument.model_validate(found)
    assert [r["device"]["name"] for r in found["runs"]] == [WIDE.name, NARROW.name]
    assert main([*optimize, "--dry-run"]) == 0
    assert "wide-1" in capsys.readouterr().out
    assert not Path("forewarp-runs").exists()


def test_one_target_chooses_the_card(
    recorded: Recorded, optimize: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*optimize[:-1], NARROW.name, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    documents.SearchDocument.model_validate(found)
    assert found["device"]["name"] == NARROW.name


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("wide-1,h200", "narrow-1"),
        ("wide-1,wide-1", "twice"),
        ("wide-1,", "no name"),
        ("wide-1,WIDE1", "one device"),
        ("wide-1,narrow-1@ray", "no other machine"),
    ],
)
def test_a_wrong_target_is_told_with_what_to_do(
    optimize: list[str], capsys: pytest.CaptureFixture[str], target: str, says: str
) -> None:
    assert main([*optimize[:-1], target]) in (2, 69)
    assert says in capsys.readouterr().err


def test_a_card_that_this_machine_has_not_is_said_to_be_missing(
    optimize: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["optimize", "softmax", "--device", "cpu", "--target", "h200", "--dry-run"]) == 69
    assert "is no h200" in capsys.readouterr().err


def test_each_target_may_be_on_machines_of_its_own(optimize: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", "softmax", "--target", "cpu@ssh:,cpu", "--dry-run"]) == 2
    assert "twice" not in capsys.readouterr().err


def test_a_single_run_takes_no_targets_when_it_goes_on(optimize: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", "r-1", "--target", "h200"]) == 2
    assert "several targets" in capsys.readouterr().err


def test_the_live_view_has_a_row_per_target() -> None:
    tallies = {"r-1": Tally(run="r-1", title="toy on NVIDIA H200 · tunables · learned"), "r-2": Tally(run="r-2")}
    assert overview(tallies).row_count == 2


def test_folders_are_named_for_devices() -> None:
    assert slug("NVIDIA A100-SXM4-80GB") == "nvidia-a100-sxm4-80gb"
    assert slug("Intel(R) Xeon(R)") == "intel-r-xeon-r"
