"""The explorer's numbers, read from a real browser, against `lae_core`."""

import math
import random
import re
from pathlib import Path

import pytest
import torch
from browser import VIEWS, browser_page

from lae_core import make_pool

ROOT = Path(__file__).parents[2]
SPECS = {"avg": "avg", "max": "max", "mixed": "mixed", "lse": "lse"}
SLIDERS = ["#lx-t", "#lx-x0", "#lx-x1", "#lx-x2", "#lx-x3"]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The HTML that the chapter carries, as a page on disk; it may ask for its own two files and nothing else."""
    chapter = (ROOT / "notebooks/theory/explorer.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```\{raw\} html\n(.*?)```", chapter, flags=re.S)
    static = (ROOT / "book/_static").as_uri()
    path = tmp_path_factory.mktemp("explorer") / "page.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{block.replace('../../_static', static)}", encoding="utf-8")
    requests: list[str] = []
    errors: list[str] = []
    with browser_page(VIEWS[0], requests, errors) as page:
        page.goto(path.as_uri())
        page.wait_for_selector("[data-pool=lae]")
        yield page
    assert errors == []
    assert {url.rsplit("/", 1)[1] for url in requests} == {"page.html", "explorer.js", "explorer.css"}


def shown(page):
    """X, t, and for each pool its value, weights, gradient and derivative by log t, as the page has them."""
    return page.evaluate(
        """() => {
          const all = (card, kind) => [...card.querySelectorAll(`data[aria-label^="${kind}"]`)];
          const numbers = (card, kind) => all(card, kind).map((node) => +node.value);
          const slider = (id) => +document.querySelector(id).value;
          return {
            x: ["#lx-x0", "#lx-x1", "#lx-x2", "#lx-x3"].map(slider),
            t: 10 ** slider("#lx-t"),
            pools: Object.fromEntries([...document.querySelectorAll("[data-pool]")].map((card) => [card.dataset.pool, {
              value: +card.querySelector(".lx-value data").value,
              text: card.querySelector(".lx-value data").textContent,
              weights: numbers(card, "weight"),
              gradient: numbers(card, "gradient"),
              heat: card.querySelector(".lx-single data").getAttribute("value"),
            }])),
          };
        }"""
    )


def check(state):
    """Every number of the page is that of `lae_core`, in float64."""
    assert set(state["pools"]) == {*SPECS, "lae"}
    for name, found in state["pools"].items():
        pool = make_pool(SPECS.get(name, "lae(train=one)"), channels=1).double()
        if name == "lae":
            pool.log_t.data.fill_(math.log(state["t"]))
        x = torch.tensor(state["x"], dtype=torch.float64).reshape(1, 1, 2, 2).requires_grad_()
        value = pool(x)
        value.sum().backward()
        gradient = x.grad.flatten().tolist()
        assert found["value"] == pytest.approx(value.item(), abs=1e-12), name
        assert float(found["text"].replace("−", "-")) == pytest.approx(value.item(), abs=5.1e-5), name
        assert found["gradient"] == pytest.approx(gradient, abs=1e-11), name
        assert found["weights"] == pytest.approx(gradient, abs=1e-11), name
        if name == "lae":
            assert float(found["heat"]) == pytest.approx(pool.log_t.grad.item(), abs=1e-11)
        else:
            assert found["heat"] is None


def place(page, selector, value):
    page.eval_on_selector(
        selector, "(s, v) => { s.value = v; s.dispatchEvent(new Event('input', {bubbles: true})) }", value
    )


def test_it_starts_at_the_papers_matrix(page):
    page.get_by_role("button", name="the paper's X").click()
    state = shown(page)
    assert state["x"] == [-1, 0, 1.4, 1.6] and state["t"] == 1
    assert state["pools"]["lae"]["text"] == "0.9532"
    check(state)


def test_the_temperature_slider_moves_by_keyboard_and_the_numbers_follow(page):
    page.get_by_role("button", name="the paper's X").click()
    page.get_by_role("slider", name="temperature t").focus()
    before = shown(page)
    for key in ["ArrowRight"] * 5 + ["PageUp", "ArrowUp"]:
        page.keyboard.press(key)
    after = shown(page)
    assert after["t"] > before["t"]
    assert after["pools"]["lae"]["value"] < before["pools"]["lae"]["value"]
    assert after["pools"]["max"] == before["pools"]["max"]
    check(after)
    for key, end in (("Home", 0.01), ("End", 100)):
        page.keyboard.press(key)
        state = shown(page)
        assert state["t"] == pytest.approx(end)
        check(state)


def test_every_control_is_reached_by_tab(page):
    page.locator(SLIDERS[0]).focus()
    reached = []
    for _ in range(7):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
    assert reached == [*(s[1:] for s in SLIDERS[1:]), "the paper's X", "swap the lower entries", "all equal"]


def test_any_setting_agrees_with_the_package(page):
    draw = random.Random(0)
    for _ in range(25):
        place(page, "#lx-t", str(round(draw.uniform(-2, 2), 2)))
        for selector in SLIDERS[1:]:
            place(page, selector, str(round(draw.uniform(-3, 3), 1)))
        check(shown(page))


def test_ties_share_and_equal_entries_leave_nothing_to_the_temperature(page):
    page.get_by_role("button", name="the paper's X").click()
    place(page, "#lx-x2", "1.6")
    state = shown(page)
    assert state["pools"]["max"]["gradient"] == [0, 0, 0.5, 0.5]
    check(state)
    page.get_by_role("button", name="all equal").click()
    state = shown(page)
    assert len(set(state["x"])) == 1 and float(state["pools"]["lae"]["heat"]) == 0
    check(state)


def test_swapping_moves_the_gradient_of_max(page):
    page.get_by_role("button", name="the paper's X").click()
    page.get_by_role("button", name="swap the lower entries").click()
    state = shown(page)
    assert state["x"] == [-1, 0, 1.6, 1.4] and state["pools"]["max"]["gradient"] == [0, 0, 1, 0]
    check(state)


def test_a_screen_reader_hears_the_value(page):
    page.get_by_role("button", name="the paper's X").click()
    assert page.locator("p[role=status]").inner_text() == "At t = 1.00 LAE is 0.9532."
    assert "falling from max 1.600 to average 0.500" in page.locator("svg").get_attribute("aria-label")
