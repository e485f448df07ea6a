"""The chat: items of the conversation, of which only those near the visible part are mounted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.geometry import Size
from textual.message import Message
from textual.widgets import Static

from forewarp.agent.candidates import Candidates
from forewarp.agent.events import Answered, ApprovalAsked, ConversationEvent, Failed, Interrupted
from forewarp.agent.tui.items import CallItem, FailedItem, Item, Items, MarkdownItem
from forewarp.agent.tui.markdown import Prose
from forewarp.agent.tui.timers import after

WINDOW = 40
"""Most items that are mounted when a long conversation is opened, and once more with each scroll further back."""

SCREENS = 2
"""Screens of text that are mounted at first: a turn of the model is dozens of widgets, and each takes milliseconds."""

FRAME_S = 0.08
"""Seconds within which events are drawn together."""

PAUSE, LONGEST_PAUSE_S = 4.0, 2.0
"""Times what a drawing took until the next one: a long block that grows is parsed and laid out anew each time."""

OUT_OF_SIGHT = 2
"""Most new items that are mounted at once below the visible part."""

LINE = 80
"""Characters of a line, to guess how many lines a text has before it is laid out."""

TICK_S = 1.0
"""Seconds between updates of a running tool's time."""


class Block(Static):
    """An item that is drawn as a whole whenever it changed; Enter or a click unfolds one that can be folded."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,space", "unfold", "Unfold", show=False)]

    def __init__(self, item: Item, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(markup=False, classes=f"block {item.classes}")
        self.item, self._clock = item, clock
        self.can_focus = item.foldable

    def redraw(self) -> None:
        self.update(self.item.draw(self.content_size.width, self._clock()))

    def on_resize(self) -> None:
        self.redraw()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the item in this width: what it shows was drawn for the width before."""
        return self.item.draw(width, self._clock()).get_height({}, width) if width else 0

    def action_unfold(self) -> None:
        self.item.expanded = not self.item.expanded
        self.redraw()

    def on_click(self) -> None:
        if self.item.foldable and not self.screen.get_selected_text():
            self.action_unfold()


class MarkdownBlock(Prose):
    """The model's words, or Markdown of forewarp's own."""

    def __init__(self, item: MarkdownItem) -> None:
        title = "**Summary of the conversation so far**\n\n" if item.own == "compacted" else ""
        super().__init__(title + item.text, classes=f"block {item.own or item.classes}")
        self.item = item

    async def redraw(self) -> None:
        if not self.item.own:
            await self.follow(self.item.text)


