"""Tests what a plan for GPUs calls, without a GPU: that each call gives the types that the plan says,
on PyTorch's fake tensors of a GPU, and that all but the kernels computes the same, on a CPU."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from support import chain

HERE = pathlib.Path(__file__).resolve().parent
DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i64": torch.int64,
}
CALL = re.compile(
    r'^ *(?:(%\w+)(?::\d+)? = )?aten\.call "([^"]+)"\((.*?)\)(?: [a-z_]+(?:\([^)]*\))?)*'
    r"(?: \{(.*)\})? : \((.*)\) -> (.+)$"
)
TYPE = re.compile(r"none|tensor<(?:((?:\d+x)*)(\w+))(?:, #aten\.strides<\[(.*?)\]>)?>")


def types_of(text: str) -> list[tuple[list[int], torch.dtype, list[int]] | None]:
    """Shape, dtype and strides of each type in a list of them; None for `none`."""
    found = []
    for match in TYPE.finditer(text):
        if match[0] == "none":
            found.append(None)
            continue
        shape = [int(size) for size in match[1].split("x") if size]
        strides = torch.empty(shape, device="meta").stride()
        if match[3]:
            strides = [int(stride) for stride in match[3].split(",")]
        found.append((shape, DTYPES[match[2]], list(strides)))
    return found


def attribute(text: str) -> Any:
    text = text.strip()
    if text in DTYPES:
        return DTYPES[text]
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("array<"):
        return [attribute(item) for item in text[len("array<i64:") : -1].split(",")]
    number = text.split(" : ")[0]
    return float(number) if text.endswith("f64") else int(number)


@dataclasses.dataclass
class Call:
    """One `aten.call`: its operator, and what it gives each argument."""

    line: str
    result: str
    op: Any
    operands: dict[str, str | None]  # by argument: a value, or None
    attributes: dict[str, Any]
    given: list[Any]  # types of the operands that are values
    results: list[Any]

    @staticmethod
    def parse(line: str) -> Call:
        result, callee, operands, attributes, given, results = CALL.match(line).groups()
        name, _, overload = callee.partition(".")
        op = getattr(getattr(torch.ops.aten, name), overload or "default")
        found = dict(re.findall(r"([\w.]+) = (array<.*?>|[^,]+)", attributes or ""))
        names = [a.name for a in op._schema.arguments]
        slots = iter(operands.split(", "))
        tensors = [a.name for a in op._schema.arguments if "Tensor" in str(a.type)]
        values = {name: next(slots, "none") for name in tensors}
        return Call(
            line=line,
            result=result,
            op=op,
            operands={n: None if v == "none" else v for n, v in values.items()},
            attributes={
                n: torch.contiguous_format if n == "memory_format" else attribute(found[n])
                for n in names
                if n in found
            },
            given=types_of(given),
            results=types_of(results),
        )

    @property
    def kernel(self) -> str | None:
        """ "flash" or the like, of an attention."""
        match = re.match(r"aten::_scaled_dot_product_(\w+?)_attention", self.op._schema.name)
        return match and match[1]


def check(call: Call) -> None:
    """Runs a call on fake tensors of a GPU, and compares what it gives."""
    given = iter(call.given)

    def fake(value: str | None) -> torch.Tensor | None:
        if value is None:
            return None
        shape, dtype, strides = next(given)
        return torch.empty_strided(shape, strides, dtype=dtype, device="cuda")

    with FakeTensorMode():
        tensors = {name: fake(value) for name, value in call.operands.items()}
        for argument in call.op._schema.arguments:
            # What is undefined in C++ has no name in Python: any tensor will do.
            if str(argument.type) == "Tensor" and tensors[argument.name] is None:
                tensors[argument.name] = torch.empty(0, device="cuda")
        outcome = call.op(**tensors, **call.attributes)
    outcome = outcome if isinstance(outcome, (tuple, list)) else [outcome]
    outcome = [value for value in outcome if not isinstance(value, int)]
    assert len(outcome) == len(call.results), call.line
    for got, said in zip(outcome, call.results):
        if said is not None:
            assert (list(got.shape), got.dtype) == said[:2], call.line
            # Those of new memory are the plan's: what has others is copied there.
            if call.op.is_view:
                assert list(got.stride()) == said[2], call.line


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Any, options: dict[str, Any]
) -> torch.Tensor:
    """Attention as any kernel computes it, in double."""
    return F.scaled_dot_product_attention(
        *(x.double() for x in (query, key, value)),
        attn_mask=None if mask is None else mask.double(),
        is_causal=options.get("is_causal", False),
        scale=options.get("scale"),
        enable_gqa=True,
    )


def compute(call: Call, values: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """The results of a call: of an attention by `attend`, of all else by PyTorch."""
    tensors = {name: None if v is None else values[v] for name, v in call.operands.items()}
    if not call.kernel:
        outcome = call.op(**tensors, **call.attributes)
        return [outcome] if isinstance(outcome, torch.Tensor) else list(outcome)
    qkv = [tensors[name] for name in ("query", "key", "value")]
    mask = tensors.get("attn_mask", tensors.get("attn_bias"))
    if not call.op._schema.name.endswith("backward"):
        out = attend(*qkv, mask, call.attributes).to(qkv[0].dtype)
        return [out] + [torch.zeros(())] * (len(call.results) - 1)
    qkv = [x.detach().double().requires_grad_() for x in qkv]
    gradient = tensors.get("grad_out", tensors.get("grad_out_"))
    if call.attributes.get("grad_input_mask", [False])[-1]:
        mask = mask.detach().double().requires_grad_()
        qkv.append(mask)
    with torch.enable_grad():
        out = attend(*qkv[:3], mask, call.attributes)
    return [g.to(gradient.dtype) for g in torch.autograd.grad(out, qkv, gradient.double())]


def execute(text: str) -> dict[str, list[torch.Tensor]]:
    """What each function of a module returns for random arguments, the same for each module; less
    those that draw random numbers."""
    returned: dict[str, list[torch.Tensor]] = {}
    for function in text.split("func.func @")[1:]:
        name, lines = function.split("(", 1)[0], function.splitlines()
        if "#aten.generator" in function:
            continue
        torch.manual_seed(0)
        values = {}
        signature = lines[0].split(" -> ")[0]
        for argument, (shape, dtype, strides) in zip(
            re.findall(r"%\w+", signature), types_of(signature)
        ):
            tensor = torch.empty_strided(shape, strides, dtype=dtype)
            values[argument] = tensor.copy_(torch.randn(shape))
        for line in lines[1:]:
            if "aten.call" in line:
                call = Call.parse(line)
                results = compute(call, values)
                values[call.result] = results[0]
                values.update({f"{call.result}#{i}": r for i, r in enumerate(results)})
            elif "return " in line:
                names = line.split(" : ")[0].split("return ")[1].split(", ")
                returned[name] = [values[n] for n in names]
    return returned


def lowered(*options: str, file: str = "select-kernels.mlir") -> str:
    command = [chain.binary("fsdp-opt"), HERE / file]
    return chain.command([*command, "--mlir-print-debuginfo=false", *options]).stdout


KERNELS = ("flash,efficient", "cudnn,efficient", "efficient")


@pytest.mark.parametrize("kernels", KERNELS)
def test_calls_give_the_types_that_the_plan_says(kernels: str) -> None:
    text = lowered(f"--fsdp-select-kernels=device=cuda attention={kernels}")
    calls = [Call.parse(line) for line in text.splitlines() if "aten.call" in line]
    for call in calls:
        check(call)
    assert {call.kernel for call in calls if call.kernel} == set(kernels.split(","))


@pytest.mark.parametrize("kernels", KERNELS)
def test_what_is_put_around_a_kernel_changes_no_value(kernels: str) -> None:
    captured = execute(lowered())
    for name, values in execute(
        lowered(f"--fsdp-select-kernels=device=cuda attention={kernels}")
    ).items():
        assert len(values) == len(captured[name])
        for ours, theirs in zip(values, captured[name]):
            # Sums of repeated heads, of rounded terms, are rounded otherwise.
            bound = 8 * torch.finfo(theirs.dtype).eps
            torch.testing.assert_close(ours, theirs, rtol=bound, atol=bound)


def test_what_replaces_matrix_products_changes_no_value() -> None:
    file = "select-kernels-math.mlir"
    text = lowered("--fsdp-select-kernels=device=cuda", file=file)
    calls = [line for line in text.splitlines() if "aten.call" in line and "fsdp_mlir" not in line]
    for line in calls:
        check(Call.parse(line))
    captured, ours = execute(lowered(file=file))["masked"], execute(text)["masked"]
    assert len(ours) == len(captured)
    for our, their in zip(ours, captured):
        torch.testing.assert_close(our, their, rtol=1e-5, atol=1e-5)


class Attention(torch.nn.Module):
    """Four heads of queries, which share `others` heads of keys and values."""

    def __init__(self, masked: bool, dropout: float, others: int) -> None:
        super().__init__()
        self.project = torch.nn.Linear(32, 8 * (4 + 2 * others))
        self.masked, self.dropout, self.others = masked, dropout, others

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.project(x).view(batch, length, -1, 8).transpose(1, 2)
        query, key, value = heads.split((4, self.others, self.others), dim=1)
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=(
                x.new_ones((length, length), dtype=torch.bool).tril() if self.masked else None
            ),
            dropout_p=self.dropout,
            is_causal=not self.masked,
            enable_gqa=self.others != 4,
        )


@pytest.mark.parametrize(
    "dtype, masked, dropout, others, kernel",
    [
        (torch.bfloat16, False, 0.0, 2, "aten::_scaled_dot_product_flash_attention"),
        (torch.float16, True, 0.0, 2, "aten::_scaled_dot_product_efficient_attention"),
        (torch.float32, True, 0.0, 2, "aten::_scaled_dot_product_efficient_attention"),
        # What drops is captured as matrix products.
        (torch.bfloat16, False, 0.1, 4, "fsdp_mlir::flash_attention"),
        # Of those that have no kernel they stay: every device has them.
        (torch.float32, False, 0.1, 4, None),
        (torch.bfloat16, True, 0.1, 4, None),
    ],
)
def test_an_exported_step_becomes_a_plan_for_gpus(
    dtype: torch.dtype,
    masked: bool,
    dropout: float,
    others: int,
    kernel: str | None,
    tmp_path: pathlib.Path,
) -> None:
    def step(argv: list[str]) -> Any:
        from fsdp_mlir import TrainingStep

        model = Attention(masked, dropout, others).to(dtype)
        return TrainingStep(
            model,
            lambda model, x: model(x).float().square().mean(),
            torch.optim.SGD(model.parameters(), lr=0.1),
            inputs={"x": torch.randn(2, 13, 32, dtype=dtype)},
            steps=1,
        )

    compiled = chain.compile_step(step, tmp_path, pipeline="mesh=2 device=cuda")
    text = chain.plan_text(compiled.plan)
    assert ", for GPUs" in text
    called = re.findall(r"(\w+::\w*_attention\w*)\(", text)
    assert called == ([kernel, f"{kernel}_backward"] if kernel else [])


def test_attention_that_is_recomputed_drops_the_same(tmp_path: pathlib.Path) -> None:
    class Block(Attention):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + super().forward(x).transpose(1, 2).reshape(x.shape)

    def step(argv: list[str]) -> Any:
        from fsdp_mlir import TrainingStep

        blocks = (Block(masked=False, dropout=0.1, others=4) for _ in range(2))
        model = torch.nn.Sequential(*blocks).bfloat16()
        return TrainingStep(
            model,
            lambda model, x: model(x).float().square().mean(),
            torch.optim.SGD(model.parameters(), lr=0.1),
            inputs={"x": torch.randn(2, 13, 32, dtype=torch.bfloat16)},
            steps=1,
        )

    compiled = chain.compile_step(
        step, tmp_path, pipeline="mesh=2 device=cuda remat=full units=class:Block"
    )
    text = chain.plan_text(compiled.plan)
    sites = re.findall(r"flash_attention\(.*generator (\d+)\)( recomputed)?  // (\d)", text)
    again = " recomputed"
    assert sites == [("0", "", "0"), ("1", "", "1"), ("1", again, "1"), ("0", again, "0")]
