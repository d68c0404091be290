"""The command line on a real terminal, in a pipe and under a shell's completion; results in a real notebook kernel."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ars
from ars.cli import COMMANDS, main

ARS = [sys.executable, "-m", "ars"]
INFER = ["infer", "{truncated_normal}", "b", "--observe", "y=-1", "--traces", "300", "--seed", "1"]


def words(command: list[str], csim: Callable[[str], str]) -> list[str]:
    return [word.replace("{truncated_normal}", str(csim("truncated_normal"))) for word in command]


def on_terminal(command: list[str], columns: int, **variables: str) -> str:
    """What a terminal of this width receives, from stdout and stderr."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [*ARS, *command], stdin=theirs, stdout=theirs, stderr=theirs, env={**env, "TERM": "xterm", **variables}
    )
    os.close(theirs)
    found = b""
    try:
        while part := os.read(ours, 65536):
            found += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait(60) == 0
    return found.decode()


def test_everything_fits_a_narrow_terminal(csim: Callable[[str], str]) -> None:
    text = on_terminal(words(INFER, csim), 50)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    lines = [line for line in re.split(r"[\r\n]+", plain) if line]
    assert max(map(len, lines)) <= 50
    assert any(line.startswith("traces ") and "100 %" in line for line in lines)
    assert any(line.split()[:1] == ["x_final"] for line in lines)
    assert "\x1b[?25h" in text  # the cursor is visible again
    coloured = re.compile(r"\x1b\[(?:[0-9;]*;)?[39]\dm")
    assert coloured.search(text)
    assert not coloured.search(on_terminal(words(INFER, csim), 50, NO_COLOR="1"))


@pytest.mark.slow
def test_the_demo_fits_80_columns(csim: Callable[[str], str], tmp_path: Path) -> None:
    simulators = str(Path(csim("truncated_normal")).parent)
    text = on_terminal(["demo", "--quick", "--simulator", simulators, "--out", str(tmp_path / "out")], 80)
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text))
    long = [line for line in lines if len(line) > 80]
    assert all(str(tmp_path) in line for line in long)  # a path is not broken
    rows = [line.split() for line in lines]
    assert [row[0] for row in rows if row[:1] in (["ars"], ["ic"], ["biased"])] == [*["ars"] * 3, "ic", "biased"] * 2


def piped(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*ARS, *command], capture_output=True, text=True, timeout=120, check=False, **options)


def test_a_pipe_gets_plain_text_whatever_the_colours(csim: Callable[[str], str]) -> None:
    found = [piped(words(INFER, csim), env={**os.environ, **more}) for more in ({}, {"FORCE_COLOR": "1"})]
    for each in found:
        assert each.returncode == 0 and "\x1b" not in each.stdout + each.stderr
    tables = [each.stdout.partition("\n")[2] for each in found]  # the first line has the speed
    assert tables[0] == tables[1]
    assert re.search(r"^x_final {18}", tables[0], re.M)  # columns stay where they are


