"""The project's own files agree with each other: version and date, links, and what CI asks of the Makefile."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import ars

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PARTS = ("MAJOR", "MINOR", "PATCH")
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("csim/**/*.md"), *ROOT.glob("bridge/*.md")]


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def version_of_header() -> str:
    parts = [re.search(rf"#define ARS_VERSION_{part} (\d+)", text("bridge/include/ars.h")) for part in PARTS]
    return ".".join(part[1] for part in parts if part)


def first(pattern: str, path: str) -> str:
    found = re.search(pattern, text(path), re.MULTILINE)
    assert found, f"{path} has no line like {pattern}"
    return found[1]


# ---- one version -----------------------------------------------------------------------------------------------------


def test_the_version_of_the_header_is_everybodys() -> None:
    version = version_of_header()
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert ars.__version__ == version, "make install"
    assert first(r"^version: (\S+)$", "CITATION.cff") == version
    assert first(r"^## \[(\d\S*)\]", "CHANGELOG.md") == version


def test_what_is_built_reads_the_version_from_the_header() -> None:
    project = tomllib.loads(text("pyproject.toml"))
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    provider = project["tool"]["dynamic-metadata"][0]
    assert (provider["field"], provider["input"]) == ("version", "bridge/include/ars.h")
    before, _, after = text("CMakeLists.txt").partition("project(libars")
    assert "bridge/include/ars.h" in before and not re.search(r"VERSION \"?\d+\.\d+\.\d", after)


def test_releases_have_dates_and_work_in_progress_comes_first() -> None:
    headings = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", text("CHANGELOG.md"), re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", date) for _, date in headings[1:])
    assert first(r"^date-released: (\S+)$", "CITATION.cff") == headings[1][1]


# ---- links and addresses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", prose)
    local = [link.partition("#")[0] for link in links if not re.match(r"[a-z]+:|#", link)]
    assert not [link for link in local if not (page.parent / link).exists()]


def test_the_projects_home_is_written_in_one_place() -> None:
    """So that a placeholder is replaced once."""
    homes = set(tomllib.loads(text("pyproject.toml"))["project"]["urls"].values())
    names = ["SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "CITATION.cff", ".pre-commit-config.yaml"]
    others = [ROOT / name for name in names] + [path for path in (ROOT / ".github").rglob("*") if path.is_file()]
    assert not [(path, home) for path in others for home in homes if home in path.read_text(encoding="utf-8")]


# ---- continuous integration ------------------------------------------------------------------------------------------


def test_workflows_ask_for_targets_that_the_makefile_has() -> None:
    asked = {target for path in WORKFLOWS for target in re.findall(r"^ +target: (\w[\w-]*)", path.read_text(), re.M)}
    assert {"lint", "check", "test", "sanitize", "docs", "release"} <= asked
    for target in asked:
        found = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_only_read_and_name_the_major_version_of_every_action(path: Path) -> None:
    workflow = path.read_text(encoding="utf-8")
    assert re.findall(r"^ *permissions:\n +(.+)$", workflow, re.MULTILINE) == ["contents: read"]
    assert "workflow_call:" in workflow or "concurrency:" in workflow
    used = re.findall(r"uses: (\S+)", workflow)
    assert used and all(re.fullmatch(r"\./\S+|[\w./-]+@v\d+", action) for action in used)
