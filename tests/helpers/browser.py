"""The built book in a real browser: find or install Chromium, open every page from disk, and list what is wrong.

Each page is opened with the network off and looked at in views: wide and light, narrow and dark. A problem is a line of text
that names the page. The checks: requests that would leave the machine, console errors, links inside the book that lead
nowhere, images that do not load or have no alternative text, figures and tables without a number, mathematics left as source,
text too faint to read, things wider than what holds them or than the screen, and pages that are too heavy.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from lae_core.book.doctor import BROWSERS, BrowserError, find_browser

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class NoBrowserError(BrowserError):
    """There is no browser, and none can be installed."""


def ensure_browser() -> str:
    """`find_browser`, else install Debian's chromium where we may, else say what to do."""
    found = find_browser()
    if found:
        return found
    advice = "install Chromium or Chrome and put it on the path, or name it in LAE_BROWSER"
    if not (shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0):
        raise NoBrowserError(
            f"no browser found ({', '.join(BROWSERS)}), and installing one needs apt-get and root: {advice}"
        )
    quiet = {"env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, "capture_output": True, "text": True}
    for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"]):
        done = subprocess.run(["apt-get", "-q", *command], **quiet)  # type: ignore[call-overload]
        if done.returncode:
            raise NoBrowserError(f"`apt-get {' '.join(command)}` failed: {advice}\n{done.stderr[-2000:]}")
    found = find_browser()
    if not found:
        raise NoBrowserError(f"apt-get installed chromium, yet none of {', '.join(BROWSERS)} is on the path: {advice}")
    return found


@dataclass(frozen=True)
class View:
    """How a page is looked at."""

    name: str
    width: int
    height: int
    theme: Literal["light", "dark"]


VIEWS = (View("desktop", 1280, 900, "light"), View("phone", 390, 844, "dark"))
ALL_VIEWS = (*VIEWS, View("desktop", 1280, 900, "dark"), View("phone", 390, 844, "light"))
HEAVY = 1_500_000  # bytes of a page and its pictures; the scripts that pages share are not counted


@contextmanager
def browser_page(view: View, requests: list[str], errors: list[str]) -> Iterator[Any]:
    """A page of a fresh browser that has no network; what it asks for and complains about is appended to the lists."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=ensure_browser(), args=FLAGS)
        try:
            context = browser.new_context(
                viewport={"width": view.width, "height": view.height}, color_scheme=view.theme, offline=True
            )
            page = context.new_page()
            page.on("request", lambda request: requests.append(request.url))
            page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("requestfailed", lambda request: errors.append(f"could not load {request.url}"))
            yield page
        finally:
            browser.close()


# Runs in the page once mathematics has been typeset.
_PROBE = """() => {
  const visible = (node) => node.parentElement && node.parentElement.offsetParent !== null;
  const walker = document.createTreeWalker(document.querySelector("article, .bd-article, body"), NodeFilter.SHOW_TEXT);
  const raw = [];
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.parentElement.closest("pre, code, script, style, mjx-container, .lae-plotly")) continue;
    if (/\\\\[a-zA-Z]{2,}|\\\\[()\\[\\]]|\\$\\$/.test(node.textContent) && visible(node)) {
      raw.push(node.textContent.trim().slice(0, 60));
    }
  }
  const broken = document.querySelectorAll("mjx-merror, [data-mjx-error]");
  for (const error of broken) raw.push(error.textContent.slice(0, 60));
  const images = Array.from(document.images).filter((image) => image.complete && image.naturalWidth === 0);
  const drawn = (place) => place.querySelector("svg.main-svg");
  const undrawn = Array.from(document.querySelectorAll(".lae-plotly")).filter((place) => !drawn(place));
  const article = document.querySelector("article, .bd-article") || document.body;
  const named = (node) => `${node.tagName.toLowerCase()}.${node.getAttribute("class") || ""}`.slice(0, 60);
  const pictures = Array.from(article.querySelectorAll("img"));
  const numbered = (figure) => figure.querySelector("figcaption .caption-number");
  const figures = Array.from(article.querySelectorAll("figure")).filter((figure) => !numbered(figure));
  const loose = Array.from(article.querySelectorAll(".cell_output img, .cell_output .lae-plotly"))
    .filter((node) => !node.closest("figure, .lae-widget"));
  const counted = ".lae-figures, .results, .dataframe:not(.lae-table)";  // a list of verdicts is text, and needs no number
  const root = document.documentElement;
  const edge = root.clientWidth + 1;
  const wide = Array.from(document.querySelectorAll("article *, .bd-article *"))
    .filter((node) => node.getBoundingClientRect().right > edge + 1).slice(0, 3).map(named);

  // What reaches beyond its parent, or is cut off by it; a parent that scrolls, or a word for screen readers, may.
  const outside = [];
  for (const node of article.querySelectorAll("*")) {
    if (node.closest("mjx-container, svg, .lae-plotly, .visually-hidden, .sr-only") || node === article) continue;
    const style = getComputedStyle(node), box = node.getBoundingClientRect();
    if (!box.width || ["absolute", "fixed"].includes(style.position)) continue;
    if (["hidden", "clip"].includes(style.overflowX) && node.scrollWidth > node.clientWidth + 1 && node.clientWidth) {
      outside.push(`${named(node)} cuts off what it holds`);
    }
    let holder = node.parentElement;
    while (holder !== article && ["inline", "contents"].includes(getComputedStyle(holder).display)) {
      holder = holder.parentElement;
    }
    let scrolls = false;
    for (let at = holder; at && at !== article; at = at.parentElement) {
      scrolls = scrolls || getComputedStyle(at).overflowX !== "visible";
    }
    if (!scrolls && style.display !== "inline" && box.right > holder.getBoundingClientRect().right + 1) {
      outside.push(`${named(node)} is wider than ${named(holder)}`);
    }
  }

  // Contrast by WCAG 2: 4.5, or 3 for large letters.
  const channels = (text) => {
    const found = (text.match(/[0-9.]+/g) || []).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    return [found[0] * scale, found[1] * scale, found[2] * scale, found.length > 3 ? found[3] : 1];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const ground = (node) => {
    const layers = [];
    for (let at = node; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const faint = new Map();
  const words = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const node = words.currentNode, parent = node.parentElement;
    // A heading's own link shows only under the mouse.
    const unread = "script, style, svg, [aria-hidden], .visually-hidden, .sr-only, .headerlink";
    if (!node.textContent.trim() || !visible(node) || parent.closest(unread)) continue;
    const style = getComputedStyle(parent);
    const below = ground(parent), ink = over(channels(style.color), below);
    const [high, low] = [light(ink), light(below)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05), size = parseFloat(style.fontSize);
    const enough = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    if (ratio < enough - 0.01) {
      const what = `${style.color} on ${below.slice(0, 3).map(Math.round)} in ${named(parent)}`;
      if (!faint.has(what)) faint.set(what, node.textContent.trim().slice(0, 30));
    }
  }

  return {
    raw, wide, outside: Array.from(new Set(outside)).slice(0, 8),
    faint: Array.from(faint, ([what, text]) => `"${text}" is ${what}`),
    mute: pictures.filter((image) => !(image.getAttribute("alt") || "").trim()).map((image) => image.getAttribute("src")),
    unnumbered: figures.length + loose.length,
    tables: document.querySelectorAll(`.cell_output table:is(${counted}):not(:has(.caption-number))`).length,
    pictures: pictures.map((image) => image.src),
    images: images.map((image) => image.getAttribute("src")),
    undrawn: undrawn.length,
    overflow: root.scrollWidth > edge ? root.scrollWidth - root.clientWidth : 0,
    links: Array.from(document.querySelectorAll("a[href]"), (link) => link.href),
    ids: Array.from(document.querySelectorAll("[id], a[name]"), (node) => node.id || node.name),
    theme: root.dataset.theme,
  };
}"""


def check_book(html: Path, *views: View) -> list[str]:
    """Every problem found on any page under `html`; an empty list means that the book works offline as it should.

    A page is loaded in the first view and then seen in the others, as by a reader who turns the screen: give the
    narrowest first, since figures that scripts draw follow a wider screen with some delay.
    """
    html = html.resolve()
    sends_on = {path: _refresh_target(path) for path in _html_files(html)}
    pages = [path for path, target in sends_on.items() if target is None]
    if not pages:
        return [f"{html}: there are no pages"]
    problems = [
        f"{path.relative_to(html).as_posix()}: sends the reader on to {target}, which does not exist"
        for path, target in sends_on.items()
        if target is not None and not (path.parent / target).is_file()
    ]
    requests: list[str] = []
    errors: list[str] = []
    seen: dict[Path, dict[str, Any]] = {}
    with browser_page(views[0], requests, errors) as page:
        for path in pages:
            name = path.relative_to(html).as_posix()
            for view in views:
                requests.clear()
                errors.clear()
                page.set_viewport_size({"width": view.width, "height": view.height})
                page.emulate_media(color_scheme=view.theme)
                if view is views[0]:
                    page.goto(path.as_uri(), wait_until="load")
                page.evaluate(_READY)
                seen[path] = page.evaluate(_PROBE)
                away = [url for url in requests if not url.startswith(("file:", "data:", "blob:"))]
                found = _problems(seen[path], view, away, errors)
                problems += [f"{name} ({view.name}, {view.theme}): {problem}" for problem in found]
            weight = path.stat().st_size + sum(file.stat().st_size for file in _pictures(seen[path]))
            if weight > HEAVY:
                problems.append(f"{name}: {weight / 1e6:.1f} MB with its pictures, {HEAVY / 1e6:g} are allowed")
    return problems + _broken_links(html, seen)


def screenshots(html: Path, folder: Path, views: Iterable[View] = ALL_VIEWS) -> Iterator[Path]:
    """Every page in every view, whole, as `folder/<page>.<width>.<theme>.png`; each is yielded when it is written."""
    html = html.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for view in views:
        with browser_page(view, [], []) as page:
            for path in _html_files(html):
                if _refresh_target(path) is not None:
                    continue
                page.goto(path.as_uri(), wait_until="load")
                page.evaluate(_READY)
                name = "-".join(path.relative_to(html).with_suffix("").parts)
                target = folder / f"{name}.{view.width}.{view.theme}.png"
                page.screenshot(path=target, full_page=True)
                yield target


def _html_files(html: Path) -> list[Path]:
    return sorted(path for path in html.rglob("*.html") if "_static" not in path.relative_to(html).parts)


def _pictures(found: dict[str, Any]) -> set[Path]:
    files = {Path(unquote(urlsplit(url).path)) for url in found["pictures"] if url.startswith("file:")}
    return {file for file in files if file.is_file()}


def _problems(found: dict[str, Any], view: View, away: list[str], errors: list[str]) -> Iterator[str]:
    yield from (f"request to {url}" for url in away)
    yield from (f"console error: {error}" for error in errors)
    yield from (f"mathematics left as source: {text!r}" for text in found["raw"])
    yield from (f"image does not load: {image}" for image in found["images"])
    yield from (f"image without alternative text: {image}" for image in found["mute"])
    yield from (f"too faint to read: {what}" for what in found["faint"])
    yield from found["outside"]
    if found["unnumbered"]:
        yield f"{found['unnumbered']} figures without a number and a caption"
    if found["tables"]:
        yield f"{found['tables']} tables without a number and a caption"
    if found["undrawn"]:
        yield f"{found['undrawn']} interactive figures are not drawn"
    if found["overflow"]:
        yield f"{found['overflow']} px wider than the screen ({', '.join(found['wide'])})"
    if found["theme"] != view.theme:
        yield f"the theme is {found['theme']}, the reader's screen asks for {view.theme}"


# Mathematics typeset, pictures decoded (those below the fold too), interactive figures drawn, no colour on its way to another.
_READY = """async () => {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  for (const image of document.images) image.loading = "eager";
  await Promise.all(Array.from(document.images, (image) => image.decode().catch(() => 0)));
  const places = Array.from(document.querySelectorAll(".lae-plotly"));
  const undrawn = () => places.some((place) => !place.querySelector("svg.main-svg"));
  for (let wait = 0; wait < 100 && undrawn(); wait++) await new Promise((resolve) => setTimeout(resolve, 100));
  for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
  for (const moving of document.getAnimations()) if (moving instanceof CSSTransition) moving.finish();
}"""


def _refresh_target(path: Path) -> str | None:
    """Where a page that only sends the reader on leads to."""
    text = path.read_text(encoding="utf-8")[:2000]
    match = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', text, re.IGNORECASE)
    return match.group(1) if match else None


def _broken_links(html: Path, seen: dict[Path, dict[str, Any]]) -> list[str]:
    places = {path: set(found["ids"]) for path, found in seen.items()}
    problems = []
    for path, found in seen.items():
        for href in sorted(set(found["links"])):
            parts = urlsplit(href)
            if parts.scheme != "file":
                continue
            target = Path(unquote(parts.path))
            where = f"{path.relative_to(html).as_posix()}: link to {os.path.relpath(target, html)}"
            if not target.is_relative_to(html) or not target.is_file():
                problems.append(f"{where}, which does not exist")
            elif parts.fragment and unquote(parts.fragment) not in places.get(target, {unquote(parts.fragment)}):
                problems.append(f"{where}#{parts.fragment}, but that page has no such place")
    return problems
