"""Triton's own interpreter, with its number formats and its memory replaced. Nothing outside knows its insides.

Numpy has no bf16, so the interpreter computes with its 16 bits as if they were integers; here they are fp32 values,
rounded after each operation. Loads, stores and atomics go through `Memory`. Reductions and scans with a function of the
candidate's own are done on whole arrays instead of element by element. Everything is put in place once per process.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np

from forewarp.inspection.emulation.interpreter import reductions
from forewarp.inspection.emulation.interpreter.builder import Unsupported, builder_class
from forewarp.inspection.emulation.interpreter.memory import Memory
from forewarp.inspection.emulation.interpreter.numerics import AnyArray

KNOWN = ("3.6", "3.7")
"""Versions of Triton whose interpreter this module fits."""


def install(memory: Memory) -> Kernels:
    """Have the interpreter work on `memory`, set by `TRITON_INTERPRET=1` before Triton came; raises `Unsupported`."""
    version = importlib.metadata.version("triton")
    if not version.startswith(tuple(f"{v}." for v in KNOWN)):
        raise Unsupported(
            f"Triton {version} is installed, and only the interpreters of Triton {' and '.join(KNOWN)} are known here"
        )
    # Typed as anything, because what is changed here is private.
    triton, interpreter = (importlib.import_module(n) for n in ("triton", "triton.runtime.interpreter"))
    if not triton.knobs.runtime.interpret:
        raise Unsupported("this process was not started to interpret kernels (TRITON_INTERPRET=1)")
    _number_formats(interpreter)
    builder = interpreter.interpreter_builder
    builder.__class__ = builder_class(interpreter)
    # Kernels are compiled without a check of each sum and product for overflow.
    builder.options = interpreter.InterpreterOptions(sanitize_overflow=False)
    builder.memory = memory
    _quicker()
    _language(interpreter)
    _loops(interpreter)
    reductions.install(interpreter)
    return Kernels(interpreter, memory)


class Kernels:
    """Calls kernels of a candidate, one program at a time."""

    def __init__(self, interpreter: Any, memory: Memory) -> None:
        self._interpreter, self._memory = interpreter, memory
        self._builder: Any = interpreter.interpreter_builder
        self._pointer: Callable[..., Any] = _nothing

    def find(self, module: ModuleType, name: str) -> Any:
        """Return a kernel of a module by name; raises `Unsupported`, or LookupError where there is none."""
        kernel = getattr(module, name, None)
        if isinstance(kernel, self._interpreter.InterpretedFunction):
            return kernel
        if kernel is None:
            raise LookupError(f"the launch plan names {name!r}, which the source does not define")
        raise LookupError(f"{name!r} is no @triton.jit function by itself")

    def parameters(self, kernel: Any) -> list[tuple[str, bool, Any]]:
        """Return name, whether it is a constexpr, and default (`None` for none) of each parameter of a kernel."""
        import inspect

        found: list[tuple[str, bool, Any]] = []
        for parameter in inspect.signature(kernel.fn).parameters.values():
            annotation = parameter.annotation
            named = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
            constant = "constexpr" in named
            default = None if parameter.default is inspect.Parameter.empty else parameter.default
            found.append((parameter.name, constant, default))
        return found

    def pointer(self, address: int, element: str) -> Any:
        """Return an address as a kernel's argument; `element` is Triton's name of what it points to, such as "fp32"."""
        import triton.language as tl

        kind = tl.pointer_type(tl.dtype(element))
        handle = self._interpreter.TensorHandle(np.array([address], np.uint64), kind)
        return tl.tensor(handle, kind)

    def number(self, value: float, kind: str) -> Any:
        """Return a number as a kernel's argument of Triton's type `kind`."""
        import triton.language as tl

        types: Mapping[str, type] = {"int32": np.int32, "int64": np.int64, "fp32": np.float32, "fp64": np.float64}
        handle = self._interpreter.TensorHandle(np.array([value], types[kind]), tl.dtype(kind))
        return tl.tensor(handle, tl.dtype(kind))

    def argument(self, value: Any, name: str) -> Any:
        """Return a value that host code passes to a kernel as the kernel sees it; see `on_launch`."""
        if isinstance(value, float):
            return self.number(value, "fp32")
        return self._pointer(value, name) if hasattr(value, "data_ptr") else self._interpreter._implicit_cvt(value)

    def on_launch(
        self, launch: Callable[[Any, Any, Sequence[Any], Mapping[str, Any]], None], pointer: Callable[..., Any]
    ) -> None:
        """Have `launch` called where host code launches a kernel; `pointer` makes an argument of a tensor."""
        self._pointer = pointer
        convert = self._interpreter._implicit_cvt

        def converted(value: Any) -> Any:
            return pointer(value) if hasattr(value, "data_ptr") else convert(value)

        def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
            if not warmup:
                for hook in kernel.pre_run_hooks:
                    hook(*args, **kwargs)
                launch(kernel, grid, args, kwargs)

        self._interpreter._implicit_cvt = converted
        self._interpreter.InterpretedFunction.run = run

    def bind(self, kernel: Any, arguments: Mapping[str, Any], grid: Sequence[int]) -> Callable[[int, int, int], None]:
        """Return a function that runs the program at a place in the grid."""
        function = kernel.rewrite()
        builder = self._builder
        builder.set_grid_dim(*grid)

        def run(x: int, y: int, z: int) -> None:
            builder.set_grid_idx(x, y, z)
            function(**arguments)

        return run


def line_in(path: str) -> int:
    """Return the line of the innermost frame of the caller's that runs code of a file; 0 where there is none."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and frame.f_code.co_filename != path:
        frame = frame.f_back
    return frame.f_lineno if frame is not None else 0


