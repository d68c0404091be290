"""Pythia 8 (GPL-2 or later): the tau decays of the stock binary. Sources: csim/generators/pythia.

The wheel ``pythia8mc`` is a Python extension with all of Pythia in it. It is linked as a library: its symbols are
exported, and the Python functions that it would call are replaced by a library that has their names and nothing else.
The headers come from the source distribution.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import ars
from ars.columns import Floats
from ars.errors import CompileError
from ars.plots import OKABE_ITO
from ars.toolchain.compiler import compiled_quietly
from ars_lab.generators.fetch import Kitchen, Unavailable
from ars_lab.generators.result import Check, Observation
from ars_lab.generators.spec import Built, Generator, Quantity, Size
from ars_lab.reproduce.settings import Network as NetworkSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CELLS", "PITCH", "bitwise", "build", "generator", "patched"]

WHEEL: Final = "pythia8mc==8.318.2"
SOURCE: Final = "pythia8mc==8.318.0"  # the last one with a source distribution; its headers fit the wheel
CELLS: Final = 6  # the calorimeter of tau.cpp, per side
PITCH: Final = 0.05
_TREE: Final = "pythia8mc-8.318.0/pythia8318"
_HEADERS: Final = f"{_TREE}/plugins/python/include"
_DECAYS: Final = f"{_TREE}/src/TauDecays.cc"
_ABI: Final = "-D_GLIBCXX_USE_CXX11_ABI=0"  # of manylinux2014, in which wheels are built


# ---- build ---------------------------------------------------------------------------------------------------------


def build(kitchen: Kitchen) -> Built:
    """Fetches the wheel and the headers, and compiles the simulator.

    Parameters
    ----------
    kitchen : Kitchen
        Where to.

    Returns
    -------
    Built
        The simulator ``tau``.

    Raises
    ------
    Unavailable
        A package cannot be had.
    CompileError
        With the compiler's words.
    """
    sources = [kitchen.source("pythia", name) for name in ("tau.cpp", "mark_tau_decays.cpp")]
    made = kitchen.compiled("tau", sources, _flags(kitchen))
    return Built((str(made),), {"pythia8mc": WHEEL.partition("==")[2]})


def _flags(kitchen: Kitchen) -> list[str]:
    if platform.system() != "Linux":
        raise Unavailable("interposing functions of Pythia needs the dynamic linker of Linux")
    headers = kitchen.fetched(SOURCE, source=True, only=lambda path: path.startswith(_HEADERS) or path == _DECAYS)
    library, data = _library(kitchen)
    return [
        "-std=c++17",
        "-O2",
        "-g",
        _ABI,
        f'-DTAU_XMLDOC="{data}"',
        "-isystem",
        str(headers / _HEADERS),
        f"-L{library.parent}",
        "-lpythia8",
        "-lno_python",
        "-Wl,-rpath,$ORIGIN",
        "-ldl",
    ]


def _library(kitchen: Kitchen) -> tuple[Path, Path]:
    """libpythia8.so, which is the wheel's extension as it came, and the folder of Pythia's data."""
    wheel = kitchen.fetched(WHEEL, only=lambda path: path.endswith(".so") or _is_data(path))
    extensions, data = sorted(wheel.glob("pythia8mc*.so")), sorted(wheel.glob("*.data/data/share/Pythia8/xmldoc"))
    if len(extensions) != 1 or len(data) != 1:
        raise Unavailable(
            f"{WHEEL} is not laid out as expected: {len(extensions)} extensions, {len(data)} data folders"
        )
    library, stubs = kitchen.folder / "libpythia8.so", kitchen.folder / "libno_python.so"
    if not library.exists():
        library.symlink_to(extensions[0])
    if not stubs.exists():
        _stub_python(extensions[0], stubs)
    return library, data[0]


def _is_data(path: str) -> bool:
    return "/share/Pythia8/" in path and "/htmldoc/" not in path and "/pdfdata/" not in path


def _stub_python(extension: Path, made: Path) -> None:
    """A library with the Python symbols that the extension refers to. They are never called: nobody imports it."""
    if shutil.which("nm") is None:
        raise CompileError("nm is missing, which lists the symbols of Pythia's library: apt-get install binutils")
    listed = subprocess.run(
        ["nm", "-D", "--undefined-only", str(extension)], capture_output=True, text=True, check=True
    ).stdout
    symbols = sorted({line.split()[-1].partition("@")[0] for line in listed.splitlines()})
    python = [symbol for symbol in symbols if symbol.lstrip("_").startswith("Py")]
    source = made.with_suffix(".c")
    source.write_text("".join(f"char {symbol}[256];\n" for symbol in python))
    compiler = shutil.which("cc") or shutil.which("gcc") or "clang"
    complaint = compiled_quietly([compiler, "-w", "-shared", "-fPIC", str(source), "-o", str(made)], cwd=made.parent)
    if complaint is not None:
        raise CompileError(f"the stand-in for Python cannot be compiled\n{complaint}")


# ---- the same weights as with marks in Pythia's source ------------------------------------------------------------


def patched(kitchen: Kitchen) -> Built:
    """The same simulator, with rs_start and rs_end in Pythia's own source instead of interposed handles.

    Only TauDecays.cc is compiled, patched; its functions come before those of the stock library.

    Parameters
    ----------
    kitchen : Kitchen
        Where to.

    Returns
    -------
    Built
        The simulator ``tau_patched``.
    """
    flags = _flags(kitchen)
    original = kitchen.fetched(SOURCE, source=True) / _DECAYS
    text = original.read_text()
    changes = {
        "isotropicDecay(children);": 'rs_start("tau decay");\n    isotropicDecay(children);',
        "writeDecay(event,children);": "rs_end();\n  writeDecay(event,children);",
    }
    for old, new in changes.items():
        if text.count(old) != 2:  # the tau, and its partner
            raise Unavailable(f"TauDecays.cc of {SOURCE} is not as expected: {old} occurs {text.count(old)} times")
        text = text.replace(old, new)
    copy = kitchen.folder / "TauDecays_patched.cc"
    new_text = f"#include <ars.h>\n{text}"
    if not copy.exists() or copy.read_text() != new_text:
        copy.write_text(new_text)
    made = kitchen.compiled("tau_patched", [kitchen.source("pythia", "tau.cpp"), copy], flags)
    return Built((str(made),), {"pythia8mc": WHEEL.partition("==")[2]})


def bitwise(kitchen: Kitchen, built: Built, observe: Mapping[str, Floats], traces: int = 200) -> Check:
    """Compares the weights of handles in interposed functions with those of marks in a patched source, bit by bit.

    The latents of the two builds have different call paths, so proposals by hand go by what the paths end in.

    Parameters
    ----------
    kitchen : Kitchen
        Where the patched build is made.
    built : Built
        The simulator with interposed functions.
    observe : mapping
        The data.
    traces : int, optional
        Traces of each (default: 200).

    Returns
    -------
    Check
        Kept if all weights and latents are equal to the last bit.
    """
    found = [_weights_by_hand(each, observe, traces) for each in (built, patched(kitchen))]
    (ours, our_values), (theirs, their_values) = found
    same = np.array_equal(ours, theirs) and np.array_equal(our_values, their_values, equal_nan=True)
    different = int((ours != theirs).sum())
    return Check(
        "ARS weights with interposed handles equal those with rs_start in a patched TauDecays.cc, bit for bit",
        bool(same),
        f"{different} of {traces} differ" if not same else f"{traces} of {traces} are equal",
    )


def _weights_by_hand(built: Built, observe: Mapping[str, Floats], traces: int) -> tuple[Floats, Floats]:
    with built.simulator() as simulator:
        angles = sorted(name for name in simulator.prior(20, seed=1).latents if "phaseSpace2" in name)
        proposals: dict[str, Any] = {"energy": ars.Uniform(30, 80)}
        for name in angles:
            proposals[name] = ars.Beta(1.5, 1.2)
        post = simulator.posterior(
            observe, traces, proposals=proposals, budget=ars.Budget(M=2, N=10), in_loops="proposal", seed=5
        )
        values = np.concatenate([post[name].reshape(traces, -1) for name in ("energy", "channel", *angles)], axis=1)
        return post.log_weights("ars"), values


# ---- the picture -----------------------------------------------------------------------------------------------------


def draw(figure: Figure, observation: Observation) -> None:
    """The two layers of the calorimeter, with the direction of the tau.

    Parameters
    ----------
    figure : Figure
        Where to draw.
    observation : Observation
        The data and the truth.
    """
    layers = observation.data["calorimeter"].reshape(2, CELLS, CELLS)
    edges = (np.arange(CELLS + 1) - CELLS / 2) * PITCH * 1000
    top = float(layers.max())
    panels: list[Axes] = list(figure.subplots(1, 2, sharey=True))
    for axes, layer, title in zip(panels, layers, ("electromagnetic layer", "hadronic layer"), strict=True):
        mesh = axes.pcolormesh(edges, edges, layer, cmap="cividis", vmin=0.0, vmax=top)
        x, y = (1000 * observation.truth[name] for name in ("x", "y"))
        axes.plot(
            [x], [y], "x", color=OKABE_ITO["vermillion"], markersize=11, markeredgewidth=2.2, label="true direction"
        )
        axes.set_title(title)
        axes.set_xlabel("slope x [mrad]")
        axes.set_aspect("equal")
    panels[0].set_ylabel("slope y [mrad]")
    panels[0].legend(loc="lower left")
    figure.colorbar(mesh, ax=panels, label="measured energy [GeV]")


# ---- the description ----------------------------------------------------------------------------------------------

_TEXT: Final = """
[Pythia 8](https://pythia.org) is the event generator of many collider experiments (GPL-2 or later). In this example, a
tau lepton of unknown energy and direction decays into a pion or kaon, an electron, or a muon. Neutrinos carry part of
the energy away. A small calorimeter with two layers of 6 x 6 cells measures the rest. The energy and direction of the
tau are inferred from these 72 numbers.

Pythia is the unmodified binary of the wheel `pythia8mc`. The code is in
[csim/generators](../csim/generators/README.md): a simulator of 160 lines, and three short functions that the dynamic
linker places before Pythia's own. They mark the loop of `TauDecays::decay`, which draws a decay uniformly in phase
space until the matrix element accepts it. Pythia's random numbers come from libars through `ars/pythia8.hpp`.

The latents are the tau's energy, slopes and channel, which the simulator draws, and the angles of the decay, which
Pythia draws inside the loop. The angles are named by their call path, which ends in
`TauDecays::isotropicDecay#1>Rndm::phaseSpace2#1>Rndm::flat#1`. Two lines of policy turn all other draws of Pythia
(invariant masses, the acceptance, lifetimes) into nuisances.
"""


def generator() -> Generator:
    """Pythia's tau decays.

    Returns
    -------
    Generator
        The description.
    """
    return Generator(
        name="pythia",
        title="Pythia 8: the energy of a tau lepton",
        text=_TEXT,
        prepare=build,
        quantities=(
            Quantity("energy", "tau energy", "GeV", 20, 80),
            Quantity("x", "slope x", "mrad", -120, 120, 1000),
            Quantity("y", "slope y", "mrad", -120, 120, 1000),
        ),
        seed=1,
        trace=62,
        full=Size(
            NetworkSettings(30_000, 32, batch_size=128, components=5),
            traces=20_000,
            traces_prior=100_000,
            steps=2000,
            warmup=500,
            refine=ars.RefineConfig(rounds=4, traces=4000, effective=500, steps=200),
        ),
        quick=Size(
            NetworkSettings(2_000, 16, batch_size=64, components=3),
            traces=200,
            traces_prior=200,
            steps=20,
            chains=4,
            budget=ars.Budget(M=1, R=1),
        ),
        draw=draw,
        caption="The observation: energies in the two layers of the calorimeter, in GeV, and the direction of the tau.",
        checks=lambda kitchen, built, data: [bitwise(kitchen, built, data)],
    )
