"""Settings that trade repeatability for speed: they act on a GPU alone, and leave torch as they found it."""

from __future__ import annotations

import functools

import pytest
import torch

from lae_core.training import execution, loop
from lae_core.training.config import RunConfig

SMALL = RunConfig(depth=8, width=0.25, data="digits", subset=64, eval_subset=20, epochs=1, batch=32, augment="none")


def switches() -> tuple[bool, ...]:
    cudnn = torch.backends.cudnn
    return (torch.backends.cuda.matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic)


def test_a_cpu_ignores_them_and_a_gpu_gets_them_in_order(monkeypatch):
    monkeypatch.delenv(execution.VARIABLE, raising=False)
    assert execution.settings("cuda") == ()
    monkeypatch.setenv(execution.VARIABLE, " search, tf32")
    assert execution.settings("cpu") == () and execution.settings("cuda:1") == ("tf32", "search")
    monkeypatch.setenv(execution.VARIABLE, "tf23")
    with pytest.raises(
        ValueError, match=r"LAE_EXECUTION: 'tf23' is invalid; expected some of tf32, .* did you mean 'tf32'"
    ):
        execution.settings("cpu")


def test_switches_are_put_back_also_after_an_error(monkeypatch):
    before = switches()
    monkeypatch.setenv(execution.VARIABLE, "tf32,search")
    with pytest.raises(KeyError), execution.applied("cuda"):  # noqa: PT012
        assert switches() == (True, True, True, True)
        raise KeyError
    assert switches() == before
    with execution.applied("cpu"):
        assert switches() == before
    monkeypatch.delenv(execution.VARIABLE)
    with execution.applied("cuda"):
        assert switches() == (False, False, False, True)
    assert switches() == before


@pytest.mark.long
def test_compiled_and_channels_first_train_the_same_network_to_rounding(monkeypatch):
    """On a CPU, with the settings forced on and `torch.compile` without its code generator."""
    plain = loop.run(SMALL)
    monkeypatch.setattr(execution, "settings", lambda device: ("compile", "channels-first"))
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    other = loop.run(SMALL)
    assert other["final"]["train_loss"] == pytest.approx(plain["final"]["train_loss"], rel=1e-3)
    assert other["epochs"][0]["spread"] == pytest.approx(plain["epochs"][0]["spread"], rel=1e-3)
