"""The checks on the built book can fail: a small site with one fault of each kind is opened in the real browser."""

from __future__ import annotations

import pytest

from lae_core.book import browser
from lae_core.book.browser import VIEWS, BrowserError, check_book, ensure_browser, find_browser

PAGE = """<!doctype html>
<html data-theme="dark"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"></head>
<body><article><p id="top">{}</p></article></body></html>
"""

FAULTS = {
    "request": ('<img src="https://far.example/x.png" alt="">', "request to https://far.example/x.png"),
    "console": ("<script>console.error('lost')</script>", "console error: lost"),
    "raise": ("<script>nothing()</script>", "nothing is not defined"),
    "image": ('<img src="gone.png" alt="">', "image does not load: gone.png"),
    "link": ('<a href="nowhere.html">go</a>', "link to nowhere.html, which does not exist"),
    "place": ('<a href="good.html#middle">go</a>', "link to good.html#middle, but that page has no such place"),
    "maths": (r"where \(x\) is", "mathematics left as source"),
    "command": (r"so \frac{1}{2}", "mathematics left as source"),
    "plot": ('<div class="lae-plotly"></div>', "1 interactive figures are not drawn"),
    "wide": ('<div style="width: 600px">wide</div>', "px wider than the screen"),
}


def test_each_fault_is_found_and_a_good_page_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(browser, "_READY", browser._READY.replace("wait < 100", "wait < 2"))  # the plot never comes
    good = r'<a href="#top">up</a> and <code>\frac</code> <a href="https://far.example">elsewhere</a>'
    (tmp_path / "good.html").write_text(PAGE.format(good))
    (tmp_path / "index.html").write_text('<meta http-equiv="Refresh" content="0; url=missing.html" />')
    for name, (fault, _) in FAULTS.items():
        (tmp_path / f"{name}.html").write_text(PAGE.format(fault))
    phone = VIEWS[1]
    problems = check_book(tmp_path, phone)
    for name, (_, said) in FAULTS.items():
        assert any(problem.startswith(f"{name}.html") and said in problem for problem in problems), (name, problems)
    assert not any(problem.startswith("good.html") for problem in problems), problems
    assert "index.html: sends the reader on to missing.html, which does not exist" in problems
    light = tmp_path / "light"
    light.mkdir()
    (light / "good.html").write_text(PAGE.format("text"))
    assert check_book(light, VIEWS[0]) == [
        "good.html (desktop, light): the theme is dark, the reader's screen asks for light"
    ]


def test_no_pages_is_a_problem(tmp_path):
    assert check_book(tmp_path, VIEWS[0]) == [f"{tmp_path}: there are no pages"]


def test_browser_can_be_named_and_its_absence_is_explained(monkeypatch, tmp_path):
    monkeypatch.setenv("LAE_BROWSER", "no-such-browser")
    with pytest.raises(BrowserError, match="LAE_BROWSER='no-such-browser' is not a program"):
        find_browser()
    monkeypatch.delenv("LAE_BROWSER")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_browser() is None
    with pytest.raises(BrowserError, match="put it on the path, or name it in LAE_BROWSER"):
        ensure_browser()


def test_failing_installation_is_reported(monkeypatch, tmp_path):
    apt = tmp_path / "apt-get"
    apt.write_text("#!/bin/sh\necho 'no route to the mirror' >&2\nexit 100\n")
    apt.chmod(0o755)
    monkeypatch.delenv("LAE_BROWSER", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(BrowserError, match="`apt-get update` failed(.|\n)*no route to the mirror"):
        ensure_browser()
