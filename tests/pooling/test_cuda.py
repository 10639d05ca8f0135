"""The Triton kernel without a GPU: in the interpreter against mpmath and the plain form, and compiled ahead of time.

Both need a process of their own: the interpreter is switched on before Triton is imported.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton")
HERE = Path(__file__).parent

INTERPRETED = """
import itertools, math, torch
from test_accuracy import Worst, alike, check, draw, reference, spread
from lae_core.pooling import cuda, plain

class Operator(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, t, dims):
        value, kept = cuda.forward(z, t, dims, False)
        ctx.save_for_backward(z, t, kept); ctx.dims = dims
        return value
    @staticmethod
    def backward(ctx, grad):
        grad_z, grad_t = cuda.backward(grad, *ctx.saved_tensors, ctx.dims, True)
        again, nothing = cuda.backward(grad, *ctx.saved_tensors, ctx.dims, False)
        assert torch.equal(grad_z.nan_to_num(7), again.nan_to_num(7)) and not nothing.numel()
        return grad_z, grad_t, None

def measure(rows, t, operator):
    eps = torch.finfo(rows.dtype).eps
    rows, t = rows.clone().requires_grad_(), t.clone().requires_grad_()
    value = operator(rows, t)
    grad, grad_t = torch.autograd.grad(value.sum(), (rows, t))
    worst = Worst()
    for i, heat in enumerate(t.detach().double().tolist()):
        row = rows[i].detach().double()
        exact, scale = reference(tuple(row.tolist()), heat), float(row.abs().max())
        weights = torch.tensor([float(w) for w in exact.weights], dtype=torch.float64)
        true = float(exact.d_log_t)
        slope = abs(true - heat * grad_t[i].item()) / abs(true) / 2**-23 if abs(true) > 1e-30 else 0.0
        worst |= Worst(abs(float(exact.value - value[i].item())) / (eps * scale) if scale else 0.0,
                       float((grad[i].double() - weights).abs().max() / weights.max() / eps), slope)
    return worst

along = lambda z, t: Operator.apply(z, t, (1,))
side_by_side = lambda z, t: Operator.apply(z.t().contiguous(), t, (0,))
torch.manual_seed(0)
for dtype, n, operator in itertools.product((torch.float32, torch.bfloat16, torch.float16), (1, 2, 49, 300), (along, side_by_side)):
    rows, heats = [], []
    kinds = ("normal", "rectified", "outlier above")
    for kind, scale, offset, t in itertools.product(kinds, (1e-2, 1.0, 100.0), (0.0, 100.0), (1e-3, 0.3, 4.0, 1e3, 1e6)):
        rows.append((scale * draw(n, kind, len(rows)) + offset).to(dtype)); heats.append(t)
    found = measure(torch.stack(rows)[n % 3::3], torch.tensor(heats)[n % 3::3], operator)
    print(dtype, n, found); check(found)
for kind, n in itertools.product(("one above", "two values", "mostly one value"), (7, 49)):
    found = measure(spread(alike(kind, 24, n)).float(), torch.ones(24), along)
    print(kind, n, found); check(found)
long_rows = draw(5000, "normal", 0).float().unsqueeze(0)
check(measure(long_rows, torch.tensor([3.0]), along)); check(measure(long_rows, torch.tensor([3.0]), side_by_side))
inf, nan = math.inf, math.nan
rows = [[0, nan, 1], [0, inf, -inf], [-inf] * 3, [0, -inf, 1], [inf, nan, 0], [1e10, 2e10, 0], [-1e10] * 3, [-inf, nan, -inf]]
z = torch.tensor(rows)
z.requires_grad_()
t = torch.tensor(1.0, requires_grad=True)
value = Operator.apply(z, t, (1,))
expected = plain.logavgexp(z, t.view(1, 1), None, (1,))[:, 0]
torch.testing.assert_close(value, expected, equal_nan=True)
for grads in (torch.ones(8), torch.tensor([0, 0, 1.0, 1, 0, 1, 1, 0])):
    a, b = (torch.autograd.grad(v, (z, t), grads, retain_graph=True) for v in (value, expected))
    torch.testing.assert_close(a[0][2:], b[0][2:], equal_nan=True)
    torch.testing.assert_close(a[1], b[1], equal_nan=True)
