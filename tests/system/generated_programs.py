"""Random simulators, drawn from a seed, whose tries change every kind of state that a process has.

A program is a loop, or loops within each other, in a row, in recursion. Its tries change state of some of the kinds in
rewind/features.hpp, rewind/system_features.hpp and rewind/c_program.h; what they draw, whether they are accepted and
what the trace gives depends on every bit of it. So a state that a continuation changed and nobody put back is another
number somewhere. (Tries of a real simulator must not depend on the tries before them. Here they do, and the estimates
mean nothing, but they are the same bits however continuations are made.)

Twenty programs share a source file and an executable: see rewind/chosen.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ars

FOLDER = Path(__file__).resolve().parent / "rewind"
PER_FILE = 20
PROGRAMS = 200
C_FILES = 2  # of the ten

FEATURES = (
    *("globals", "thread_locals", "bit_fields", "function_pointers", "static_locals", "maps", "sequences"),
    *("shared_pointers", "exceptions", "generators", "printing", "heap", "leaks", "large_blocks", "kept_blocks"),
    *("mappings", "deep_stack", "jumps", "rounding", "float_flags", "float_units", "error_number", "c_library"),
)
C_FEATURES = (*("GLOBALS", "HEAP", "THREAD_LOCAL", "JUMPS", "DEEP", "ERRNO", "ROUNDING", "PRINTING", "GENERATORS"),)
SHAPES = ("one", "row", "within", "within_here", "recursion", "method")
# It may free a mapping that is older than the continuation, which cannot be undone.
MAY_FORK = frozenset({"kept_blocks"})

OBSERVE = {"y": 0.5}
PROPOSALS = {  # of all programs; none is the prior
    "x": ars.Beta(1.2, 1.4),
    "m": ars.Normal(0.4, 1.5),
    "e": ars.Exponential(0.7),
    "g": ars.Gamma(1.4, 0.8),
}
DRAWS = {
    "m": "ars_normal(unit, 0.5 + unit)",
    "e": "ars_exponential(0.5 + unit)",
    "g": "ars_gamma(1 + unit, 1)",
}


@dataclass(frozen=True)
class Program:
    index: int
    shape: str
    features: tuple[str, ...]
    size: int
    step: int

    @property
    def may_fork(self) -> bool:
        return bool(MAY_FORK.intersection(self.features))


def generate(seed: int, index: int) -> Program:
    """The same program for the same numbers; in C if its file is."""
    rng = np.random.default_rng([seed, index])
    in_c = index // PER_FILE < C_FILES
    kinds = C_FEATURES if in_c else FEATURES
    # every kind comes up often: the first one by turns, the others by chance
    others = [kind for kind in kinds if kind != kinds[index % len(kinds)]]
    chosen = rng.choice(len(others), size=int(rng.integers(2, 5)), replace=False)
    features = (kinds[index % len(kinds)], *(others[i] for i in chosen))
    shape = SHAPES[int(rng.integers(len(SHAPES) - in_c))]
    return Program(index, shape, features, int(rng.integers(1, 10)), int(rng.integers(1, 30)))


# ---- C++ -------------------------------------------------------------------------------------------------------------


def _steps(program: Program, features: Sequence[str]) -> str:
    numbers = f"{program.index}, {program.size}, {program.step}"
    return "\n".join(f"        hash.add({name}<{numbers}>::step(x));" for name in features)


def _loop(program: Program, name: str, features: Sequence[str], within: str, draw: str) -> str:
    """The statements of a loop; ``within``: what else its body does."""
    return f"""    double local = given;
    unsigned tries = 0;
    for (;;) {{
        rs_start("{name}{program.index}");
        const double x = ars_sample("x", ars_uniform(0, 1));
        rewind_test::hash hash({program.index});
        hash.add(x).add(local).add(++tries);
{_steps(program, features)}
{within}
        const double unit = hash.unit();
        local += 0.5 * unit - 0.25;
        const double {draw} = ars_sample("{draw}", {DRAWS[draw]});
        if (x + 0.05 * ({draw} > 1) < 0.35 + 0.4 * unit) {{
            rs_end();
            return local + 0.1 * {draw};
        }}
    }}
