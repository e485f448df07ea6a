"""A proposer of one's own: any object with a name and `propose`. This one changes one tunable at a time.

All that it may remember is in `known`, so that a run that was killed goes on as if it had not been.
"""

import random
from typing import Any

import forewarp
from forewarp.gpu_runner.formats import plan


class OneByOne:
    """Tries every other choice of each tunable in turn, all else as in the best kernel so far."""

    name = "one-by-one"

    def propose(
        self, task: forewarp.Task, target: forewarp.Target, known: forewarp.Known, count: int, rng: random.Random
    ) -> list[forewarp.Proposal]:
        """Return at most `count` candidates that are not in `known.seen`; none ends the run."""
        good = [t for t in known.trials if t.measurement.trusted]
        best = max(good, key=lambda t: t.measurement.speedup or 0.0).subject.candidate if good else task.seeds[0]
        made: list[forewarp.Proposal] = []
        for tunables in plan.parse(best).combinations():
            changed = [f"{name} = {value}" for name, value in tunables.items() if value != best.tunables[name]]
            candidate = forewarp.Candidate(best.source, best.language, tunables)
            if len(changed) < 2 and candidate.sha256 not in known.seen:
                made.append(forewarp.Proposal(candidate, self.name, best.sha256 if good else "", "".join(changed)))
        return made[:count]


def main(task: str = "softmax", device: str = "cpu", **options: Any) -> forewarp.Run:
    result = forewarp.optimize(task, proposer=OneByOne(), device=device, language="cpp", budget=8, **options)
    for line in result.candidates:
        if line.measured:
            print(line.note or "the seed", line.measured.speedup or line.measured.status)
    print(result)
    return result


if __name__ == "__main__":
    main()