assert torch.equal(a[0][1], torch.tensor([0.0, nan, 0.0])) or a[0][1].isnan()[1] and not a[0][1][::2].any()
for t in (1e-40, 1e-10, 1e30, 3e38):
    row = torch.tensor([[0.0, 1.0, 2.0]])
    expected = 2.0 if t < 1 else 1.0
    assert abs(cuda.forward(row, torch.tensor(t), (1,), False)[0].item() - expected) < 1e-6, t
assert cuda.forward(row, torch.tensor(-1.0), (1,), False)[0].isnan().all()
"""

AHEAD_OF_TIME = """
import re, subprocess, sys, tempfile, triton
from pathlib import Path
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from lae_core.pooling import cuda, triton_kernels

assembler = next(Path(triton.__file__).parent.glob("backends/nvidia/bin/ptxas-blackwell"), None)
assembler = assembler or next(Path(triton.__file__).parent.glob("backends/nvidia/bin/ptxas*"))

def spills(kernel, name, sm, n, side_by_side, dtype, **constants):
    block_r, block_n = cuda.block_sizes(n, side_by_side)
    constants |= {"BLOCK_R": block_r, "BLOCK_N": block_n, "across" if side_by_side else "step": 1}
    types = dict.fromkeys(("z", "value", "grad", "grad_z"), f"*{dtype}") | dict.fromkeys(("t", "kept", "grad_t"), "*fp32")
    signature = {arg: "constexpr" if arg in constants else types.get(arg, "i32") for arg in kernel.arg_names}
    pointers = [i for i, arg in enumerate(kernel.arg_names) if arg in types]
    source = ASTSource(kernel, signature, constants, {(i,): [["tt.divisibility", 16]] for i in pointers})
    done = triton.compile(source, target=GPUTarget("cuda", sm, 32))
    with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
        file.write(done.asm["ptx"]); file.flush()
        arch = f"-arch=sm_{sm}" + ("a" if sm >= 90 else "")
        told = subprocess.run([assembler, "-v", arch, file.name, "-o", "/dev/null"], capture_output=True, text=True)
    text = told.stdout + told.stderr
    registers, lost = re.search(r"Used (\\d+) registers", text), re.search(r"(\\d+) bytes spill stores", text)
    print(f"sm_{sm} {name} n={n} {'side by side' if side_by_side else 'along memory'} {dtype}: "
          f"{registers[1]} registers, {lost[1]} bytes spilled")
    return int(lost[1])

total = 0
for sm in map(int, sys.argv[1:]):
    for n, side_by_side, dtype in ((49, False, "fp32"), (64, True, "bf16"), (12544, False, "fp32"), (12544, True, "fp32")):
        total += spills(triton_kernels.forward, "forward", sm, n, side_by_side, dtype)
        total += spills(triton_kernels.backward, "backward", sm, n, side_by_side, dtype, WANTS_T=True)
assert total == 0, total
"""


def run(code: str, *arguments: str, **variables: str) -> str:
    paths = os.pathsep.join([str(HERE.parents[1]), str(HERE), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, **variables}
    environment.pop("LAE_KERNEL", None)
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_in_the_interpreter():
    assert "float16" in run(INTERPRETED, TRITON_INTERPRET="1")


@pytest.mark.parametrize("sms", [["80"], pytest.param(["75", "90"], marks=pytest.mark.long)], ids=" ".join)
def test_compiles_ahead_of_time_without_spills(sms, capsys, tmp_path):
    told = run(AHEAD_OF_TIME, *sms, TRITON_CACHE_DIR=str(tmp_path))
    with capsys.disabled():
        print("\n" + told)
    assert len(re.findall("registers", told)) == 8 * len(sms)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_on_a_gpu_it_agrees_with_the_cpu(dtype, layout):
    from lae_core import logavgexp
    from lae_core.pooling import cuda

    assert cuda.kernels() is not None
    z = torch.randn(8, 40, 7, 7).to(dtype).contiguous(memory_format=layout)
    found = []
    for device in ("cpu", "cuda"):
        x, t = z.to(device).requires_grad_(), torch.linspace(0.1, 100, 40, device=device).requires_grad_()
        value = logavgexp(x, t, dim=(2, 3))
        found.append([a.cpu() for a in (value, *torch.autograd.grad(value.float().square().sum(), (x, t)))])
    torch.testing.assert_close(*found)
