"""What `kvsim fit-roofline` does: fit the constants of a GPU and print them."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from sim import catalogue
from sim.fit_roofline.fit import RooflineFit, fit_roofline
from sim.progress import busy

_MOST_SHARE = 1.1  # of a peak: data sheets, and what clocks reach, differ by less


def print_efficiency(
    hardware: str, folders: list[Path], model: str | None, *, as_json: bool = False
) -> None:
    """Print an entry of efficiency.toml, or all fits as JSON.

    Raises UserError for what is unknown or missing.
    """
    if model:
        catalogue.load_model(model)  # for its mistakes, though not all tables need it
    with busy(f"fitting {hardware}"):
        fits = fit_roofline(hardware, folders, model)
    if as_json:
        print(json.dumps([asdict(fit) for fit in fits], indent=1))
    else:
        _print_entry(hardware, folders, fits)
    for name in ("flop", "bandwidth", "attention_flop", "attention_bandwidth"):
        if any(fit.constants.get(name, 0) > _MOST_SHARE for fit in fits):
            print(
                f"warning: {name} is above 1: are the tables of this GPU, and of this model?",
                file=sys.stderr,
            )


def _print_entry(hardware: str, folders: list[Path], fits: list[RooflineFit]) -> None:
    print(f"[measured.{hardware}]")
    print(f'source = "fitted on {" and ".join(folder.name for folder in folders)}"')
    for name, value in toml_values(fits).items():
        print(f"{name} = {value}")
    for fit in fits:
        what = f"{fit.what}, {fit.arithmetic}" if fit.arithmetic else fit.what
        print(
            f"# {what}: off by {fit.median_error:.0%} in the median, {fit.p90_error:.0%} at the "
            f"90th percentile of {fit.num_rows} rows"
        )


def toml_values(fits: list[RooflineFit]) -> dict[str, str]:
    """Key -> value of an entry, to three digits; flop and bandwidth are tables by arithmetic.

    kernel_s is that of bf16: what fp8 products were measured to cost besides has the scaling of the
    activations in it, which checkpoints with static scales do as part of the kernel before.
    """
    tables: dict[str, dict[str, str]] = {"flop": {}, "bandwidth": {}}
    values: dict[str, str] = {}
    for fit in fits:
        for key, number in fit.constants.items():
            text = f"{number:.3g}"
            if key in tables:
                tables[key][fit.arithmetic] = text
            elif fit.arithmetic != "fp8":
                values[key] = text
    shares = {
        key: "{" + ", ".join(f"{kind} = {text}" for kind, text in table.items()) + "}"
        for key, table in tables.items()
    }
    return {**shares, **values}
