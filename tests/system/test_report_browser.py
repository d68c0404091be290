"""Reports in a real browser: headless Chromium, through its driver."""

from __future__ import annotations

import itertools
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ars

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install selenium")

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
)
SECTIONS = ["Posterior", "Data", "Weights", "Loops", "Failures", "Cost", "How it was run"]


class Browser:
    """One page at a time, in a window of any width and either theme."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path, width: int = 1100, *, dark: bool = False) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        theme.append({"name": "prefers-reduced-motion", "value": "reduce"})  # a click does not wait for a scroll to end
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": theme})
        self.driver.get(path.as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        return [
            str(each)
            for each in self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.innerText)", selector)
        ]

    @property
    def complaints(self) -> list[Any]:
        return list(self.driver.get_log("browser"))


@pytest.fixture
def browser(
    nothing_left_behind: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Browser]:
    from selenium.webdriver.chrome.service import Service

    del nothing_left_behind  # it looks after the browser has gone
    for name in ("no_proxy", "NO_PROXY"):  # selenium asks the driver by HTTP, and a proxy does not know our localhost
        monkeypatch.setenv(name, "localhost,127.0.0.1")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("Chromium or its driver is not installed: tools/setup.sh test")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Browser(started)
    finally:
        started.quit()


@pytest.fixture(scope="module")
def report(csim: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of sir: 22 results, 45 latents, a series of data; and too few effective traces, so that there is advice."""
    path = tmp_path_factory.mktemp("report") / "sir.html"
    with ars.Simulator([csim("sir")], workers=4) as sim:
        drawn = sim.prior(300, seed=1)
        post = sim.posterior({"cases": drawn.observations["cases"][0]}, 600, seed=2)
        truth = {"reproduction": drawn["reproduction"][0]}
        post.report(path, prior=drawn, predicted=sim.predict(post, 100, seed=3), truth=truth)
    return path