@pytest.mark.parametrize(
    ("command", "fields"),
    [
        (INFER, {"complete", "weightings", "advice"}),
        (["inspect", "{truncated_normal}", "b", "--traces", "50"], {"latents", "loops", "results", "policy"}),
        (
            ["replay", "{truncated_normal}", "b", "--seed", "1", "--trace", "3"],
            {"complete", "draws", "results", "loops"},
        ),
        (["record", "{truncated_normal}", "b", "--traces", "50", "--out", "recorded"], {"traces", "shards", "bytes"}),
        (["config"], {"cflags", "libs", "version", "includedir"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_json_is_one_document_and_nothing_else(
    csim: Callable[[str], str], tmp_path: Path, command: list[str], fields: set[str]
) -> None:
    done = piped([*words(command, csim), "--json"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert fields <= json.loads(done.stdout).keys()


def test_version() -> None:
    assert piped(["--version"]).stdout == f"ars {ars.__version__}\n"


def test_a_reader_that_goes_away_is_no_error(csim: Callable[[str], str]) -> None:
    """As ``ars inspect | head -c 1``: the run ends quietly, with the code that shells show for SIGPIPE."""
    process = subprocess.Popen(
        [*ARS, *words(INFER, csim), "--quiet"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141 and errors == ""


def test_mistakes_name_the_option(csim: Callable[[str], str], tmp_path: Path) -> None:
    done = piped([*words(INFER, csim), "--seconds", "1", "--resume", str(tmp_path)])
    assert done.returncode == 2
    assert "--seconds cannot be combined with --resume" in done.stderr


def test_a_mistake_is_not_buried_under_all_options(csim: Callable[[str], str]) -> None:
    done = piped([*words(INFER, csim), "--traces", "-5"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "ars infer: error: argument --traces: -5 is less than 1",
        "The options are listed by: ars infer --help",
    ]


def test_an_unknown_option_names_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["check", "./sim", "--quite"])
    assert left.value.code == 2
    said = "ars check: error: unrecognized arguments: --quite\nThe options are listed by: ars check --help\n"
    assert capsys.readouterr().err == said


def test_an_event_is_logged_in_the_words_of_a_warning() -> None:
    code = "import logging, sys; from ars.cli import config; import ars.cli\n"
    code += "config.run = lambda arguments: logging.getLogger('ars.runtime').warning('so many times') or 0\n"
    code += "sys.exit(ars.cli.main(sys.argv[1:]))"
    plain, verbose = (
        subprocess.run([sys.executable, "-c", code, *options, "config"], capture_output=True, text=True, check=True)
        for options in ([], ["-v"])
    )
    assert plain.stderr == "ars config: warning: so many times\n"
    assert "ars config: ars.runtime: warning: so many times\n" in verbose.stderr


def test_a_misspelt_observation_is_named_with_its_option(csim: Callable[[str], str]) -> None:
    done = piped(["infer", csim("truncated_normal"), "b", "--observe", "z=-1", "--traces", "10", "--quiet"])
    assert done.returncode == 1
    assert 'observes "y", for which no data were given; given: "z". Add it to --observe, as NaN' in done.stderr


def test_a_training_ends_with_lines_that_fit(csim: Callable[[str], str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    out = str(tmp_path / "a.safetensors")
    command = ["train", "{truncated_normal}", "b", "--traces", "128", "--batch-size", "64", "--lstm-dim", "8"]
    text = on_terminal([*words(command, csim), "--out", out, "--quiet"], 50)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "").splitlines()
    assert lines[0].startswith("Network of ") and not re.search("[<>]", "".join(lines))
    assert any(line.startswith("TrainingHistory: 128 traces, loss ") for line in lines)
    assert max(len(line) for line in lines) <= 50


def test_every_help_fits_80_columns_and_keeps_its_examples() -> None:
    env = {**os.environ, "COLUMNS": "80"}
    for command in (*COMMANDS, "cluster slurm"):
        done = piped([*command.split(), "--help"], env=env)
        assert done.returncode == 0
        assert [line for line in done.stdout.splitlines() if len(line) > 80] == [], command
        if command == "completion":
            assert '\n  eval "$(ars completion bash)"\n  eval "$(ars completion zsh)"\n' in done.stdout


# ---- completion ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "offered"),
    [("ars inf", {"infer"}), ("ars infer --requ", {"--require-ess", "--require-k"}), ("ars completion f", {"fish"})],
)
def test_a_shell_completes(line: str, offered: set[str]) -> None:
    pytest.importorskip("argcomplete")
    read, write = os.pipe()
    env = {**os.environ, "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    env |= {"_ARGCOMPLETE_STDOUT_FILENAME": f"/dev/fd/{write}"}
    subprocess.run(ARS, env=env, pass_fds=[write], capture_output=True, check=False, timeout=60)
    os.close(write)
    with os.fdopen(read) as answer:
        assert set(answer.read().split()) == offered


def test_the_code_for_a_shell(tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    done = piped(["completion", "bash"])
    script = tmp_path / "completion.bash"
    script.write_text(f"{done.stdout}\ncomplete -p ars\n")
    shown = subprocess.run(["bash", "--norc", str(script)], capture_output=True, text=True, check=True, timeout=60)
    assert "_python_argcomplete" in shown.stdout


# ---- a notebook ------------------------------------------------------------------------------------------------------

CELL = """
import ars
with ars.Simulator([{exe!r}, "b"]) as sim:
    post = sim.posterior({{"y": -1.0}}, 300, seed=1, progress=True)
    prior = sim.prior(50, seed=1)
from IPython.display import display
display(post)
display(prior)
display(post.loops)
import ars.plots
axes = ars.plots.plot_posterior(post, "x_final")
"""


@pytest.mark.timeout(120)
def test_a_notebook_shows_bars_tables_and_plots(csim: Callable[[str], str]) -> None:
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel()
    shown: list[dict[str, Any]] = []

    def hook(message: dict[str, Any]) -> None:
        if message["msg_type"] in ("display_data", "update_display_data"):
            shown.append(message)
        assert message["msg_type"] != "error", message["content"]

    try:
        client.execute_interactive(CELL.format(exe=str(csim("truncated_normal"))), output_hook=hook, timeout=90)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=False)
    html = [message["content"]["data"].get("text/html", "") for message in shown]
    bars = [text for text in html if "<progress" in text]
    assert bars and 'value="300" max="300"' in bars[-1]
    updates = [message for message in shown if message["msg_type"] == "update_display_data"]
    assert updates, "the bar is updated in place"
    assert any("Posterior of" in text and "x_final" in text for text in html)
    assert any("Traces of" in text for text in html) and any("Loops" in text for text in html)
    assert sum("image/png" in message["content"]["data"] for message in shown) == 1


def test_a_network_in_a_notebook(simulator: Callable[..., ars.Simulator]) -> None:
    pytest.importorskip("torch")
    sim = simulator("gaussian")
    html = sim.train(400, 8, batch_size=50, seed=1, threads=1)._repr_html_()
    assert "Network of" in html and "mu" in html and "8 x" in html
