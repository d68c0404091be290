"""Photographs the pages that the documentation shows: python docs/figures/screens.py [report] [calibration] [site]

The report is that of the first tutorial, the calibration that of an example; the site must be in build/docs. Needs
Chromium and its driver, and the extra `dev`.
"""

from __future__ import annotations

import base64
import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SITE = ROOT / "build" / "docs"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
LARGEST = 1100  # pixels across; wider pages are made smaller
PAGES = (  # of the site: file, page, width, height
    ("home", "index.html", 1280, 1500),
    ("home-phone", "index.html", 400, 1120),
    ("tutorial", "tutorials/epidemic.html", 1280, 1500),
    ("explanation-phone", "explanation/ars-in-pictures.html", 400, 1120),
    ("reference-c", "reference/c.html", 1280, 1300),
    ("reference-python", "reference/python/posterior.html", 1280, 1300),
)


@contextmanager
def browser() -> Iterator[webdriver.Chrome]:
    """Chromium with a profile of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    with tempfile.TemporaryDirectory(prefix="ars-chromium-", ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield driver
        finally:
            driver.quit()


def photograph(driver: webdriver.Chrome, page: Path, name: str, width: int, height: int, *, dark: bool = False) -> None:
    """Writes the upper part of a page to docs/figures, in 256 colours."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": theme})
    driver.get(page.as_uri())
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
    image = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    if width > LARGEST:
        image = image.resize((LARGEST, round(height * LARGEST / width)), Image.Resampling.LANCZOS)
    image = image.quantize(256)
    image.save(HERE / f"{name}.png", optimize=True)
    print(f"{name}.png: {image.size[0]} x {image.size[1]}")


def tutorial_report(folder: Path) -> Path:
    """Runs the blocks of the first tutorial."""
    text = (ROOT / "docs" / "tutorials" / "first-posterior.md").read_text(encoding="utf-8")
    (folder / "decay.c").write_text(re.findall(r"```c\n(.*?)```", text, re.DOTALL)[0])
    command = [sys.executable, "-m", "ars", "compile", "decay.c", "-o", "decay"]
    subprocess.run(command, cwd=folder, check=True)
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return folder / "report.html"


def calibration(folder: Path) -> Path:
    """Calibrates an example."""
    ars = [sys.executable, "-m", "ars"]
    subprocess.run([*ars, "examples", "examples"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    source = "examples/truncated_normal.c"
    subprocess.run([*ars, "compile", source, "-o", "truncated_normal"], cwd=folder, check=True)
    options = ["--datasets", "150", "--traces", "300", "--seed", "1", "--report", "calibration.html", "--quiet"]
    subprocess.run(
        [*ars, "calibrate", "./truncated_normal", "b", *options], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    return folder / "calibration.html"


def main(wanted: list[str]) -> int:
    """Returns the exit code."""
    kinds = ("report", "calibration", "site")
    if unknown := [each for each in wanted if each not in kinds]:
        print(f"not one of {', '.join(kinds)}: {', '.join(unknown)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="ars-screens-") as name, browser() as driver:
        for kind, make in (("report", tutorial_report), ("calibration", calibration)):
            if kind in (wanted or kinds):
                page = make(Path(name))
                photograph(driver, page, f"{kind}-desktop", 1100, 1500)
                photograph(driver, page, f"{kind}-phone-dark", 360, 1400, dark=True)
                if kind == "report":
                    photograph(driver, page, f"{kind}-desktop-dark", 1100, 1500, dark=True)
                    photograph(driver, page, f"{kind}-phone", 360, 1400)
        if "site" in (wanted or kinds):
            for file, address, width, height in PAGES:
                photograph(driver, SITE / address, f"site/{file}", width, height)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
