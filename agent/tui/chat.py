"""The chat: items of the conversation, of which only those near the visible part are mounted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from forewarp.agent.events import Event
from forewarp.agent.tui.blocks import Block, CallBlock, block, refresh
from forewarp.agent.tui.items import Fold, Item, Note, ToolCallItem
from forewarp.agent.tui.prose import Pages

WINDOW = 40
"""Blocks that are mounted when a long conversation is opened, and once more with each scroll further back."""

FRAME_S = 0.08
"""Seconds within which events are drawn together."""

TICK_S = 1.0
"""Seconds between updates of a running tool's time."""


class Earlier(Static):
    """Line that says how many earlier items are not mounted."""


class Chat(VerticalScroll):
    """Shows items; stays at the end unless the user scrolled up."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("end", "latest", "Latest", show=False),
        Binding("home", "oldest", "Oldest", show=False),
        Binding("pageup", "back", "Page up", show=False),
        Binding("pagedown", "forth", "Page down", show=False),
    ]

    class Behind(Message):
        """Message that new items stand below the visible part, or no longer do."""

        def __init__(self, behind: bool) -> None:
            super().__init__()
            self.behind = behind

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, id: str | None = None) -> None:
        super().__init__(id=id)
        self.fold = Fold(clock)
        self._clock = clock
        self._first = 0
        self._blocks: dict[Item, Widget] = {}
        self._changed: dict[Item, None] = {}
        self._due = self._behind = False
        self._mounting = asyncio.Lock()

    def on_mount(self) -> None:
        """Follow the end, and keep the running time of tools up to date."""
        self.anchor()
        self.set_interval(TICK_S, self._tick)

    @property
    def mounted_items(self) -> list[Item]:
        """The items that have a widget, in order."""
        return [i for i in self.fold.items if i in self._blocks]

    @property
    def _left(self) -> bool:
        return self.scroll_offset.y < self.max_scroll_y - 1 and self._anchor_released

    @property
    def _at_top(self) -> bool:
        # Content shorter than a page stands at the bottom, with a negative scroll offset.
        return self.scroll_offset.y <= 0

    def open(self, past: Iterable[Event]) -> None:
        """Load a recorded conversation; only its end is mounted."""
        for event in past:
            self.fold.apply(event)
        self._schedule()

    def take(self, event: Event) -> None:
        """Handle an event; it is drawn with the next frame."""
        self._change(self.fold.apply(event))

    def note(self, text: str, *, failed: bool = False, hint: str = "") -> None:
        """Show a message that is no part of the conversation."""
        self._change(self.fold.add(Note(text, "failed" if failed else "note", hint)))

    def _change(self, items: Iterable[Item]) -> None:
        changed = dict.fromkeys(items)
        if changed:
            self._changed |= changed
            self._schedule()

    def _schedule(self) -> None:
        if not self._due:
            self._due = True
            self.set_timer(FRAME_S, self.draw)

    async def draw(self) -> None:
        """Mount new items, and draw changed ones again."""
        async with self._mounting:
            await self._draw()

    async def _draw(self) -> None:
        self._due = False
        changed, self._changed = self._changed, {}
        items = self.fold.items
        known = next((n for n in range(len(items) - 1, -1, -1) if items[n] in self._blocks), self._first - 1)
        new = items[known + 1 :]
        with self.app.batch_update():
            for item in changed:
                if item in self._blocks:
                    refresh(self._blocks[item])
            if len(new) > WINDOW:
                await self._begin_at(len(items) - WINDOW)
            elif new:
                await self.mount_all(self._widget(i) for i in new)
                if not self._left:
                    await self._prune()
        self._tell(bool(new or changed))

    def _widget(self, item: Item) -> Widget:
        self._blocks[item] = widget = block(item, self._clock)
        return widget

    async def _begin_at(self, first: int) -> None:
        """Mount from this item on, in place of what is mounted."""
        await self.remove_children()
        self._blocks.clear()
        self._first = first
        await self.mount_all([self._header(), *(self._widget(i) for i in self.fold.items[first:])])
        self.anchor()

    async def _prune(self) -> None:
        """Unmount items that scrolled far out of sight."""
        if len(self._blocks) <= 3 * WINDOW:
            return
        self._first = len(self.fold.items) - WINDOW
        kept = set(self.fold.items[self._first :])
        gone = [i for i in self._blocks if i not in kept]
        await self.remove_children([self._blocks.pop(i) for i in gone])
        await self.query(Earlier).remove()
        await self.mount(self._header(), before=0)

    def _header(self) -> Earlier:
        header = Earlier(f"↑ {self._first} earlier · PageUp loads them", markup=False)
        header.display = self._first > 0
        return header

    async def load_earlier(self, up: int | None = 0) -> None:
        """Mount earlier items; visible ones move down by `up` lines, out of sight if that is None."""
        async with self._mounting:
            if self._first > 0:
                await self._load_earlier(up)

    async def _load_earlier(self, up: int | None) -> None:
        first = max(0, self._first - WINDOW)
        above = self.fold.items[first : self._first]
        self._first = first
        height, y = self.virtual_size.height, self.scroll_y
        self.release_anchor()
        with self.app.batch_update():
            await self.query(Earlier).remove()
            oldest = self.children[0] if self.children else None
            await self.mount_all([self._header(), *(self._widget(i) for i in above)], before=oldest)

        def stay() -> None:
            at = 0 if up is None else y + self.virtual_size.height - height - up
            self.scroll_to(y=at, animate=False, immediate=True)

        self.call_after_refresh(stay)

    async def go(self, key: str) -> None:
        """Scroll by a key that was pressed in another widget."""
        match key:
            case "pageup":
                await self.action_back()
            case "pagedown":
                self.action_forth()
            case "end" | "ctrl+end":
                self.action_latest()
            case _:
                await self.action_oldest()

    def action_latest(self) -> None:
        """Go to the end, and follow from there."""
        self.anchor()
        self.scroll_end(animate=False)
        self._tell(False)

    async def action_oldest(self) -> None:
        """Go to the first block that is mounted; from there, mount more."""
        if self._at_top:
            await self.load_earlier(None)
        else:
            self.scroll_home(animate=False)

    async def action_back(self) -> None:
        """Scroll up by a page; at the top, mount more."""
        if self._at_top:
            await self.load_earlier(self.container_size.height)
        else:
            self.scroll_page_up(animate=False)

    def action_forth(self) -> None:
        """Scroll down by a page."""
        self.scroll_page_down(animate=False)

    async def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Mount more where the wheel comes to the top."""
        if self._at_top:
            await self.load_earlier(2)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Note when the end comes into sight again."""
        super().watch_scroll_y(old_value, new_value)
        if not self._left:
            self._tell(False)

    def clear(self) -> None:
        """Clear the view; later items are shown from the top."""
        self._blocks.clear()
        self._first = len(self.fold.items)
        self.remove_children()

    def toggle(self) -> None:
        """Unfold all tool calls in reach, or fold them if they are."""
        calls = [w for i, w in self._blocks.items() if isinstance(i, ToolCallItem)]
        unfold = not all(w.item.expanded for w in calls if isinstance(w, CallBlock))
        for widget in calls:
            if isinstance(widget, CallBlock) and widget.item.expanded != unfold:
                widget.unfold()
                widget.redraw()

    def recolour(self) -> None:
        """Draw all text anew after a change of theme."""
        for widget in self._blocks.values():
            if isinstance(widget, Pages | Block):
                widget.redraw()

    def _tick(self) -> None:
        for call in self.fold.running.values():
            if call in self._blocks:
                refresh(self._blocks[call])

    def _tell(self, news: bool) -> None:
        behind = self._left and (news or self._behind)
        if behind != self._behind:
            self._behind = behind
            self.post_message(self.Behind(behind))
