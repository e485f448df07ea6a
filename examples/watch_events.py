"""Seeing a run while it goes: a function gets each event, and may end the run by raising StopIteration."""

from typing import Any

import forewarp
from forewarp import events

ENOUGH = 1.5


def watch(event: events.Event) -> None:
    match event:
        case events.RunStarted():
            print(f"{event.run}: {event.task} on {event.target}")
        case events.Decided(decision=decision) if decision.action == "measure":
            print(f"  {event.kernel[:10]} is worth a measurement: {decision.reason}")
        case events.Measured(speedup=float(speedup)):
            print(f"  {event.kernel[:10]} {event.verdict}: {speedup:.3f}×, {event.spend.measurements} measured")
            if event.verdict == "faster" and speedup > ENOUGH:
                raise StopIteration
        case events.RunFinished():
            print(f"{event.status}: {event.reason}")
        case _:
            pass


def main(task: str = "softmax", **options: Any) -> forewarp.Run:
    return forewarp.optimize(task, budget=12, on_event=watch, progress=False, **options)


if __name__ == "__main__":
    print(main())
