"""CUDA extensions of a traced module: read in place of built, their kernels compiled for the target by NVRTC."""

from __future__ import annotations

import contextlib
import re
import types
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import torch

from forewarp.core.values import TensorSpec
from forewarp.gpu_runner.compilers import nvrtc
from forewarp.gpu_runner.compilers.cubin import codes
from forewarp.gpu_runner.compilers.process import CompileError
from forewarp.inspection.tracing.cuda_source import CudaSource, NotFollowed
from forewarp.inspection.tracing.host_code import HostCode, HostLaunch, KernelName
from forewarp.inspection.tracing.host_values import UNKNOWN
from forewarp.inspection.tracing.masquerade import replaced
from forewarp.inspection.tracing.recorder import Recorder
from forewarp.inspection.tracing.values import TracedLaunch

_FLAG = re.compile(r"-D\w|-U\w|-?-use_fast_math$|-?-fmad=|-?-ftz=|-?-prec-|-?-maxrregcount=|-?-std=|-?-extra-device")
_NEEDS_FULL = re.compile(
    r"\b(?:c10|at|torch|half2?|__half\w*|__nv_bfloat\w*|cub|cuda)\b|#\s*include\s*[<\"](?!math_constants)"
    r"|\bstd::(?!min|max|abs|exp|sqrt|pow|tanh|log|floor|ceil|u?int\d|size_t)"
)


_STUB = Path(__file__).parent / "device_stub.cuh"
_FULL = "#define FOREWARP_FULL\n"


class NotTraced(Exception):
    """The trace cannot go on past this point."""


class Extension(types.ModuleType):
    """Module that `load_inline` returns; its functions are followed in their source."""

    def __init__(self, name: str, device: DeviceCode, host: HostCode, outputs: Sequence[TensorSpec]) -> None:
        super().__init__(name)
        self._parts = (device, host, tuple(outputs))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        device, host, outputs = self._parts
        function = device.source.bindings.get(name, name)
        if function not in host.source.functions:
            raise AttributeError(f"the source of {self.__name__} defines no function {name} that could be followed")

        def call(*arguments: Any, **named: Any) -> Any:
            parameters = [n for n, _ in host.source.functions[function].parameters]
            given = [*arguments, *(named[n] for n in parameters[len(arguments) :] if n in named)]
            host.steps = 0
            try:
                result = host.call(function, given)
            except NotFollowed as e:
                device.recorder.note(f"{self.__name__}.{name}: {e}; launches may be missing")
                result = UNKNOWN
            return self._result(name, host.source.functions[function].returns, result, outputs)

        call.__name__ = name
        return call

    def _result(self, name: str, returns: str, result: Any, outputs: Sequence[TensorSpec]) -> Any:
        """Return the function's result; a tensor that cannot be told is taken to be the task's only output."""
        if result is not UNKNOWN and not (isinstance(result, list | tuple) and UNKNOWN in list(result)):
            return tuple(result) if isinstance(result, tuple) else result
        recorder = self._parts[0].recorder
        if returns.endswith("Tensor") and len(outputs) == 1:
            recorder.note(f"what {self.__name__}.{name} returns is taken to have the shape of the task's output")
            return torch.zeros(outputs[0].shape, dtype=getattr(torch, outputs[0].dtype))
        raise NotTraced(f"what {self.__name__}.{name} returns cannot be told from its source")


