"""Pictures of the terminal agent for the README and `docs/terminal.md`.

    python benchmarks/pictures.py

Nothing is drawn by hand: the agent runs on the replay device over `results/pool_h200.parquet`, so that every measured
figure was measured on an H200 once; what the model says and calls is a script, and the pictures' titles say so. An SVG
loads nothing: it names fonts that its reader has.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from textual.pilot import Pilot

from forewarp.agent.candidates import Candidates
from forewarp.agent.conversation import Conversation
from forewarp.agent.settings import Settings
from forewarp.agent.tui.app import ForewarpApp
from forewarp.agent.tui.approval import Approvals
from forewarp.agent.tui.candidates import CandidatesPane
from forewarp.agent.tui.plots import PlotsPane
from forewarp.agent.tui.prompt import History
from forewarp.agent.tui.themes import DARK, LIGHT
from forewarp.tools.parts import Amounts, Place

HERE = Path(__file__).parent
POOL = HERE / "results" / "pool_h200.parquet"
TASK, BUDGET = "layernorm_gelu", 16
PROMPT = f"Which launch parameters make {TASK} fastest on the H200? Spend at most {BUDGET} measurements."
AGAIN = "Measure the best one once more."
TITLE = "forewarp: scripted model, replayed H200 measurements"
FONTS = 'ui-monospace, "SFMono-Regular", Menlo, Consolas, "DejaVu Sans Mono", monospace'
SIZES = {"": (140, 36), "-80": (80, 30)}
"""Ends of the pictures' names, each with the columns and rows of its terminal."""
PATIENCE_S = 180.0
DOWN = 45
"""Lines from the top of a candidate, which says what can be tuned, to its first kernel."""


def script(board: Candidates) -> FunctionModel:
    """A model that searches, says what the search said, and later would measure the best one again."""

    def call(tool: str, **arguments: object) -> DeltaToolCalls:
        return {0: DeltaToolCall(name=tool, json_args=json.dumps(arguments), tool_call_id=tool)}

    async def stream(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        parts = [p for m in messages if isinstance(m, ModelRequest) for p in m.parts]
        found = [p for p in parts if isinstance(p, ToolReturnPart)]
        best = board.best()
        if not found:
            yield "The seed kernels have tunables for this. I search them; only what is forecast to pay is measured."
            yield call("search", task=TASK, budget=BUDGET)
        elif isinstance(parts[-1], UserPromptPart) and best is not None:
            f = best.forecast
            yield call(
                "measure_kernel", task=TASK, source=f.source, tunables=f.tunables, insist="the user asked for it"
            )
        else:
            result = found[-1].content
            assert isinstance(result, dict)
            for word in str(result["summary"]).split(" "):
                yield f"{word} "

    return FunctionModel(stream_function=stream, model_name="scripted")


async def take(out: Path) -> None:
    """Run the conversation, and write a picture of each view in both themes and in both sizes."""

    async def save(name: str, sizes: Mapping[str, tuple[int, int]] = SIZES) -> None:
        for end, size in sizes.items():
            await pilot.resize_terminal(*size)
            for theme in (DARK, LIGHT):
                app.theme = theme.name
                await pilot.pause(0.5)
                path = out / f"{name}-{theme.name.removeprefix('forewarp-')}{end}.svg"
                path.write_text(alone(app.export_screenshot(title=TITLE)))
                print(f"{path.name}  {path.stat().st_size / 1000:.0f} kB")
        await pilot.resize_terminal(*SIZES[""])
        await pilot.pause(0.3)

    async def asked(prompt: str) -> None:
        await pilot.press("f2", *prompt, "enter")
        await until(pilot, lambda: app.query_one(Approvals).current is not None)
        await pilot.pause(Approvals.GRACE_S)

    work = Path(tempfile.gettempdir()) / "kernels"  # its name is in the pictures
    work.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(device="replay", pool=str(POOL), archive=f"{folder}/archive.db")
        budget = Amounts(measurements=BUDGET + 4)
        talk = Conversation(Settings(place=place, folder=work, task=TASK, budget=budget))
        talk.settings = replace(talk.settings, model=script(talk.candidates))
        app = ForewarpApp(talk, history=History(lambda: Path(folder) / "prompts.jsonl"))
        async with app.run_test(size=SIZES[""]) as pilot:
            await asked(PROMPT)
            await pilot.press("y")
            await until(pilot, lambda: not talk.busy)
            table, best = app.query_one(CandidatesPane), talk.candidates.best()
            assert best is not None
            await pilot.press("f3", "m")
            table.select(best)
            await save("candidates", {"-80": SIZES["-80"]})  # a wide terminal shows them beside the chat
            await pilot.press("f2")
            await save("chat")
            await pilot.press("f3", "enter", *("down" for _ in range(DOWN)))
            await save("source")
            same = [
                r for r in talk.candidates.measured() if r is not best and r.forecast.source == best.forecast.source
            ]
            await pilot.press("f3")
            table.select(same[0])
            await pilot.press("enter", "b")
            await save("difference")
            await pilot.press("f5")
            await until(pilot, lambda: app.query_one(PlotsPane).text.startswith(TASK))
            await save("plots")
            await pilot.press("f3")
            table.select(best)
            await asked(AGAIN)
            await save("approval")


async def until(pilot: Pilot[int], came: Callable[[], bool]) -> None:
    """Wait for something to happen."""
    for _ in range(int(PATIENCE_S / 0.1)):
        if came():
            await pilot.pause()
            return
        await asyncio.sleep(0.1)
    raise SystemExit("it did not happen")


def alone(svg: str) -> str:
    """Return the SVG without the fonts that it would load."""
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)
    svg = re.sub(r"font-family:\s*[^;]*Fira Code[^;]*;", f"font-family: {FONTS};", svg)
    svg = svg.replace("font-family: arial;", "font-family: Arial, sans-serif;")
    assert "url(http" not in svg
    assert "Fira" not in svg
    return svg


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs" / "pictures")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    asyncio.run(take(args.out))


if __name__ == "__main__":
    main()
