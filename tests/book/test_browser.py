"""The checks on the built book can fail: a small site with one fault of each kind is opened in the real browser."""

from __future__ import annotations

import browser
import pytest
from browser import VIEWS, BrowserError, check_book, ensure_browser, find_browser, screenshots

PAGE = """<!doctype html>
<html data-theme="dark"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"></head>
<body style="background: #121212; color: #eee"><article><div id="top">{}</div></article></body></html>
"""
DOT = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/%3E"

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
    "beyond": ('<div style="width: 90px"><div class="a" style="width: 99px">x</div></div>', "div.a is wider than div."),
    "clipped": (
        '<div class="b" style="width: 90px; overflow: hidden"><p style="width: 99px">x</p></div>',
        "div.b cuts off what it holds",
    ),
    "faint": ('<span style="color: #555">dusk</span>', '"dusk" is rgb(85, 85, 85) on 18,18,18 in span.'),
    "veiled": ('<p style="background: rgb(255 255 255 / 60%)">fog</p>', '"fog" is rgb(238, 238, 238) on 160,160,160'),
    "mute": (f'<img src="{DOT}">', "image without alternative text: data:image"),
    "unnumbered": (f'<figure><img src="{DOT}" alt="dot"><figcaption>A dot.</figcaption></figure>', "1 figures without"),
    "loose": (f'<div class="cell_output"><img src="{DOT}" alt="dot"></div>', "1 figures without a number"),
    "table": (
        '<div class="cell_output"><table class="lae-table lae-figures"><tr><td>1</td></tr></table></div>',
        "1 tables without a number",
    ),
    "frame": (
        '<div class="cell_output"><table class="dataframe"><tr><td>1</td></tr></table></div>',
        "1 tables without",
    ),
    "heavy": (f"<!-- {'x' * 1_500_000} -->", "1.5 MB with its pictures, 1.5 are allowed"),
}
# What may look like a fault and is none.
GOOD = rf"""
<a href="#top" style="color: #9cf">up</a> and <code>\frac</code>
<a href="https://far.example" style="color: #9cf">elsewhere</a>
<div style="overflow-x: auto"><div><div style="width: 900px">a wide table that scrolls</div></div></div>
<span style="color: #888; font-size: 24px">large and a little faint</span>
<figure><img src="{DOT}" alt="dot"><figcaption><span class="caption-number">Fig. 1</span> A dot.</figcaption></figure>
<div class="cell_output"><table class="results"><caption><span class="caption-number">Table 1</span> One.</caption></table></div>
<div class="cell_output"><table class="dataframe lae-table"><tr><td>T1: proved</td></tr></table></div>
"""


def test_each_fault_is_found_and_a_good_page_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(browser, "_READY", browser._READY.replace("wait < 100", "wait < 2"))  # the plot never comes
    (tmp_path / "good.html").write_text(PAGE.format(GOOD))
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


TURNED = """<!doctype html><html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>
  body { background: #121212; color: #eee; transition: all 1s } [data-theme=light] body { background: #fff; color: #222 }
  #tall { width: 2000px } @media (max-width: 1000px) { #tall { display: none } }
</style></head><body><article><p>text</p><div id="tall">x</div></article><script>
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.onchange = () => document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
  dark.onchange();
</script></body></html>"""


def test_a_page_is_seen_in_each_view_without_loading_it_again(tmp_path):
    (tmp_path / "page.html").write_text(TURNED)
    desktop, phone = VIEWS
    problems = check_book(tmp_path, phone, desktop)
    assert any("px wider than the screen" in problem for problem in problems)
    assert all(problem.startswith("page.html (desktop, light): ") for problem in problems)
    assert not any("too faint" in problem for problem in problems), "colours are compared when they have settled"


def test_screenshots_are_of_every_page_in_every_view(tmp_path):
    (tmp_path / "html" / "part").mkdir(parents=True)
    (tmp_path / "html" / "part" / "one.html").write_text(PAGE.format("one"))
    (tmp_path / "html" / "index.html").write_text('<meta http-equiv="Refresh" content="0; url=part/one.html" />')
    taken = [path.name for path in screenshots(tmp_path / "html", tmp_path / "shots")]
    assert sorted(taken) == [f"part-one.{width}.{theme}.png" for width in (1280, 390) for theme in ("dark", "light")]
    assert all((tmp_path / "shots" / name).read_bytes().startswith(b"\x89PNG") for name in taken)


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
    with pytest.raises(BrowserError, match=r"`apt-get update` failed(.|\n)*no route to the mirror"):
        ensure_browser()
