"""NCrystal (Apache-2.0): neutrons, a crystal and a detector bank. Sources: csim/generators/ncrystal.

The wheel ``ncrystal-core`` has headers, a shared library and all data. It is used as it comes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

import ars
from ars.columns import Floats
from ars.plots import OKABE_ITO
from ars_lab.generators.fetch import Kitchen, Unavailable
from ars_lab.generators.result import Check, Observation
from ars_lab.generators.spec import Built, Generator, Quantity, Size
from ars_lab.reproduce.settings import Network as NetworkSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["bragg_angle", "build", "generator", "geometry", "names"]

WHEEL: Final = "ncrystal-core==4.4.6"
D_SPACING: Final = 3.26627  # angstrom, of the (111) planes of germanium
BANK: Final = ((65.0, 115.0), (-20.0, 20.0))  # of crystal.c, degrees
RESOLUTION: Final = (1.2, 3.0)
WAVELENGTHS: Final = (4.45, 4.85)  # of the prior
_CHOICE: Final = "ProcComposition::sampleScatter"  # the function of NCrystal whose draw is a latent


# ---- build ---------------------------------------------------------------------------------------------------------


def build(kitchen: Kitchen, name: str = "crystal", optimisation: str = "-O2") -> Built:
    """Fetches the wheel, and compiles the simulator.

    Parameters
    ----------
    kitchen : Kitchen
        Where to.
    name : str, optional
        File name of the executable (default: "crystal").
    optimisation : str, optional
        Flag for the compiler (default: "-O2").

    Returns
    -------
    Built
        The simulator.

    Raises
    ------
    Unavailable
        The package cannot be had, or is laid out otherwise.
    CompileError
        With the compiler's words.
    """
    data = kitchen.fetched(WHEEL) / "_ncrystal_core" / "data"
    library = data / "lib" / "libNCrystal.so"
    if not library.exists() or not (data / "include" / "NCrystal" / "cinterface" / "ncrystal.h").exists():
        raise Unavailable(f"{WHEEL} is not laid out as expected: no library or no header in {data}")
    flags = [optimisation, "-g", "-isystem", str(data / "include"), str(library), f"-Wl,-rpath,{library.parent}"]
    made = kitchen.compiled(name, [kitchen.source("ncrystal", "crystal.c")], flags)
    return Built((str(made),), {"ncrystal-core": WHEEL.partition("==")[2]})


# ---- checks of its own ---------------------------------------------------------------------------------------------


def bragg_angle(wavelength: Floats | float) -> Floats:
    """The angle 2 theta by which the (111) planes reflect.

    Parameters
    ----------
    wavelength : array or float
        In angstrom.

    Returns
    -------
    array
        In degrees.
    """
    return np.asarray(np.degrees(2 * np.arcsin(np.asarray(wavelength, np.float64) / (2 * D_SPACING))))


def geometry(built: Built, traces: int = 1500) -> Check:
    """Simulated neutrons lie where Bragg's law puts them.

    The spot is at 2 theta of the wavelength, and a tilt of the planes by t lifts it by 2 sin(theta) t.

    Parameters
    ----------
    built : Built
        The simulator.
    traces : int, optional
        Traces from the prior (default: 1,500).

    Returns
    -------
    Check
        Kept if the median deviation across is below 0.3 degrees, and the lift per tilt within 7% of 2 sin(theta).
    """
    with built.simulator() as simulator:
        prior = simulator.prior(traces, seed=3)
    angle = bragg_angle(prior["wavelength"])[:, None]
    across, up = prior.observations["across"] - angle, prior.observations["up"]
    tilt = np.broadcast_to(prior["tilt"][:, None], up.shape)
    lift = 2 * np.sin(np.radians(angle / 2)) * tilt
    near = np.abs(across) < 5  # the others are background
    near &= np.abs(up - lift) < 8
    off = float(np.median(across[near]))
    slope = float((up[near] * lift[near]).sum() / (lift[near] ** 2).sum())
    return Check(
        "simulated neutrons obey Bragg's law, horizontally and vertically",
        bool(near.mean() > 0.5 and abs(off) < 0.3 and abs(slope - 1) < 0.07),
        f"{near.mean():.0%} in the spot, offset {off:+.2f} degrees, vertical shift {slope:.2f} times 2 sin(theta) tilt",
    )


def names(kitchen: Kitchen, built: Built) -> Check:
    """The latents have the same names when the simulator is compiled without optimisation.

    Parameters
    ----------
    kitchen : Kitchen
        Where the other build is made.
    built : Built
        The simulator.

    Returns
    -------
    Check
        Kept if they do, and one of them is drawn by NCrystal.
    """
    found = []
    for each in (built, build(kitchen, "crystal_O0", "-O0")):
        with each.simulator() as simulator:
            found.append(sorted(simulator.prior(20, seed=1).latents))
    by_ncrystal = [name for name in found[0] if _CHOICE in name]
    drawn = ", ".join(map(_end, by_ncrystal))
    return Check(
        "latents have the same names after compiling with other flags",
        found[0] == found[1] and len(by_ncrystal) == 1,
        f"{len(found[0])} latents with -O2, {len(found[1])} with -O0; NCrystal draws {drawn}",
    )


def _end(path: str) -> str:
    """The function that draws, of a whole call path."""
    return f"`{path.rpartition('>')[2].removeprefix('NCrystal::ProcImpl::')}`"


# ---- the picture -----------------------------------------------------------------------------------------------------


def draw(figure: Figure, observation: Observation) -> None:
    """The bank with its hits, and Bragg's law.

    Parameters
    ----------
    figure : Figure
        Where to draw.
    observation : Observation
        The data and the truth.
    """
    across, up = observation.data["across"], observation.data["up"]
    wavelength, tilt = observation.truth["wavelength"], observation.truth["tilt"]
    angle = float(bragg_angle(wavelength))
    panels: list[Axes] = list(figure.subplots(1, 2))
    bank, law = panels
    bank.errorbar(across, up, RESOLUTION[1], RESOLUTION[0], "o", color=OKABE_ITO["blue"], label="detected neutrons")
    lift = 2 * math.sin(math.radians(angle / 2)) * tilt
    red = OKABE_ITO["vermillion"]
    bank.plot([angle], [lift], "x", color=red, markersize=11, markeredgewidth=2.2, label="true spot")
    bank.set(xlim=BANK[0], ylim=BANK[1], xlabel="across [degrees]", ylabel="up [degrees]", title="detector bank")
    bank.legend(loc="lower left")
    range_ = np.linspace(*WAVELENGTHS, 100)
    law.plot(range_, bragg_angle(range_), color=OKABE_ITO["black"], label="germanium (111)")
    for k, each in enumerate(across):
        law.axhspan(
            each - RESOLUTION[0],
            each + RESOLUTION[0],
            color=OKABE_ITO["blue"],
            alpha=0.2,
            label="detected neutrons" if k == 0 else None,
        )
    law.axvline(wavelength, color=red, linestyle="-.", label="true wavelength")
    law.set(xlim=WAVELENGTHS, ylim=(82, 100), xlabel="wavelength [Å]", ylabel="across [degrees]", title="Bragg's law")
    law.legend(loc="lower right")


# ---- the description -------------------------------------------------------------------------------------------------

_TEXT: Final = """
[NCrystal](https://github.com/mctools/ncrystal) simulates the scattering of thermal neutrons in crystals (Apache-2.0)
and is used to design instruments at neutron sources. In this example, a beam of unknown wavelength falls on a mosaic
germanium crystal. The orientation of the crystal is unknown, too: it is turned and tilted by unknown angles relative
to its nominal position. A detector bank sees four neutrons. The wavelength and both angles are inferred from their
positions.

NCrystal is the unmodified library of the wheel `ncrystal-core`. The simulator is in
[csim/generators/ncrystal](../csim/generators/ncrystal/README.md) and has 130 lines of C. NCrystal requests random
numbers through a function pointer, which the simulator sets to `ars_flat_function` of `ars/flat.h`. Each neutron is a
rejection loop: neutrons leave the source until one is scattered into the bank. At the reflection most neutrons are
accepted, and far from it about one in a hundred, so the loop's acceptance depends on wavelength and orientation.

The latents are the wavelength and the two angles. Inside the loop there are three more. The simulator draws the
deviation of the neutron's wavelength and the depth at which it is scattered. NCrystal draws the choice between Bragg
reflection and other processes, which is named by its call path. Two lines of policy turn all other draws of NCrystal
into nuisances.

The data strongly constrain the wavelength and the tilt, which move the spot horizontally and vertically. They say
little about the turn, because a turned crystal reflects fewer neutrons, but to the same place.
"""


def generator() -> Generator:
    """Neutrons in a crystal.

    Returns
    -------
    Generator
        The description.
    """
    return Generator(
        name="ncrystal",
        title="NCrystal: the wavelength of neutrons and the orientation of a crystal",
        text=_TEXT,
        prepare=build,
        quantities=(
            Quantity("wavelength", "wavelength", "Å", *WAVELENGTHS),
            Quantity("turn", "turn of the crystal", "degrees", -5, 5),
            Quantity("tilt", "tilt of the crystal", "degrees", -7, 7),
        ),
        seed=1,
        trace=10,
        full=Size(
            NetworkSettings(60_000, 32, batch_size=128, components=5),
            traces=30_000,
            traces_prior=60_000,
            steps=800,
            warmup=200,
            refine=ars.RefineConfig(rounds=4, traces=4000, most=6, effective=500, steps=200),
        ),
        quick=Size(
            NetworkSettings(2_000, 16, batch_size=64, components=2),
            traces=300,
            traces_prior=300,
            steps=20,
            chains=4,
            budget=ars.Budget(M=1, R=1),
        ),
        draw=draw,
        caption="The observation: the neutrons in the detector bank, with their resolution, and Bragg's law.",
        checks=lambda kitchen, built, _: [geometry(built), names(kitchen, built)],
    )
