"""A candidate's facts in a few lines, for a language model to read."""

from __future__ import annotations

from collections.abc import Mapping

from forewarp.surrogate.reference import ReferenceTime

_LITTLE = 0.02


_KERNEL = "kernel."


def lines(facts: Mapping[str, float], reference: ReferenceTime | None = None) -> list[str]:
    """Return facts as sentences for a GPU's kernels, a line for each of several, else as one list."""
    if "registers" not in facts or "instructions" not in facts:
        said = ", ".join(f"{name} = {_number(value)}" for name, value in sorted(facts.items()))
        return [said] if said else []
    found = [_launch(facts), _resources(facts), _instructions(facts)]
    if "floor_s" in facts:
        # Only matrix products and convolutions are counted, so that a zero says nothing.
        work = facts.get("flops_per_byte", 0)
        per_byte = f"; {_number(work)} operations per byte" if work else ""
        most = f", at which S would be {_number(reference.mean_s / facts['floor_s'])}" if reference else ""
        found.append(f"Roofline floor {_number(facts['floor_s'] * 1e6)} µs{most}{per_byte}")
    return [*(line for line in found if line), *_kernels(facts)]


def _kernels(facts: Mapping[str, float]) -> list[str]:
    """Return a line for each kernel of a module, in the order of the facts."""
    kernels: dict[str, dict[str, float]] = {}
    for key, value in facts.items():
        if key.startswith(_KERNEL):
            name, _, fact = key.removeprefix(_KERNEL).rpartition(".")
            kernels.setdefault(name, {})[fact] = value
    return [f"Kernel {name}: {', '.join(_of_kernel(own))}" for name, own in kernels.items()]


def _of_kernel(own: Mapping[str, float]) -> list[str]:
    found = [f"{_number(own['times'])} times"] if own.get("times", 1) != 1 else []
    if "threads" in own:
        blocks = f"{_number(own['blocks'])} blocks" if "blocks" in own else "an unknown number of blocks"
        found.append(f"{blocks} of {_number(own['threads'])} threads")
    found.append(f"{_number(own.get('registers', 0))} registers")
    found.append(f"{_number(own.get('shared_bytes', 0))} bytes of shared memory")
    if own.get("stack_bytes"):
        found.append(f"{_number(own['stack_bytes'])} bytes of local memory a thread")
    if "occupancy" in own:
        found.append(f"occupancy {own['occupancy']:.0%}")
    found.append(f"{_number(own.get('instructions', 0))} instructions")
    if "argument_bytes" in own:
        found.append(f"tensors of {_number(own['argument_bytes'] / 1e6)} MB")
    return found


def _launch(facts: Mapping[str, float]) -> str:
    count = facts.get("launches", 1)
    text = "1 launch" if count == 1 else f"{_number(count)} launches"
    if facts.get("calls"):
        text += f" and {_number(facts['calls'])} library calls"
    if "blocks" in facts and "threads" in facts:
        text += f"; the main one has {_number(facts['blocks'])} blocks of {_number(facts['threads'])} threads"
    if "waves" in facts:
        text += f", {_number(facts['waves'])} waves, {facts.get('tail', 0):.0%} idle in the tail"
    if "argument_bytes" in facts:
        text += f"; the launches get tensors of {_number(facts['argument_bytes'] / 1e6)} MB in all"
    if "bytes_per_thread" in facts:
        text += f"; the task has {_number(facts['bytes_per_thread'])} bytes a thread"
    return text


def _resources(facts: Mapping[str, float]) -> str:
    local = facts.get("stack_bytes", 0)
    return (
        f"{_number(facts['registers'])} registers, {_number(facts.get('shared_bytes', 0))} bytes of shared memory, "
        f"{f'{_number(local)} bytes of local memory a thread' if local else 'no local memory'}"
        + (f", occupancy {facts['occupancy']:.0%}" if "occupancy" in facts else "")
    )


def _instructions(facts: Mapping[str, float]) -> str:
    mix = {name[4:]: share for name, share in facts.items() if name.startswith("mix.")}
    shown = [f"{n.replace('_', ' ')} {s:.0%}" for n, s in sorted(mix.items(), key=lambda p: -p[1]) if s >= _LITTLE]
    # Rare, but they decide: a single tensor-core instruction does thousands of operations.
    shown += [f"{n.replace('_', ' ')} {s:.1%}" for n, s in mix.items() if s < _LITTLE and n in ("tensor", "atomic")]
    text = f"{_number(facts['instructions'])} instructions, {facts.get('loop_share', 0):.0%} of them in loops: "
    text += ", ".join(shown)
    for name, label in (("width.global_load", "loads"), ("width.global_store", "stores")):
        if name in facts:
            text += f"; global {label} of {_number(facts[name])} bits on average"
    return text


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