"""


def _cxx_functions(program: Program) -> tuple[str, str]:
    """Functions, and the statements of the model that call them."""
    name, index = f"p{program.index}", program.index
    rng = np.random.default_rng([index, 1])
    first, second = (str(rng.choice(list(DRAWS))) for _ in range(2))
    half = (len(program.features) + 1) // 2
    outer, inner = program.features[:half], program.features[half:]
    one = f"static double {name}_a(double given) {{\n{_loop(program, 'a', program.features, '', first)}}}\n"
    match program.shape:
        case "row":
            other = f"static double {name}_b(double given) {{\n{_loop(program, 'b', inner, '', second)}}}\n"
            return one + other, f"for (int i = 0; i < 3; i++) sum += {name}_a(sum);\n    sum += {name}_b(sum);"
        case "within":
            deep = f"static double {name}_b(double given) {{\n{_loop(program, 'b', inner, '', second)}}}\n"
            call = f"        hash.add({name}_b(hash.unit()));"
            body = _loop(program, "a", outer, call, first)
            return f"{deep}static double {name}_a(double given) {{\n{body}}}\n", f"sum += {name}_a(0.5);"
        case "within_here":
            here = f"""        for (;;) {{
            rs_start("b{index}");
            const double {second} = ars_sample("{second}", {DRAWS[second].replace("unit", "hash.unit()")});
            local += 0.01 * {second};
            hash.add({second}).add({inner[0]}<{index}, {program.step}, {program.size}>::step({second}));
            if (hash.unit() < 0.6) {{
                rs_end();
                break;
            }}
        }}"""
            body = _loop(program, "a", outer, here, "g" if second != "g" else "e")
            return f"static double {name}_a(double given) {{\n{body}}}\n", f"sum += {name}_a(0.5);"
        case "recursion":
            again = f"        if (left > 0 && x < 0.7) hash.add({name}_a(hash.unit(), left - 1));"
            body = _loop(program, "a", program.features, again, first)
            return f"static double {name}_a(double given, int left) {{\n{body}}}\n", f"sum += {name}_a(0.5, 1);"
        case "method":
            body = _loop(program, "a", program.features, "", first)
            made = f"struct {name}_object {{\n    double given;\n    double run() const {{\n{body}    }}\n}};\n"
            call = f"std::function<double(double)> call = [](double given) {{ return {name}_object{{given}}.run(); }};"
            return made, f"{call}\n    for (int i = 0; i < 2; i++) sum += call(sum);"
    return one, f"sum += {name}_a(0.5);"


def _cxx(program: Program) -> str:
    functions, calls = _cxx_functions(program)
    numbers = f"{program.index}, {program.size}, {program.step}"
    resets = [f"    {name}<{numbers}>::reset();" for name in program.features]
    if program.shape == "within_here":
        half = (len(program.features) + 1) // 2
        resets.append(f"    {program.features[half]}<{program.index}, {program.step}, {program.size}>::reset();")
    ends = [f"    hash.add({name}<{numbers}>::step(0.5));" for name in program.features]
    lines = [
        f"// {program.shape}: {', '.join(program.features)}",
        functions,
        f"static void p{program.index}_reset() {{",
        *resets,
        "}",
        f"static double p{program.index}_run() {{",
        "    double sum = 0;",
        f"    {calls}",
        f"    rewind_test::hash hash({program.index});",
        *ends,
        "    return sum + hash.unit();",
        "}",
    ]
    return "\n".join(lines)


# ---- C ---------------------------------------------------------------------------------------------------------------


def _c(program: Program) -> str:
    shape = {"one": 0, "within": 1, "within_here": 1, "recursion": 2}.get(program.shape, 3)
    defines = {"PROGRAM": program.index, "SIZE": program.size, "STEP": program.step, "SHAPE": shape}
    defines.update({f"WITH_{name}": int(name in program.features) for name in C_FEATURES})
    return "\n".join([*(f"#define {name} {value}" for name, value in defines.items()), '#include "c_program.h"'])


# ---- files -----------------------------------------------------------------------------------------------------------


def proposals(text: str) -> dict[str, ars.Distribution]:
    """For the latents that a source file has."""
    everything = text + (FOLDER / "c_program.h").read_text(encoding="utf-8") * ("c_program.h" in text)
    return {name: dist for name, dist in PROPOSALS.items() if f'ars_sample("{name}"' in everything}


def source(programs: Sequence[Program]) -> str:
    """The text of one source file, which takes its headers from rewind/."""
    in_c = programs[0].features[0] in C_FEATURES
    includes = ["<setjmp.h>", '"chosen.h"', '"hash.h"'] if in_c else ['"chosen.h"', '"system_features.hpp"']
    names = [
        (f"run_{p.index}", f"reset_{p.index}") if in_c else (f"p{p.index}_run", f"p{p.index}_reset") for p in programs
    ]
    table = ", ".join(f"{{{run}, {reset}}}" for run, reset in names)
    return "\n".join(
        [
            *(f"#include {name}" for name in includes),
            "" if in_c else "using namespace rewind_test;",
            *((_c if in_c else _cxx)(program) for program in programs),
            f"static const chosen_program all[] = {{{table}}};",
            f"int main(int argc, char **argv) {{ return chosen_main(argc, argv, all, {len(programs)}); }}",
            "",
        ]
    )


def write(seed: int, directory: Path) -> list[tuple[Path, list[Program]]]:
    """All source files, and the programs in each."""
    found = []
    for first in range(0, PROGRAMS, PER_FILE):
        programs = [generate(seed, index) for index in range(first, first + PER_FILE)]
        suffix = "c" if programs[0].features[0] in C_FEATURES else "cpp"
        path = directory / f"generated_{first // PER_FILE}.{suffix}"
        path.write_text(source(programs), encoding="utf-8")
        found.append((path, programs))
    return found
