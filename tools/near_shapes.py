"""Results of the winner on shapes that nobody tuned for."""

from __future__ import annotations

from pydantic import Field

from forewarp.core.values import Verdict
from forewarp.search.holdout import Holdout, HoldoutShape
from forewarp.tools.parts import Interval, Part


class NearShape(Part):
    """The winner on one shape that nobody tuned for; `status` may also be not_applicable or not_measured."""

    name: str
    origin: str = Field(description="The workload that it was made from.")
    status: str
    verdict: Verdict | None
    speedup: Interval | None
    log: str

    @staticmethod
    def of(shape: HoldoutShape) -> NearShape:
        """Convert one shape of a holdout."""
        s = shape
        timed = s.speedup is not None and s.low is not None and s.high is not None
        return NearShape(
            name=s.name,
            origin=s.origin,
            status=s.status,
            verdict=s.verdict,
            speedup=Interval(ratio=s.speedup or 0.0, low=s.low or 0.0, high=s.high or 0.0) if timed else None,
            log=s.log,
        )


class NearShapes(Part):
    """Results of the winner on shapes that nobody tuned for, and whether it holds there."""

    generalises: str = Field(description="yes, no, partly or unknown.")
    said: str
    shapes: list[NearShape]

    @staticmethod
    def of(holdout: Holdout) -> NearShapes:
        """Convert the result of a holdout."""
        shapes = [NearShape.of(s) for s in holdout.shapes]
        return NearShapes(generalises=holdout.generalises, said=holdout.said, shapes=shapes)