class DeviceCode:
    """The kernels of one extension, each compiled when it is first wanted."""

    def __init__(self, source: CudaSource, arch: str, flags: Sequence[str], recorder: Recorder) -> None:
        self.source, self.arch, self.recorder = source, arch, recorder
        exact = f"{arch}a" if any(f"{arch}a" in f for f in flags) else arch
        chosen = [f.replace("--", "-").replace("-", "--", 1) if not f.startswith(("-D", "-U")) else f for f in flags]
        chosen = [f for f in chosen if _FLAG.match(f)]
        if not any(f.startswith("--std") for f in chosen):
            chosen.append("--std=c++17")
        self.options = [f"--gpu-architecture={exact}", *chosen, *nvrtc.includes()]
        self._known: dict[str, tuple[str, str]] = {}

    def compiled(self, kernel: KernelName) -> tuple[str, str]:
        """Return a kernel's symbol and cubin file, two empty texts where the compiler refuses it: that is a problem."""
        name = f"{kernel.name}<{', '.join(kernel.arguments)}>" if kernel.arguments else kernel.name
        if name not in self._known:
            try:
                self._known[name] = self._compile(name)
            except CompileError as e:
                self.recorder.problem(f"{name} could not be compiled here: {_errors(str(e))}")
                self._known[name] = ("", "")
        return self._known[name]

    def _compile(self, name: str) -> tuple[str, str]:
        text = _STUB.read_text() + self.source.device
        lean = not _NEEDS_FULL.search(self.source.device) and "c10::" not in name
        try:
            image, symbols = nvrtc.compile_named(text if lean else _FULL + text, self.options, [name])
        except CompileError:
            if not lean:
                raise
            image, symbols = nvrtc.compile_named(_FULL + text, self.options, [name])
        if symbols[name] not in codes(image, self.arch):
            raise CompileError("the compiler left the kernel out")
        return symbols[name], self.recorder.keep(image)

    def launched(self, launch: HostLaunch) -> None:
        symbol, cubin = self.compiled(launch.kernel)
        if not launch.certain:
            self.recorder.note(f"whether {launch.kernel.name} is launched depends on what cannot be told")
        if launch.shared is None:
            self.recorder.note(f"the dynamic shared memory of {launch.kernel.name} cannot be told and is taken as 0")
        self.recorder.add(
            TracedLaunch(
                kernel=launch.kernel.name,
                symbol=symbol,
                cubin=cubin,
                grid=launch.grid,
                block=launch.block,
                shared=launch.shared or 0,
            )
        )

    def survey(self) -> None:
        """Record the launches of all host functions, on arguments of which nothing is known."""
        host = HostCode(self.source, self.launched)
        for name, function in self.source.functions.items():
            if not function.templates:
                with contextlib.suppress(NotFollowed):
                    host.call(name, [])


class Extensions:
    """Takes the place of torch's `load` and `load_inline`."""

    def __init__(self, arch: str, outputs: Sequence[TensorSpec], recorder: Recorder) -> None:
        self.arch, self.outputs, self.recorder = arch, outputs, recorder
        self.codes: list[DeviceCode] = []

    @contextlib.contextmanager
    def installed(self) -> Generator[None]:
        from torch.utils import cpp_extension

        changes: list[tuple[Any, str, Any]] = [
            (cpp_extension, "load_inline", self._load_inline),
            (cpp_extension, "load", self._load),
        ]
        with replaced(changes):
            yield

    def _load_inline(
        self,
        name: str,
        cpp_sources: Any = "",
        cuda_sources: Any = None,
        functions: Any = None,
        extra_cflags: Any = None,
        extra_cuda_cflags: Sequence[str] | None = None,
        **others: Any,
    ) -> Extension:
        del functions, extra_cflags, others
        texts = [*_texts(cpp_sources), *_texts(cuda_sources)]
        return self._extension(name, "\n".join(texts), extra_cuda_cflags or ())

    def _load(
        self, name: str, sources: Any, extra_cflags: Any = None, extra_cuda_cflags: Any = None, **others: Any
    ) -> Extension:
        del extra_cflags, others
        return self._extension(name, "\n".join(Path(p).read_text() for p in _texts(sources)), extra_cuda_cflags or ())

    def _extension(self, name: str, text: str, flags: Sequence[str]) -> Extension:
        # Host code reads macros as the text defines them, the last one of a name, and compilers have the flags' before.
        given = (f[2:].partition("=") for f in flags if f.startswith("-D"))
        defined = (f"#define {macro} {value or 1}" for macro, _, value in given)
        try:
            source = CudaSource.read("\n".join((text, *defined, "")))
        except NotFollowed as e:
            raise NotTraced(f"the source of {name} cannot be read: {e}") from None
        device = DeviceCode(source, self.arch, flags, self.recorder)
        self.codes.append(device)
        return Extension(name, device, HostCode(source, device.launched), self.outputs)

    def survey(self) -> None:
        """Record the launches that the sources show, for a module in which none could be followed."""
        for device in self.codes:
            device.survey()


def _errors(log: str) -> str:
    """Return the first errors of a compiler's log, without warnings."""
    lines = log.strip().splitlines()
    wrong = [i for i, line in enumerate(lines) if "error" in line][:3]
    return "\n".join(line for i in wrong for line in lines[i : i + 2]) or log[:500]


def _texts(sources: Any) -> list[str]:
    return [] if sources is None else [sources] if isinstance(sources, str) else [str(s) for s in sources]