def _number_formats(interpreter: Any) -> None:
    """Have bf16 values kept as fp32."""
    import triton.language as tl

    plain, fits = interpreter._get_np_dtype, interpreter._validate_np_data_size
    known: dict[str, np.dtype[Any]] = {"bf16": np.dtype(np.float32)}

    def numpy_type(kind: Any) -> np.dtype[Any]:
        scalar: Any = kind.element_ty if isinstance(kind, tl.block_type) else kind
        name: str = "pointer" if isinstance(scalar, tl.pointer_type) else scalar.name
        if name not in known:
            known[name] = plain(scalar)
        return known[name]

    def fits_or_wide(data: AnyArray, kind: Any) -> bool:
        return data.dtype.itemsize <= 4 if kind.scalar == tl.bfloat16 else fits(data, kind)

    interpreter._get_np_dtype = numpy_type
    interpreter._validate_np_data_size = fits_or_wide


def _quicker() -> None:
    """Work out what is known of a shape once, not for each value: this is most of the time that small blocks take."""
    from triton.language import core

    shapes: dict[tuple[int, ...], tuple[Any, Any, Any, Any]] = {}
    names: dict[tuple[str, tuple[int, ...]], str] = {}
    block_type, tensor, constexpr = core.block_type, core.tensor, core.constexpr
    plain_block, plain_tensor = block_type.__init__, tensor.__init__
    nothing, one = core.tuple([]), constexpr(1)

    def block_init(self: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple([s.value if isinstance(s, constexpr) else s for s in shape])
        known = shapes.get(sizes)
        if known is None:
            plain_block(self, element_ty, shape)
            wrapped = core.tuple([constexpr(s) for s in sizes])
            shapes[sizes] = self.shape, self.numel, wrapped, constexpr(self.numel)
            return
        self.element_ty = element_ty
        self.shape, self.numel, _, _ = known
        key = element_ty.name, sizes
        if key not in names:
            names[key] = f"<{self.shape}, {element_ty}>"
        self.name = names[key]

    def tensor_init(self: Any, handle: Any, type: Any) -> None:
        if not type.is_block():
            self.shape, self.numel = nothing, one
        elif (known := shapes.get(tuple(type.shape.values))) is not None:
            _, _, self.shape, self.numel = known
        else:
            plain_tensor(self, handle, type)
            return
        self.handle, self.type, self.dtype = handle, type, type.scalar

    block_type.__init__, tensor.__init__ = block_init, tensor_init


def _language(interpreter: Any) -> None:
    """Put the interpreter's functions in the place of the language's for good, and those of the math library, too."""
    import triton.language as tl
    from triton.language import core
    from triton.language.extra import cuda
    from triton.language.extra import libdevice as common
    from triton.language.extra.cuda import libdevice as library

    class Scope(interpreter._LangPatchScope):
        def restore(self) -> None:
            """Leave everything in place."""

    scope = Scope()
    # The interpreter finds the language through the globals of the function that it is about to run.
    interpreter._patch_lang(FunctionType(_nothing.__code__, {"tl": tl, "core": core}))
    interpreter._patch_builtin(library, interpreter.interpreter_builder, scope)
    for name in [n for n in vars(common) if not n.startswith("_")]:
        setattr(common, name, getattr(library, name, None))
    for name in ("gdc_wait", "gdc_launch_dependents"):
        setattr(cuda, name, _nothing)

    def patched(function: Any) -> Any:
        del function
        return scope

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.rewrite()(*args, **kwargs)

    interpreter._patch_lang = patched
    # A kernel's own exceptions, with their lines, say more than the interpreter's wrapping of them.
    interpreter.InterpretedFunction.__call__ = call


def _loops(interpreter: Any) -> None:
    """Have the variable of a loop over a range be a tensor, as where it is compiled, and no number of Python's."""

    class Loops(interpreter.ASTTransformer):
        def visit_For(self, node: ast.For) -> ast.For:
            self.generic_visit(node)
            called = node.iter.func if isinstance(node.iter, ast.Call) else None
            name = (
                called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
            )
            if name == "range":
                node.iter = ast.Call(ast.Name("interpreter_loop", ast.Load()), [node.iter], [])
            return node

    def loop(values: Sequence[int]) -> Iterator[Any]:
        interpreter.interpreter_builder.memory.begin_loop(len(values))
        return (interpreter.interpreter_semantic.to_tensor(v) for v in values)

    # Rewritten functions see the interpreter's own globals.
    interpreter.interpreter_loop = loop
    interpreter.FunctionRewriter.ast_transformer = Loops()


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Do nothing."""