class Chat(VerticalScroll):
    """Shows items; stays at the end unless the user scrolled up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("end", "latest", "Latest", show=False),
        Binding("home", "oldest", "Oldest", show=False),
        Binding("pageup", "back", "Page up", show=False),
        Binding("pagedown", "page_down", "Page down", show=False),
    ]

    @dataclass
    class Behind(Message):
        """New items stand below the visible part, or no longer do."""

        behind: bool

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, id: str | None = None) -> None:
        super().__init__(id=id)
        self.items = Items(clock)
        self._first = 0
        self._blocks: dict[Item, Block | MarkdownBlock] = {}
        self._changed: dict[Item, None] = {}
        self._due: asyncio.TimerHandle | None = None
        self._pausing = self._behind = False
        self._took = 0.0
        self._mounting = asyncio.Lock()

    def on_mount(self) -> None:
        """Follow the end, and keep the running time of tools up to date."""
        self.anchor()
        self.set_interval(TICK_S, lambda: self._change(self.items.running.values()))

    @property
    def mounted_items(self) -> list[Item]:
        """The items that have a widget, in order."""
        return [i for i in self.items.all if i in self._blocks]

    def open(self, past: Iterable[ConversationEvent]) -> None:
        candidates = Candidates()
        for event in past:
            candidates.apply(event)
            self.items.apply(event, candidates)
        self._schedule()

    def take(self, event: ConversationEvent, candidates: Candidates) -> None:
        """Handle an event that `candidates` knows already; it is drawn with the next frame."""
        self._change(
            self.items.apply(event, candidates), soon=isinstance(event, Answered | ApprovalAsked | Failed | Interrupted)
        )

    def note(self, text: str) -> None:
        """Show Markdown that is no part of the conversation."""
        self._change(self.items.add(MarkdownItem(text, "note", done=True)))

    def fail(self, message: str, hint: str) -> None:
        """Show an error that is no part of the conversation."""
        self._change(self.items.add(FailedItem(message, hint)))

    def _change(self, items: Iterable[Item], *, soon: bool = False) -> None:
        changed = dict.fromkeys(items)
        if changed:
            self._changed |= changed
            self._schedule(soon=soon)

    def _schedule(self, *, soon: bool = False) -> None:
        if soon and self._due is not None and self._pausing:
            self._due.cancel()
            self._due = None
        if self._due is None:
            pause_s = FRAME_S if soon else min(max(FRAME_S, PAUSE * self._took), LONGEST_PAUSE_S)
            self._due, self._pausing = after(self, pause_s, self._draw), not soon

    async def _draw(self) -> None:
        async with self._mounting:
            self._due, began = None, time.perf_counter()
            changed, self._changed = self._changed, {}
            items = self.items.all
            known = next((n for n in range(len(items) - 1, -1, -1) if items[n] in self._blocks), self._first - 1)
            new = items[known + 1 :]
            with self.app.batch_update():
                for item in changed:
                    match self._blocks.get(item):
                        case Block() as block:
                            block.redraw()
                        case MarkdownBlock() as block:
                            await block.redraw()
                        case None:
                            pass
                if self._scrolled_up:
                    await self.mount_all(self._widget(i) for i in new[:OUT_OF_SIGHT])
                    if len(new) > OUT_OF_SIGHT:
                        self._schedule()
                elif len(self._blocks) + len(new) > 3 * WINDOW or sum(map(_lines, new)) > self._most_lines:
                    await self._show_latest()
                elif new:
                    await self.mount_all(self._widget(i) for i in new)
            self._tell(bool(new or changed))
            self.call_after_refresh(self._note_time, began)

    def _note_time(self, began: float) -> None:
        self._took = time.perf_counter() - began

    async def _show_latest(self) -> None:
        await self.remove_children()
        self._blocks.clear()
        self._first, lines = len(self.items.all), 0
        while self._first > max(0, len(self.items.all) - WINDOW) and lines < self._most_lines:
            self._first -= 1
            lines += _lines(self.items.all[self._first])
        await self.mount_all([self._header(), *(self._widget(i) for i in self.items.all[self._first :])])
        self.anchor()

    def _widget(self, item: Item) -> Block | MarkdownBlock:
        made = MarkdownBlock(item) if isinstance(item, MarkdownItem) else Block(item, self.items.clock)
        self._blocks[item] = made
        return made

    def _header(self) -> Static:
        header = Static(f"↑ {self._first} earlier · PageUp loads them", markup=False, classes="earlier")
        header.display = self._first > 0
        return header

    async def _load_earlier(self, lines_up: int | None) -> None:
        """Mount earlier items; visible ones move down by so many lines, out of sight if that is None."""
        async with self._mounting:
            if self._first <= 0:
                return
            first = max(0, self._first - WINDOW)
            above, self._first = self.items.all[first : self._first], first
            height, y = self.virtual_size.height, self.scroll_y
            self.release_anchor()
            with self.app.batch_update():
                await self.query(".earlier").remove()
                before = self.children[0] if self.children else None
                await self.mount_all([self._header(), *(self._widget(i) for i in above)], before=before)

            def stay() -> None:
                at = 0 if lines_up is None else y + self.virtual_size.height - height - lines_up
                self.scroll_to(y=at, animate=False, immediate=True)

            self.call_after_refresh(stay)

    def action_latest(self) -> None:
        self.anchor()
        self.scroll_end(animate=False)
        self._tell(False)

    async def action_oldest(self) -> None:
        """Go to the first block that is mounted; from there, mount more."""
        if self.scroll_offset.y <= 0:  # negative where the content is shorter than a page
            await self._load_earlier(None)
        else:
            self.scroll_home(animate=False)

    async def action_back(self) -> None:
        """Scroll up by a page; at the top, mount more."""
        if self.scroll_offset.y <= 0:
            await self._load_earlier(self.container_size.height)
        else:
            self.scroll_page_up(animate=False)

    async def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Mount more where the wheel comes to the top."""
        if self.scroll_offset.y <= 0:
            await self._load_earlier(2)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Note when the end comes into sight again."""
        super().watch_scroll_y(old_value, new_value)
        if not self._scrolled_up:
            self._tell(False)

    def clear(self) -> None:
        self._blocks.clear()
        self._first = len(self.items.all)
        self.remove_children()

    def toggle(self) -> None:
        """Unfold all tool calls in reach, or fold them if they are."""
        calls = [b for b in self._blocks.values() if isinstance(b.item, CallItem) and isinstance(b, Block)]
        unfold = not all(block.item.expanded for block in calls)
        for block in calls:
            if block.item.expanded != unfold:
                block.action_unfold()

    @property
    def _most_lines(self) -> int:
        return SCREENS * self.app.size.height

    @property
    def _scrolled_up(self) -> bool:
        return self.scroll_offset.y < self.max_scroll_y - 1 and self._anchor_released

    def _tell(self, news: bool) -> None:
        behind = self._scrolled_up and (news or self._behind)
        if behind != self._behind:
            self._behind = behind
            self.post_message(self.Behind(behind))


def _lines(item: Item) -> int:
    """Return about how many lines an item has."""
    return item.text.count("\n") + len(item.text) // LINE + 1 if isinstance(item, MarkdownItem) else 1