def it_opens_without_a_complaint_and_has_every_section(browser: Browser, report: Path) -> None:
    browser.open(report)
    assert browser.complaints == []
    assert browser.texts("main > section:not(.verdict) > h2") == SECTIONS
    assert "Do not trust these numbers yet" in browser.texts(".verdict h2")[0]
    assert "ars infer ... --adapt" in "".join(browser.texts(".verdict pre"))
    assert browser.run("return performance.getEntriesByType('resource').length") == 0
    for link in browser.run("return [...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))"):
        assert browser.run("return document.getElementById(arguments[0]) !== null", link[1:])
    ids = browser.run("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    titles = browser.run("return [...document.querySelectorAll('svg[role=img]')].map(s => s.firstChild.textContent)")
    assert len(titles) > 20 and all(titles)
    levels = browser.run("return [...document.querySelectorAll('h1,h2,h3,h4,h5')].map(h => Number(h.tagName[1]))")
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def tabs_change_by_mouse_and_by_keyboard(browser: Browser, report: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.open(report)
    tabs = browser.driver.find_elements("css selector", "[role=tab]")
    panels = browser.driver.find_elements("css selector", "[role=tabpanel]")
    assert [tab.text for tab in tabs] == ["Results (22)", "Latents (45)"]
    assert [panel.is_displayed() for panel in panels] == [True, False]
    tabs[1].click()
    assert [panel.is_displayed() for panel in panels] == [False, True]
    assert [tab.get_attribute("aria-selected") for tab in tabs] == ["false", "true"]
    tabs[1].send_keys(Keys.ARROW_LEFT)
    assert [panel.is_displayed() for panel in panels] == [True, False]
    assert browser.driver.switch_to.active_element == tabs[0]


def tables_sort_as_numbers_and_filter(browser: Browser, report: Path) -> None:
    browser.open(report)
    tabs = browser.driver.find_elements("css selector", "[role=tab]")
    tabs[1].click()
    panel = browser.driver.find_elements("css selector", "[role=tabpanel]")[1]
    heads = panel.find_elements("css selector", "thead th")
    column = [head.text.split()[0] for head in heads].index("Mean")
    button = heads[column].find_element("css selector", "button")

    def shown() -> list[float]:
        script = "return [...arguments[0].querySelectorAll('tbody tr')].map(r => r.cells[arguments[1]].dataset.sort)"
        return [float(each) if each else math.nan for each in browser.run(script, panel, column)]

    before = shown()
    assert len(before) == 45
    button.click()
    assert shown() == sorted(before) != before
    assert heads[column].get_attribute("aria-sort") == "ascending"
    button.click()
    assert shown() == sorted(before, reverse=True)
    search = panel.find_element("css selector", "input[type=search]")
    search.send_keys("recoveries")
    rows = panel.find_elements("css selector", "tbody tr")
    visible = [row.text.split()[0] for row in rows if row.is_displayed()]
    assert visible and all(name.startswith("recoveries") for name in visible)


def a_phone_scrolls_no_page_sideways_and_reads_every_tab(browser: Browser, report: Path) -> None:
    browser.open(report, 360)
    for tab in range(2):
        browser.run("document.querySelectorAll('[role=tab]')[arguments[0]].click()", tab)
        assert browser.run("return document.documentElement.scrollWidth") <= 360
    browser.open(report, 280)
    assert browser.run("return document.documentElement.scrollWidth") <= 280


CONTRAST = """
const parse = (text) => { const p = text.match(/[\\d.]+/g).map(Number); return p.length < 4 ? [...p, 1] : p; };
const linear = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = (c) => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
const behind = (e) => {
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c[3] === 1) return c;
  }
  return [255, 255, 255, 1];
};
const wrong = [];
for (const e of document.querySelectorAll('body *')) {
  const written = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  if (/^(script|style|title)$/i.test(e.tagName) || !written || !e.getClientRects().length) continue;
  const style = getComputedStyle(e), ink = parse(e.closest('svg') ? style.fill : style.color);
  const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) wrong.push(`${e.tagName}: ${ratio.toFixed(2)} ${e.textContent.slice(0, 40)}`);
}
return wrong;
"""


def text_has_contrast_in_both_themes(browser: Browser, report: Path, *, dark: bool) -> None:
    browser.open(report, dark=dark)
    assert browser.run(CONTRAST) == []
    background = "return getComputedStyle(document.body).backgroundColor"
    before = browser.run(background)
    browser.driver.find_element("css selector", "button.theme").click()
    assert browser.run(background) != before
    assert browser.run(CONTRAST) == []
    browser.driver.find_element("css selector", "button.theme").click()
    assert browser.run(background) == before
    # the measure itself: grey on grey is found
    browser.run("const p = document.querySelector('main p'); p.style.color = '#888'; p.style.background = '#777'")
    assert browser.run(CONTRAST) != []


def paper_shows_all_tabs_in_light_colours(browser: Browser, report: Path) -> None:
    browser.open(report, 760, dark=True)
    dark = {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    panels = browser.driver.find_elements("css selector", "[role=tabpanel]")
    assert all(panel.is_displayed() for panel in panels)
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not browser.driver.find_element("css selector", "nav").is_displayed()
    assert browser.run(CONTRAST) == []
    assert browser.run("return document.documentElement.scrollWidth") <= 760
    # heads that stick, and buttons in them, are blank on the second page of a table
    assert browser.run("return getComputedStyle(document.querySelector('thead th')).position") == "static"
    assert browser.run("return getComputedStyle(document.querySelector('thead button')).display") == "contents"
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_report_in_a_browser(browser: Browser, report: Path, subtests: pytest.Subtests) -> None:
    """All checks with one browser: it takes longer to start than they do."""
    checks: dict[str, Callable[[Browser, Path], None]] = {
        "it opens without a complaint and has every section": it_opens_without_a_complaint_and_has_every_section,
        "tabs change by mouse and by keyboard": tabs_change_by_mouse_and_by_keyboard,
        "tables sort as numbers and filter": tables_sort_as_numbers_and_filter,
        "a phone scrolls no page sideways and reads every tab": a_phone_scrolls_no_page_sideways_and_reads_every_tab,
        "paper shows all tabs in light colours": paper_shows_all_tabs_in_light_colours,
        "contrast, light first": partial(text_has_contrast_in_both_themes, dark=False),
        "contrast, dark first": partial(text_has_contrast_in_both_themes, dark=True),
    }
    for name, check in checks.items():
        with subtests.test(name):
            check(browser, report)


def test_the_search_of_the_site_works_from_files(browser: Browser, tmp_path: Path) -> None:
    """With the settings of the documentation, on two pages: they are found, and nothing is fetched."""
    pytest.importorskip("furo")
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    (source / "index.md").write_text("# One\n\nA zebra.\n\n```{toctree}\nsecond\n```\n")
    (source / "second.md").write_text("# Two\n\nAnother zebra.\n")
    docs = Path(__file__).resolve().parents[2] / "docs"
    options = ["-D", "extensions=myst_parser", "-D", "html_logo=", "-D", "html_favicon="]  # our extensions read docs/
    command = [sys.executable, "-m", "sphinx", "--quiet", "-c", docs, *options, source, site]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    for words, said in (("zebra", "found 2 pages"), ("giraffe", "did not match any documents")):
        browser.driver.get(f"{(site / 'search.html').as_uri()}?q={words}")
        for _ in range(100):
            if said in "".join(browser.texts("#search-results .search-summary")):
                break
            time.sleep(0.1)
        assert said in "".join(browser.texts("#search-results .search-summary"))
        assert browser.texts("#search-results li a") == (["One", "Two"] if words == "zebra" else [])
        assert browser.complaints == []
