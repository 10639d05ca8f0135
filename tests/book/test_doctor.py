"""`lae doctor` tells what is there and what is missing, and only what is broken fails it."""

from __future__ import annotations

from lae_core import cli
from lae_core.book import doctor
from lae_core.pooling import cpu


def report(monkeypatch, capsys, tmp_path) -> tuple[int, dict[str, tuple[str, str]]]:
    monkeypatch.setenv("LAE_DATA", str(tmp_path))
    code = cli.main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    return code, {line[4:28].strip(): (line[:2], line[29:]) for line in lines}


def test_every_line_is_there(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("LAE_BROWSER", "true")  # any program will do
    code, found = report(monkeypatch, capsys, tmp_path)
    assert code == 0
    assert {"Python", "torch", "CPU", "precision on cpu", "data digits", "data cifar10", "disk", "browser"} <= set(
        found
    )
    assert found["precision on cpu"] == ("ok", "float64, float32, bfloat16, float16")
    assert found["data digits"][0] == "ok" and "verified" in found["data digits"][1]
    assert found["data cifar10"] == ("--", f"not in {tmp_path}: `lae data cifar10`")


def test_damaged_data_and_a_wrong_browser_fail_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("LAE_BROWSER", "no-such-browser")
    damaged = tmp_path / "cifar10"
    damaged.mkdir()
    (damaged / "train.safetensors").write_bytes(b"half a file")
    (damaged / "manifest.json").write_text('{"files": {"train.safetensors": "0"}}')
    code, found = report(monkeypatch, capsys, tmp_path)
    assert code == 1
    assert found["data cifar10"][0] == "!!" and "is damaged" in found["data cifar10"][1]
    assert found["browser"][0] == "!!" and "no-such-browser" in found["browser"][1]


def test_it_says_which_form_of_the_operator_is_used(monkeypatch):
    monkeypatch.setattr(cpu, "LIBRARY", object())
    assert doctor._kernel()[::2] == ("ok", "fused kernel, " + cpu.FILE.name)
    monkeypatch.setattr(cpu, "LIBRARY", None)
    for mode, reason in (("", "C compiler"), ("off", "LAE_KERNEL is off")):
        monkeypatch.setenv("LAE_KERNEL", mode)
        mark, _, found = doctor._kernel()
        assert mark == "--" and "plain form" in found and reason in found


def test_precision_that_does_not_compute_is_named(monkeypatch):
    monkeypatch.setattr(doctor, "_works", lambda device, dtype: "float16" not in str(dtype))
    lines = {what: (mark, finding) for mark, what, finding in doctor._devices()}
    assert lines["precision on cpu"] == ("--", "float64, float32; not bfloat16, float16")
