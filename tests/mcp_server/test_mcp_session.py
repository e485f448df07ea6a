"""The benchmark's chat client, with a scripted model: it hands on what the server says, and keeps all of it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from support.served_mcp import Served

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "mcp_session.py"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("mcp_session", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "mcp_session", module)
    spec.loader.exec_module(module)
    return module


async def test_a_model_works_through_the_tools_alone(served: Served, benchmark: ModuleType) -> None:
    kernel = (served.workspace / "toy.cpp").read_text()
    steps = [
        [ToolCallPart("read_file", {"path": "toy.cpp"})],
        [ToolCallPart("write_file", {"path": "copy.cpp", "content": kernel}), ToolCallPart("read_file", {"path": "/"})],
        [ToolCallPart("forecast_kernel", {"task": "toy.py", "path": "copy.cpp"})],
        [ToolCallPart("forecast_kernel", {"task": "toy.py", "path": "nowhere.cpp"})],
        [ToolCallPart("describe", {})],
        [TextPart("done")],
    ]
    shown: list[str] = []

    def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1]
        assert isinstance(last, ModelRequest)
        assert {"read_file", "measure_kernel"} <= {t.name for t in info.function_tools}
        shown.extend(str(p.content) for p in last.parts if isinstance(p, ToolReturnPart))
        return ModelResponse(steps[sum(isinstance(m, ModelResponse) for m in messages)])

    async with served.in_memory() as client:
        instructions = client.instructions
        played = await benchmark.play(client, FunctionModel(script), "Make it faster.", served.workspace)
    calls = [c for t in played.turns for c in t.calls]
    assert played.ended
    assert played.system.endswith(instructions)
    assert [c.result for c in calls] == shown
    assert [c.failed for c in calls] == [False, False, True, False, True, False]
    assert shown[0] == kernel
    assert '"recommendation":"measure"' in shown[3]
    assert "nowhere.cpp" in shown[4]
    assert shown[5].startswith('{"summary":')
    held = [
        benchmark.Call("measure_kernel", {}, f'{{"run_id": "m-1", "device_s": {s}}}', False, 1.0, 9) for s in (2.0, 3.0)
    ]
    held.append(benchmark.Call("search_status", {}, '{"run_id": "r-1", "spent": {"device_s": 4.0}}', False, 1.0, 9))
    assert benchmark.device_seconds(held) == {"m-1": 3.0, "r-1": 4.0}
    found = benchmark.totals(played, 1.0)
    assert found["calls"] == {"read_file": 2, "write_file": 1, "forecast_kernel": 2, "describe": 1}
    assert found["tokens_per_answer"]["max"] == max(c.tokens for c in calls[3:])
