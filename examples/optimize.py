"""The whole thing in ten lines: look for a faster kernel, see what came of it, keep it."""

from typing import Any

import forewarp


def main(task: str = "softmax", folder: str = "out", **options: Any) -> None:
    result = forewarp.optimize(task, budget=12, **options)
    print(result.summary)
    for line in result.candidates:
        if line.measured and line.forecast:
            print(line.kernel.short, line.kernel.tunables, line.forecast.median, "→", line.measured.speedup)
    if result.best:
        print(result.best.source)
    print(*result.save(folder).values(), sep="\n")


if __name__ == "__main__":
    main()  # without a GPU, a compiler and torch: main("gelu_bias", device="replay")
