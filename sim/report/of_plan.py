"""The report of the folder of a plan."""

import shlex
from pathlib import Path
from typing import Any

import pandas as pd

from sim.about_file import read_about
from sim.csv_rows import read_rows
from sim.report.about import settings, versions_in_words, whole
from sim.report.page import Block, Cell, Code, Page, Plot, Section, Table, Words
from sim.report.plan_figures import curve
from sim.scenario.file import load_scenario
from sim.scenario.value_text import value_text
from sim.tables import number

Data = dict[str, Any]

FILE = "plan.json"


def page_of_plan(folder: Path) -> Page:
    """Raises UserError for a folder that is not of a plan."""
    plan, runs = _read(folder)
    best = plan["best"]
    return Page(
        title=f"{folder.name}: plan of {best['find']}",
        about=f"{plan['options']['slo']}; system {best['system']}, {best['model']} on "
        f"{best['hardware']}, kvsim {plan['versions']['kvsim']}",
        verdict=[_sentence(text) for text in _lines(plan)],
        sections=[
            *_alternatives(plan),
            Section("Promises", [_curve(plan, runs), _promises(best)]),
            *_neighbours(plan),
            *_vllm(plan),
            *_at_answer(folder),
            Section("What it rests on", [Words(plan["notes"])]),
            Section("How to repeat it", [Code(_command(plan)), Words([versions_in_words(plan)])]),
        ],
    )


def _read(folder: Path) -> tuple[Data, pd.DataFrame]:
    plan = read_about(folder / FILE, "plan it again, which finds its runs")
    return plan, read_rows(folder / "curve.csv", dict.fromkeys(plan["best"]["settings"], str))


def _lines(plan: Data) -> list[str]:
    """The answer first; where there are alternatives, of which it is."""
    words, warnings = plan["words"], [f"warning: {text}" for text in plan["warnings"]]
    if len(plan["alternatives"]) > 1 and plan["best"]["answer"] is not None:
        words = [f"{words[0]}: {words[1]}", *words[2:]]
    return [*words, *warnings]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _at_answer(folder: Path) -> list[Section]:
    path = folder / "answer.yaml"
    if not path.is_file():
        return []
    scenario = load_scenario(path, [])
    return [Section("Settings", [settings(scenario), *whole(path)], "at the answer")]


def _curve(plan: Data, runs: pd.DataFrame) -> Plot:
    best = plan["best"]
    of_best = pd.Series(True, index=runs.index)
    for key, value in best["settings"].items():
        of_best &= runs[key] == value_text(value)
    about = (
        f"How much of each limit is used: means over the runs of each value, with {_level(best)} "
        "intervals; what lies beyond three times the limit is at the upper edge."
    )
    return Plot("curve", curve(runs[of_best], best), about)


def _promises(best: Data) -> Table:
    rows = [
        [Cell(name), _percent(promise["used"]), _half_width(promise["half_width"])]
        for name, promise in best["promises"].items()
    ]
    headings = ("promise", "used of its limit", f"± at the answer ({_level(best)})")
    return Table(headings, rows)


def _level(best: Data) -> str:
    """Of the intervals that decide."""
    return f"{100 * best['confidence']:.4g} %"


def _percent(share: float | None) -> Cell:
    return Cell("no end", 1e9) if share is None else Cell(f"{share:.0%}", share)


def _half_width(share: float | None) -> Cell:
    return Cell("-", -1.0) if share is None else Cell(f"{share:.1%}", share)


def _alternatives(plan: Data) -> list[Section]:
    """The best first, and what cannot be."""
    every = plan["alternatives"]
    if len(every) < 2 and not plan["impossible"]:
        return []
    keys = list(every[0]["settings"])
    has_cost = any(one["cost_per_million_output_tokens"] is not None for one in every)
    headings = [*keys, plan["best"]["heading"], "GPUs", *["per million tokens"] * has_cost]
    rows = [[*_settings(one), *_answer(one, has_cost=has_cost)] for one in every]
    blocks: list[Block] = [Table(headings, rows)]
    if plan["impossible"]:
        blocks.append(Words([f"Cannot be: {one['reason']}" for one in plan["impossible"]]))
    if looks := plan["tried_coarsely"]:
        rows = [
            [*_settings(look), _look(look), Cell(str(look["gpus"]), look["gpus"])] for look in looks
        ]
        about = f"{len(looks)} more were tried coarsely, with few runs of few values:"
        blocks += [Words([about]), Table([*keys, plan["best"]["heading"], "GPUs"], rows)]
    return [Section("Alternatives", blocks, "the best first")]


def _look(look: Data) -> Cell:
    value = number(look["value"])
    return Cell(value if look["kept"] else f"breaks a promise at {value}", look["value"])


def _settings(one: Data) -> list[Cell]:
    return [Cell(value_text(value)) for value in one["settings"].values()]


def _answer(one: Data, *, has_cost: bool) -> list[Cell]:
    answer, cost = one["answer"], one["cost_per_million_output_tokens"]
    cells = [
        Cell("none", -1.0) if answer is None else Cell(number(answer), answer),
        Cell(str(one["gpus"]), one["gpus"]),
    ]
    if has_cost:
        cells.append(Cell("-", -1.0) if cost is None else Cell(f"{cost:.3g}", cost))
    return cells


def _neighbours(plan: Data) -> list[Section]:
    if not plan["neighbours"]:
        return []
    rows = [
        [
            Cell(one["setting"]),
            Cell(one["promise"]),
            _percent(one["used"]),
            _difference(one["difference"], one["half_width"]),
            *_tokens(one),
        ]
        for one in plan["neighbours"]
    ]
    headings = ["one setting changed", "promise used up most", "of its limit", "more than there"]
    headings += ["tokens/s"] * ("output_tokens_per_s" in plan["neighbours"][0])
    return [Section("Beside the answer", [Table(headings, rows)], "on the same requests")]


def _tokens(one: Data) -> list[Cell]:
    """Where it is not the load that decides them."""
    if "output_tokens_per_s" not in one:
        return []
    per_s = one["output_tokens_per_s"]
    return [Cell("-", -1.0) if per_s is None else Cell(number(per_s), per_s)]


def _difference(share: float | None, half_width: float | None) -> Cell:
    if share is None:
        return Cell("-", 1e9)
    size = f"{share:+.0%}".replace("-0%", "0%").replace("+0%", "0%")
    return Cell(f"{size} ± {half_width:.0%}" if half_width else size, share)


def _vllm(plan: Data) -> list[Section]:
    if plan["vllm"] is None:
        return []
    return [Section("As options of vLLM", [Code(plan["vllm"])])]


def _command(plan: Data) -> str:
    """Its options as they were given, and those that were not as they are then."""
    options = dict(plan["options"])
    words = ["kvsim", "plan", options.pop("scenario"), "--slo", options.pop("slo")]
    for setting in options.pop("set"):
        words += ["--set", setting]
    for name in ("find", "rate", "system", "attainment", "warmup", "gpu_price", "trials"):
        if options.get(name) is not None:
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    if options.get("trials") is not None:
        words.append("--optimize")
    if not options["compare"]:
        words.append("--no-neighbours")
    first, most = options["seeds"]
    return shlex.join([*words, "--seeds", str(first), "--most-seeds", str(most)])
