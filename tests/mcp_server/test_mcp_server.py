"""The MCP server through the SDK's own client: in memory in both protocol eras, and as a real process over stdio."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from mcp import MCPError
from mcp.types import INVALID_PARAMS
from support import autotuned_file
from support.served_mcp import Mode, Served, call, ended, happens, refused

from forewarp.archive.store import Archive, default_path
from forewarp.gpu_runner.worker import least
from forewarp.mcp_server import server
from forewarp.mcp_server.answers import LIMIT_BYTES, MeasureAnswer, reply, size
from forewarp.mcp_server.spool import Spool
from forewarp.tools.parts import Amounts, Place
from forewarp.tools.search import SearchRequest, open_search

TOOLS = [
    *("describe", "make_task", "validate_task", "inspect_kernel", "forecast_kernel", "measure_kernel"),
    *("search", "run_verb", "search_status", "search_cancel", "search_resume"),
]
READING = ("describe", "validate_task", "inspect_kernel", "forecast_kernel", "search_status")


async def test_offers_few_tools_that_say_what_they_are_for(served: Served, mode: Mode) -> None:
    async with served.in_memory(mode) as client:
        tools = (await client.list_tools()).tools
        prompts = {p.name for p in (await client.list_prompts()).prompts}
        templates = {t.uri_template for t in (await client.list_resource_templates()).resource_templates}
        text = (await client.get_prompt("explain_this_verdict", {"run_id": "r-1"})).messages[0].content
    assert [t.name for t in tools] == TOOLS
    assert len(server.text("instructions").encode()) <= 2048
    for tool in tools:
        assert tool.description is not None
        assert len(tool.description.encode()) <= 2048
        assert all(word in tool.description for word in ("Cost:", "Side effects:", "Example:", "When not:"))
        hints, schema = tool.annotations, tool.output_schema
        assert hints is not None
        assert hints.read_only_hint is (tool.name in READING)
        # What is left out has the protocol's default; of a tool that only reads, the other two mean nothing.
        assert (hints.open_world_hint is None) == (tool.name in ("forecast_kernel", "search", "search_resume"))
        if tool.name not in READING:
            assert (hints.destructive_hint is None) == (tool.name == "search_cancel")
            assert bool(hints.idempotent_hint) == (tool.name in ("make_task", "search_cancel"))
        assert schema is not None
        assert next(iter(schema["properties"])) == "summary"
    assert prompts == {"optimize_this_kernel", "explain_this_verdict"}
    assert "forewarp://runs/{run}/report" in templates
    assert "r-1" in text.text  # type: ignore[union-attr]


async def test_a_prompt_that_cannot_be_given_is_the_requests_fault(
    served: Served, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    wrong: tuple[tuple[str, dict[str, str]], ...] = (
        ("make_it_fast", {}),
        ("explain_this_verdict", {}),
        ("explain_this_verdict", {"run_id": "r-1", "tone": "kind"}),
    )
    async with served.in_memory(mode) as client:
        for name, arguments in wrong:
            with pytest.raises(MCPError, match=r"optimize_this_kernel\(task, kernel\)") as error:
                await client.get_prompt(name, arguments)
            assert error.value.code == INVALID_PARAMS
    assert not [r for r in caplog.records if r.exc_info]


async def test_forecasts_measures_and_shows_what_it_kept(served: Served, mode: Mode) -> None:
    said: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        said.append(message or "")

    async with served.in_memory(mode) as client:
        forecast = await call(client, "forecast_kernel", task="toy.py", path="toy.cpp")
        assert (forecast["recommendation"], forecast["trials"]) == ("measure", 0)
        ranked = await call(client, "forecast_kernel", task="toy.py", paths=["broken.cpp", "toy.cpp"])
        assert [(r["position"], r["path"]) for r in ranked["ranking"]] == [(2, "toy.cpp"), (1, "broken.cpp")]
        assert "toy.cpp" in ranked["summary"]
        twice = await call(client, "forecast_kernel", task="toy.py", paths=["toy.cpp", "toy.cpp"])
        assert twice["ranking"][1]["problem"] == "it is the same kernel as toy.cpp"
        source = (served.workspace / "toy.cpp").read_text()
        arguments = {"task": "toy.py", "source": source}
        with Spool(default_path().parent).alone("worker"):
            calling = asyncio.ensure_future(client.call_tool("measure_kernel", arguments, progress_callback=hear))
            await happens(lambda: said)
        measured = (await calling).structured_content
        assert measured is not None
        assert (measured["status"], measured["source"], measured["trusted"]) == ("ok", "replay", True)
        again = await call(client, "search_status", run_id=measured["run_id"])
        assert again["speedup"] == measured["speedup"]
        kernel = await client.read_resource(measured["links"]["kernel"])
        assert kernel.contents[0].text == source  # type: ignore[union-attr]
        broken = await call(client, "measure_kernel", task="toy.py", path="broken.cpp", detail="detailed")
        assert (broken["status"], "speedup" in broken) == ("compile_error", False)
        assert "no such instruction" in broken["log"]
        recent = (await call(client, "describe", about="recent"))["recent"]
        assert [m["status"] for m in recent["measurements"]] == ["finished", "finished"]
        softmax = await call(client, "describe", task="softmax")
        assert "class Model" in softmax["task"]["reference"]
        assert "0.0001 + 0.0001 for float32" in softmax["task"]["tolerance"]
        assert softmax["start"]["language"] in ("cuda", "triton")


async def test_errors_say_all_in_the_text(served: Served) -> None:
    async with served.in_memory() as client:
        assert "exactly one" in await refused(client, "measure_kernel", task="toy.py")
        both = await refused(client, "forecast_kernel", task="toy.py", path="toy.cpp", paths=["toy.cpp"])
        assert "either one kernel" in both
        text = await refused(client, "forecast_kernel", task="softmux", path="toy.cpp")
        assert "softmux" in text
        assert "it holds" in text
        text = await refused(client, "measure_kernel", task="toy.py", path="toy.cpp", against="toy.cpp")
        assert "against the reference only" in text
        assert "there is no run 'r-none'" in await refused(client, "search_status", run_id="r-none")
        assert "there is no job 'm-none'" in await refused(client, "search_status", run_id="m-none")
        assert "there is no job 'm-../x'" in await refused(client, "search_cancel", run_id="m-../x")
        assert "45" in await refused(client, "search_status", run_id="r-none", wait_s=60)
        text = await refused(client, "search", task="softmux")
        assert "softmux" in text
        assert "error code: task" in text
        text = await refused(client, "measure_kernel", task="toy.py", source="x" * 5_000_000)
        assert "200000" in text
        assert len(text) < 2000


@pytest.mark.slow
async def test_work_outlives_the_server_that_started_it(served: Served) -> None:
    with Spool(default_path().parent).alone("worker"):
        async with served.as_process() as client:
            assert [t.name for t in (await client.list_tools()).tools] == TOOLS
            queued = await call(client, "measure_kernel", task="toy.py", path="toy.cpp", wait_s=0)
            began = await call(client, "search", task="toy.py", budget=100, forecaster="none")
    async with served.in_memory() as client:
        done = await ended(client, queued)
        assert (done["status"], done["verdict"]) == ("ok", "tie")
        state = await ended(client, began)
        assert (state["status"], state.get("poll_after_s")) == ("finished", None)
        assert state["counts"]["proposed"] >= 90
        assert size(state) <= LIMIT_BYTES
        run = f"forewarp://runs/{state['run_id']}"
        best = (await client.read_resource(f"{run}/best")).contents[0].text  # type: ignore[union-attr]
        assert best.startswith("/*forewarp")
        page = (await client.read_resource(f"{run}/report")).contents[0].text  # type: ignore[union-attr]
        assert "<html" in page
        assert (Path(state["folder"]) / "result.json").exists()
        over = await call(client, "search_cancel", run_id=state["run_id"])
        assert over["summary"].startswith("It was over before")
        detailed = await call(client, "search_status", run_id=state["run_id"], detail="detailed")
        assert len(detailed["candidates"]) == 20
        assert all(c["measured"] and c["tunables"] for c in detailed["candidates"])


async def test_a_killed_run_is_called_lost(served: Served) -> None:
    with open_search(SearchRequest(task=served.recorded.task, place=served.options.place)) as job:
        run_id = job.run_id
    with Archive(default_path()) as archive:
        archive.set_status(run_id, "running", owner=f"{os.uname().nodename}:4194304:1")
    async with served.in_memory() as client:
        state = await call(client, "search_status", run_id=run_id)
    assert state["status"] == "lost"
    assert f"search_resume with run_id {run_id}" in state["summary"]


def test_long_logs_and_lists_are_cut_to_fit() -> None:
    text = "\n".join(f"line {n}: error: no such thing" for n in range(20_000))
    flags = [f"flag {n} " + "x" * 200 for n in range(100)]
    whole = MeasureAnswer(summary="It does not compile.", run_id="m-1", status="compile_error", task="t", log=text)
    for answer in (whole, whole.model_copy(update={"flags": flags, "links": {"log": "forewarp://jobs/m-1/log"}})):
        result = reply(answer)
        assert size(result.structured_content) <= LIMIT_BYTES
        assert len(result.content[0].text.encode()) <= LIMIT_BYTES  # type: ignore[union-attr]
        assert "characters left out" in json.dumps(result.structured_content, ensure_ascii=False)
    assert str(result.content[1].uri) == "forewarp://jobs/m-1/log"  # type: ignore[union-attr]


async def test_malformed_calls_leave_it_well(served: Served) -> None:
    bad: list[tuple[str, dict[str, object]]] = [
        ("measure_kernel", {}),
        ("measure_kernel", {"task": 3, "source": []}),
        ("search", {"task": "toy.py", "budget": -1}),
        ("search_status", {"run_id": "", "wait_s": "soon"}),
        ("describe", {"about": "everything"}),
        ("forecast_kernel", {"task": "../../etc/passwd", "path": "\0"}),
        ("measure_kernel", {"task": "toy.py", "path": "/etc/passwd"}),
        ("search_cancel", {"run_id": "m-../../x"}),
    ]
    async with served.in_memory() as client:
        for name, arguments in 10 * bad:
            await refused(client, name, **arguments)
        assert len((await client.list_tools()).tools) == len(TOOLS)


async def test_no_client_can_insist_on_code_that_is_not_confined(served: Served, mode: Mode) -> None:
    async with served.in_memory(mode) as client:
        for tool in (await client.list_tools()).tools:
            assert not [name for name in tool.input_schema["properties"] if "protect" in name]
            text = await refused(client, tool.name, unprotected=True)
            assert f"{tool.name} has no argument" in text
    assert least.INSIST not in os.environ


async def test_unknown_arguments_are_refused_by_name(served: Served, mode: Mode) -> None:
    wrong: tuple[tuple[str, dict[str, object], str], ...] = (
        (
            "measure_kernel",
            {"task": "toy.py", "path": "toy.cpp", "tunable": {"W": 1}},
            "'tunable'; did you mean tunables?",
        ),
        ("forecast_kernel", {"task": "toy.py", "path": "toy.cpp", "modle": "x"}, "'modle'; did you mean model?"),
        ("search", {"task": "toy.py", "max_measurements": 3}, "'max_measurements'; "),
        ("search_cancel", {"run": "r-1"}, "did you mean run_id?"),
        ("describe", {"x" * 1_000_000: 1, "ctx": 2}, "'ctx'"),
    )
    async with served.in_memory(mode) as client:
        for tool, arguments, says in wrong:
            text = await refused(client, tool, **arguments)
            assert f"{tool} has no argument" in text
            assert says in text
            assert "it takes " in text
            assert len(text) < 2000
        assert not [j for j in Spool(default_path().parent).jobs() if j.kind == "search"]


@pytest.mark.slow
async def test_search_of_an_autotuned_file_gives_its_configurations(served: Served) -> None:
    (served.workspace / "scale.py").write_text(autotuned_file.SOURCE)
    async with served.in_memory() as client:
        found = await call(client, "search", task="scale.py", target="a100")
        found = await ended(client, found)
        assert "no autotuned file" in await refused(client, "search", task="toy.py", target="a100")
    assert "A100" in found["device"]
    assert (found["status"], found["run_id"][:2], found.get("poll_after_s")) == ("finished", "v-", None)
    assert [t["kernel"] for t in found["tuned"]] == ["scale"]
    assert "+@triton.autotune(configs=[triton.Config(" in found["patch"]
    assert "forewarp tune" in found["summary"]


async def test_the_tuning_of_a_file_can_be_cancelled(served: Served) -> None:
    (served.workspace / "endless.py").write_text(autotuned_file.ENDLESS)
    async with served.in_memory() as client:
        begun = await call(client, "search", task="endless.py", deadline_s=1)
        assert (begun["status"], begun["run_id"][:2]) == ("running", "v-")
        cancelled = await call(client, "search_cancel", run_id=begun["run_id"])
        assert cancelled["status"] == "cancelled"
        again = await call(client, "search_cancel", run_id=begun["run_id"])
        assert again["summary"].startswith("It was over before.")
        assert "there is no job" in await refused(client, "search_status", run_id="v-00000000")


async def test_progress_counts_the_measurements_that_the_answer_tells(served: Served) -> None:
    heard: list[tuple[float, float | None, str]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message or ""))

    async with served.in_memory() as client:
        run = await call(client, "search", task="toy.py", budget=60, forecaster="none")
        while run.get("poll_after_s"):
            arguments = {"run_id": run["run_id"], "wait_s": 20}
            answer = await client.call_tool("search_status", arguments, progress_callback=hear)
            assert answer.structured_content is not None
            run = answer.structured_content
    spent, _, most = run["measurements"].partition(" of ")
    assert (int(spent), most) == (run["spent"]["measurements"], "60")
    counted = [(p, t, m) for p, t, m in heard if t is not None]
    assert all(t == 60 and f"after {int(p)} of 60 measurements" in m for p, t, m in counted)


async def test_a_search_says_what_is_wrong_with_its_seed(served: Served) -> None:
    (served.workspace / "torn.cpp").write_text('/*forewarp\ninputs = ["x"\n*/\n')
    async with served.in_memory(place=Place(device="cpu")) as client:
        text = await refused(client, "search", task="toy.py", seed_kernels=["torn.cpp"])
        torn = '/*forewarp\ninputs = ["x"\n*/\nextern "C" void f() {}\n'
        source = await refused(client, "search", task="toy.py", seed_kernels=[torn])
    assert "seed_kernels: the text: the launch plan is not valid TOML" in source
    assert "seed_kernels: torn.cpp: the launch plan is not valid TOML" in text


async def test_a_run_is_taken_up_again(served: Served) -> None:
    place = served.options.place
    budget = Amounts(measurements=3)
    request = SearchRequest(task=served.recorded.task, place=place, budget=budget, forecaster="none")
    with open_search(request) as job:
        run_id = job.run_id
    with Archive(default_path()) as archive:
        archive.set_status(run_id, "interrupted")
    async with served.in_memory() as client:
        done = await ended(client, await call(client, "search_resume", run_id=run_id))
        assert (done["run_id"], done["status"], done["measurements"]) == (run_id, "finished", "3 of 3")
        assert "is finished" in await refused(client, "search_resume", run_id=run_id)


async def test_a_text_is_a_seed_and_the_second_measurement_of_the_winner_is_told(served: Served) -> None:
    seed = (served.workspace / "toy.cpp").read_text()
    async with served.in_memory() as client:
        run = await call(client, "search", task="toy.py", seed_kernels=[seed], budget=4)
        while run.get("poll_after_s"):
            assert run["counts"].get("measured_again", 0) <= run["counts"]["measured"]
            run = await call(client, "search_status", run_id=run["run_id"], wait_s=1)
    counts = run["counts"]
    assert counts["measured"] + counts.get("measured_again", 0) == run["spent"]["measurements"] > 0
