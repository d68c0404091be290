"""The C source of a program of ``programs.py``."""

from __future__ import annotations

import numpy as np
from programs import (
    Branch,
    Call,
    Dist,
    Draw,
    Expr,
    Factor,
    Loop,
    Observe,
    ObserveNormals,
    Program,
    Repeat,
    Result,
    Sample,
    SampleVector,
    Statement,
    VectorDist,
)


def _c_number(value: float) -> str:
    return {np.inf: "INFINITY", -np.inf: "-INFINITY"}.get(value) or repr(float(value))


def _c_expr(expr: Expr) -> str:
    parts = [_c_number(expr.constant)]
    for coefficient, function, scale, variable, shift in expr.terms:
        name = {"same": ""}.get(function, function)
        parts.append(f"{_c_number(coefficient)} * {name}({_c_number(scale)} * ({variable} - {_c_number(shift)}))")
    return " + ".join(parts)


def _c_dist(dist: Dist) -> str:
    params = [_c_expr(param) for param in dist.params]
    if dist.kind == "categorical":
        return f"ars_categorical((double[]){{{', '.join(params)}}}, {len(params)})"
    if dist.kind == "binomial":
        params[0] = f"(unsigned)({params[0]})"
    return f"ars_{dist.kind}({', '.join(params)})"


def _c_vector_dist(dist: VectorDist) -> str:
    n = len(dist.first)
    first = f"(double[]){{{', '.join(map(_c_expr, dist.first))}}}"
    if dist.kind == "dirichlet":
        return f"ars_dirichlet({first}, {n})"
    rows = [_c_expr(row[j]) if j < len(row) else "0" for row in dist.rows for j in range(n)]
    return f"ars_multivariate_normal({first}, (double[]){{{', '.join(rows)}}}, {n})"


def _visible_after(body: tuple[Statement, ...]) -> list[str]:
    names = []
    for statement in body:
        match statement:
            case Sample() | Draw():
                names.append(statement.name)
            case SampleVector():
                names += statement.variables
            case Branch() | Repeat() | Call():
                names.append(statement.out)
            case Loop():
                names += _visible_after(statement.body)
    return names


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.indent = 1

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def block(self, body: tuple[Statement, ...], declared: frozenset[str] = frozenset()) -> None:
        self.indent += 1
        for statement in body:
            self.statement(statement, declared)
        self.indent -= 1

    def statement(self, s: Statement, declared: frozenset[str]) -> None:
        def target(name: str) -> str:
            return name if name in declared else f"double {name}"

        match s:
            case Sample(name, dist):
                self.line(f'{target(name)} = ars_sample("{name}", {_c_dist(dist)});')
            case SampleVector(name, vector):
                self.line(f"double {name}[{len(vector.first)}];")
                self.line(f'ars_sample_vector("{name}", (ars_dist[]){{{_c_vector_dist(vector)}}}, 1, {name});')
                for i, variable in enumerate(s.variables):
                    self.line(f"{target(variable)} = {name}[{i}];")
            case Draw(name, dist):
                self.line(f"{target(name)} = ars_draw({_c_dist(dist)});")
                self.line(f'ars_result("{name}", {name});')
            case Loop():
                self.loop(s, declared)
            case Branch():
                if s.out not in declared:
                    self.line(f"double {s.out};")
                self.line(f"if ({_c_expr(s.condition)} > 0) {{")
                self.block(s.then)
                self.line(f"    {s.out} = {_c_expr(s.then_value)};")
                self.line("} else {")
                self.block(s.other)
                self.line(f"    {s.out} = {_c_expr(s.other_value)};")
                self.line("}")
            case Repeat():
                self.line(f"{target(s.out)} = 0;")
                self.line(f"for (int {s.out}_i = 0; {s.out}_i < (int)({_c_expr(s.count)}); {s.out}_i++) {{")
                self.block(s.body)
                self.line(f"    {s.out} += {_c_expr(s.value)};")
                self.line("}")
            case Call(out, helper, arguments):
                self.line(f"{target(out)} = {helper}({', '.join(map(_c_expr, arguments))});")
            case Observe(name, dist):
                self.line(f'ars_observe("{name}", {_c_dist(dist)});')
            case ObserveNormals(name, means, stds):
                arrays = ", ".join(f"(double[]){{{', '.join(map(_c_expr, part))}}}" for part in (means, stds))
                self.line(f'ars_observe_normals("{name}", {arrays}, {len(means)}, NULL);')
            case Factor(name, value):
                self.line(f'ars_factor("{name}", {_c_expr(value)});')
            case Result(name, value):
                self.line(f'ars_result("{name}", {_c_expr(value)});')

    def loop(self, loop: Loop, declared: frozenset[str]) -> None:
        """What the body draws is used after the loop, so it is declared before it."""
        new = [name for name in _visible_after(loop.body) if name not in declared]
        if new:
            self.line(f"double {', '.join(new)};")
        self.line("for (;;) {")
        self.line(f'    rs_start("{loop.name}");' if loop.name else "    rs_start();")
        self.block(loop.body, declared | frozenset(new))
        self.line(f"    if ({_c_expr(loop.accept)} > 0) {{")
        self.line("        rs_end();")
        self.line("        break;")
        self.line("    }")
        self.line("}")


def to_c(program: Program) -> str:
    """The program's functions; the last one is its model."""
    text = []
    for helper in program.helpers:
        writer = _Writer()
        parameters = ", ".join(f"double {name}" for name in helper.parameters)
        for statement in helper.body:
            writer.statement(statement, frozenset())
        writer.line(f"return {_c_expr(helper.value)};")
        text.append(f"static double {helper.name}({parameters}) {{\n" + "\n".join(writer.lines) + "\n}\n")
    writer = _Writer()
    for statement in program.body:
        writer.statement(statement, frozenset())
    text.append(f"static void {program.model}(void *user) {{\n    (void)user;\n" + "\n".join(writer.lines) + "\n}\n")
    return "\n".join(text)


def to_c_file(programs: list[Program]) -> str:
    """One source file with all programs; the executable's first argument says which one to run."""
    models = ", ".join(program.model for program in programs)
    head = (
        "#include <ars.h>\n#include <math.h>\n#include <stdlib.h>\n\n"
        "static double soft(double x) {\n    return x / (1 + fabs(x));\n}\n"
    )
    main = (
        f"int main(int argc, char **argv) {{\n    static void (*const models[])(void *) = {{{models}}};\n"
        f"    int which = argc > 1 ? atoi(argv[1]) : -1;\n    if (which < 0 || which >= {len(programs)}) return 2;\n"
        "    (void)soft;\n    return ars_main(argc, argv, models[which], NULL);\n}\n"
    )
    return "\n".join([head, *map(to_c, programs), main])
