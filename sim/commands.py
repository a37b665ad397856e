"""The commands of `kvsim`. Data goes to stdout, progress and notes to stderr."""

from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

# What a command needs is imported in it, so that `kvsim --help` does not wait for numpy.

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Simulate KV-cache serving of language models: what will this cache, scheduler and "
    "hardware do under this load?",
)


class OutputFormat(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


class Batching(StrEnum):
    """When a request may join the batch."""

    STATIC = "static"
    CONTINUOUS = "continuous"


class Device(StrEnum):
    """Where operators are timed."""

    CUDA = "cuda"
    CPU = "cpu"


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"kvsim {version('kvsim')}")
        raise typer.Exit


@app.callback()
def _main(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None: ...


@app.command()
def run(
    scenario: Annotated[Path, typer.Argument(help="Scenario file, such as scenarios/chat.yaml.")],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override one key: --set engine.block_size=8 (repeatable)."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the first run.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for run folders.")] = Path("runs"),
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar and no notes.")] = False,
    stepwise: Annotated[
        bool,
        typer.Option(
            "--stepwise",
            help="Take every step by itself, as toy-lm does anyway: slower, the same results.",
        ),
    ] = False,
    output_format: Annotated[
        OutputFormat, typer.Option("--format", help="What is printed.")
    ] = OutputFormat.TABLE,
) -> None:
    """Run every system of a scenario, print the comparison and leave a folder of results.

    Example: kvsim run scenarios/chat.yaml --set engine.num_blocks=256
    """
    from sim.run_command import run_scenario

    seed_override = [f"seed={seed}"] if seed is not None else []
    run_scenario(
        scenario,
        [*(overrides or []), *seed_override],
        out,
        quiet=quiet,
        stepwise=stepwise,
        output_format=output_format.value,
    )


@app.command()
def calibrate(
    scenario: Annotated[
        Path | None, typer.Argument(help="Whose toy model, engine and lengths of requests.")
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override one key: --set engine.block_size=8 (repeatable)."),
    ] = None,
    out: Annotated[Path, typer.Option(help="CSV file for the steps; replaced if there.")] = Path(
        "steps.csv"
    ),
) -> None:
    """Time the toy engine's steps on this machine and fit a latency model to them.

    A scenario uses it as `latency: {kind: fitted, files: [steps.csv]}`.

    Example: kvsim calibrate scenarios/twin.yaml --out steps.csv
    """
    from sim.twin.command import calibrate_scenario

    calibrate_scenario(scenario, overrides or [], out)


@app.command()
def twin(
    scenario: Annotated[Path, typer.Argument(help="Scenario file, such as scenarios/twin.yaml.")],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override one key: --set workload.requests=100 (repeatable)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not tables.")] = False,
    in_cpu_time: Annotated[
        bool,
        typer.Option(
            "--cpu-time", help="Stop the clock of the real run while other processes have the CPU."
        ),
    ] = False,
) -> None:
    """Run a scenario in real time on the toy engine and simulated, and compare the two.

    The simulation has the step times that are measured on this machine before and after.

    Example: kvsim twin scenarios/twin.yaml --set workload.requests=1000
    """
    from sim.twin.command import twin_scenario

    twin_scenario(scenario, overrides or [], as_json=as_json, in_cpu_time=in_cpu_time)


class BackendName(StrEnum):
    """Who makes the runs."""

    LOCAL = "local"
    DASK = "dask"
    RAY = "ray"


@app.command()
def sweep(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML).")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Values of one key: --set engine.block_size=8,16,32 (repeatable; all "
            "combinations are run); a single value is set in all runs.",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Runs of each point, as many seeds.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Only so many points, spread evenly over the grid.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option(
            help="Such as 5%: go on until the half-widths of all 95 % intervals (output tokens/s, "
            "mean TTFT and TPOT) are that share of their means."
        ),
    ] = None,
    warmup: Annotated[
        str,
        typer.Option(help="What is not counted of the start: auto (MSER-5), none, or seconds."),
    ] = "auto",
    backend: Annotated[BackendName, typer.Option(help="Who makes the runs.")] = BackendName.LOCAL,
    address: Annotated[
        str | None, typer.Option(help="Of the scheduler of a Dask or Ray cluster.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the folders of sweeps.")] = Path("sweeps"),
    output_format: Annotated[
        OutputFormat, typer.Option("--format", help="How the results are printed.")
    ] = OutputFormat.TABLE,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar and no notes.")] = False,
) -> None:
    """Run a scenario at many points, several times each, over all cores or a cluster.

    Every result is kept under what decides it: the same command, after an interruption or with
    other values, computes only what is missing.

    Example: kvsim sweep scenarios/chat.yaml --set engine.block_size=8,16,32 --seeds 5
    """
    from sim.parallel import Backend
    from sim.sweep.command import Options, sweep_scenario

    options = Options(
        sample=sample,
        seeds=seeds,
        precision=precision,
        warmup=warmup,
        backend=Backend(backend.value, address),
        out=out,
        output_format=output_format.value,
        quiet=quiet,
    )
    sweep_scenario(scenario, settings or [], options)


class Find(StrEnum):
    """What a plan looks for."""

    RATE = "rate"
    CONCURRENCY = "concurrency"
    REPLICAS = "replicas"
    NUM_BLOCKS = "num_blocks"


@app.command()
def plan(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (YAML).")],
    slo: Annotated[
        str,
        typer.Option(
            help="What is promised: ttft_p99<1s,tpot_p99<50ms; of each request: ttft<1s,tpot<50ms "
            "(see --attainment); or in multiples of the request alone: ttft_p90<5x."
        ),
    ],
    find: Annotated[
        Find, typer.Option(help="The highest rate or concurrency, or fewest replicas or blocks.")
    ] = Find.RATE,
    rate: Annotated[
        float | None, typer.Option(min=1e-6, help="Requests (or sessions) per second to serve.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="One value is set; several are alternatives, each searched: "
            "--set hardware=a100-80gb,h100-80gb --set deployment.tensor_parallel_size=1,2",
        ),
    ] = None,
    optimize: Annotated[
        bool,
        typer.Option(
            "--optimize",
            help="Of the alternatives try only some, which Optuna proposes, and search the best "
            "three; pip install 'kvsim[optimize]'.",
        ),
    ] = False,
    trials: Annotated[
        int | None, typer.Option(min=1, help="How many --optimize tries.  [default: 20]")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="Which system, where the scenario has several.")
    ] = None,
    attainment: Annotated[
        str, typer.Option(help="Share of the requests that must keep promises of each request.")
    ] = "90%",
    seeds: Annotated[
        int, typer.Option(min=3, max=100, help="Runs of a value where two do not tell.")
    ] = 4,
    most_seeds: Annotated[
        int, typer.Option(min=3, max=1000, help="At most, where fewer do not tell.")
    ] = 10,
    warmup: Annotated[
        str,
        typer.Option(help="What is not counted of the start: auto (MSER-5), none, or seconds."),
    ] = "auto",
    gpu_price: Annotated[
        str | None,
        typer.Option(help="Of a GPU hour, 3, or of each type, h100-80gb=3,a100-80gb=1.5."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--neighbours/--no-neighbours", help="Try settings beside the answer.")
    ] = True,
    backend: Annotated[BackendName, typer.Option(help="Who makes the runs.")] = BackendName.LOCAL,
    address: Annotated[
        str | None, typer.Option(help="Of the scheduler of a Dask or Ray cluster.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the folders of plans.")] = Path("plans"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not words.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar and no notes.")] = False,
) -> None:
    """Find the most that keeps promises of latency, or the least that is needed, and how surely.

    Example: kvsim plan scenarios/azure_conv.yaml --slo "ttft_p99<1s,tpot_p99<50ms"
    """
    from sim.errors import UserError
    from sim.parallel import Backend
    from sim.plan.command import Options, plan_scenario

    if trials is not None and not optimize:
        raise UserError(f"--trials: got {trials} without --optimize, expected both")
    options = Options(
        slo=slo,
        find=find.value,
        rate=rate,
        system=system,
        attainment=attainment,
        seeds=(seeds, max(seeds, most_seeds)),
        warmup=warmup,
        gpu_price=gpu_price,
        compare=compare,
        trials=(trials or 20) if optimize else None,
        backend=Backend(backend.value, address),
        out=out,
        as_json=as_json,
        quiet=quiet,
    )
    plan_scenario(scenario, settings or [], options)


@app.command()
def systems(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Show the serving systems that a scenario can name, and what settings they stand for.

    In a scenario: `systems: [orca-max, vllm]`, or with other settings besides
    `systems: {small: {preset: vllm, max_num_seqs: 8}}`.

    Example: kvsim systems
    """
    from sim.presets_command import print_systems

    print_systems(as_json=as_json)


@app.command()
def workloads(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Show the kinds of requests that a scenario can name, and what settings they stand for.

    In a scenario: `workload: {preset: chat, requests: 1000, arrivals: {poisson: {rate: 5}}}`.

    Example: kvsim workloads
    """
    from sim.presets_command import print_workloads

    print_workloads(as_json=as_json)


@app.command()
def demo(
    prompts: Annotated[list[str], typer.Argument(help="Texts to continue.")],
    _prompts_follow: Annotated[
        bool, typer.Option("--prompts", help="May stand before the prompts.")
    ] = False,
    max_new: Annotated[int, typer.Option(min=1, help="Most tokens to produce per prompt.")] = 16,
    block_size: Annotated[int, typer.Option(min=1, help="Token positions in a block.")] = 4,
    num_blocks: Annotated[int, typer.Option(min=1, help="Blocks in the pool.")] = 64,
    batching: Annotated[Batching, typer.Option(help="How requests are batched.")] = (
        Batching.CONTINUOUS
    ),
    prefix_sharing: Annotated[
        bool,
        typer.Option(
            "--prefix-sharing/--no-prefix-sharing", help="Share blocks of equal prefixes."
        ),
    ] = True,
) -> None:
    """Continue prompts with the toy transformer and show the paged cache at every step.

    Its weights are random: the text means nothing, the blocks are real.

    Example: kvsim demo --prompts "hello world" "hello there" "goodbye" --max-new 16
    """
    from sim.demo import demo_lines

    for line in demo_lines(
        prompts,
        max_new_tokens=max_new,
        block_size=block_size,
        num_blocks=num_blocks,
        batching=batching.value,
        enable_prefix_caching=prefix_sharing,
    ):
        print(line)


@app.command()
def conformance(
    paths: Annotated[list[Path], typer.Argument(help="Case folders, or folders of cases.")],
) -> None:
    """Compare every decision of the engine with recordings of vLLM's scheduler.

    Exit status 0 only if all cases are equal.

    Example: kvsim conformance recordings/
    """
    from sim.conformance.compare import compare_all

    if not compare_all(paths):
        raise typer.Exit(1)


@app.command()
def record_vllm(
    workload: Annotated[
        Path, typer.Argument(help="A workload.jsonl, or a case whose settings are taken as well.")
    ],
    out: Annotated[Path, typer.Argument(help="Folder of the new case; must not exist.")],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Give one setting: --set block_size=8 (repeatable)."),
    ] = None,
) -> None:
    """Record what the scheduler of an installed vLLM decides, as a case for `conformance`.

    Needs vLLM, which kvsim does not install; runs no model.

    Example: kvsim record-vllm workload.jsonl recordings/mine --set num_blocks=256
    """
    from sim.conformance.record_vllm import record_case

    record_case(workload, out, overrides or [])


class LatencyKind(StrEnum):
    """Where step times come from."""

    ROOFLINE = "roofline"
    ROOFLINE_COMMON = "roofline-common"
    PROFILE = "profile"
    SILICON = "silicon"
    FITTED = "fitted"


@app.command()
def validate(
    paths: Annotated[list[Path], typer.Argument(help="Folders of measured runs.")],
    latency: Annotated[
        LatencyKind | None,
        typer.Option(help="Step times; without it the best there is for each folder."),
    ] = None,
    fit: Annotated[
        list[Path] | None,
        typer.Option("--fit", help="Measured steps to fit step times on (repeatable)."),
    ] = None,
    host_cost_from: Annotated[
        Path | None,
        typer.Option(help="Folder of measured runs on which the host's cost a step is fitted."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the rows and the figure.")] = Path(
        "runs/validation"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Predict runs that were measured on real systems, and print how far off that is.

    Example: kvsim validate measured/rtx4090-llama-3.1-8b --latency roofline
    """
    from sim.validation.command import validate_cases

    validate_cases(
        paths,
        latency.value if latency else None,
        fit or [],
        host_cost_from,
        out,
        as_json_text=as_json,
    )


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Publications, such as vllm-0.6.0; without: all.")
    ] = None,
    scenarios: Annotated[
        Path, typer.Option(help="Folder of published figures and of their scenarios.")
    ] = Path("scenarios/published"),
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Override one key of every scenario (repeatable)."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for pages and figures.")] = Path(
        "runs/reproduced"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not tables.")] = False,
) -> None:
    """Simulate what publications printed, and set ours beside theirs.

    Example: kvsim reproduce pagedattention-memory
    """
    from sim.reproduce.command import reproduce as reproduce_papers

    reproduce_papers(names or [], scenarios, overrides or [], out, as_json=as_json)


@app.command()
def fit_roofline(
    hardware: Annotated[str, typer.Argument(help="GPU of the catalogue.")],
    folders: Annotated[list[Path], typer.Argument(help="Folders of tables measured on it.")],
    model: Annotated[
        str | None, typer.Option(help="Model whose layers were measured, where they were.")
    ] = None,
) -> None:
    """Fit what share of its peaks a GPU reaches, as sim/catalogue/efficiency.toml has it.

    Example: kvsim fit-roofline rtx-4090 my-profile --model llama-3.1-8b
    """
    from sim.fit_roofline.command import print_efficiency

    print_efficiency(hardware, folders, model)


@app.command()
def profile_gpu(
    model: Annotated[str, typer.Argument(help="A model of the catalogue, such as llama-3.1-8b.")],
    out: Annotated[Path, typer.Option(help="Folder of the tables; must not exist.")],
    device: Annotated[Device, typer.Option(help="What is timed.")] = Device.CUDA,
    tp: Annotated[
        int, typer.Option(min=1, help="GPUs that share the model; one of them is timed.")
    ] = 1,
    max_tokens: Annotated[int, typer.Option(min=16, help="Most tokens of a step.")] = 2048,
) -> None:
    """Time the operators of a model's layer on this machine's GPU, as a profile for `run`.

    Needs torch (pip install 'kvsim[gpu]') and minutes, but no weights: they are random.

    Example: kvsim profile-gpu llama-3.1-8b --out profiles/mine
    """
    from sim.profile_gpu.command import profile_gpu as profile

    profile(model, out, device=device.value, tensor_parallel_size=tp, max_tokens=max_tokens)


@app.command()
def trace(
    file: Annotated[str, typer.Argument(help="A file of requests, plain or gzipped; - for stdin.")],
    format_name: Annotated[
        str | None, typer.Option("--format", help="Its format, where its content does not show it.")
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="tokenizer.json or tokenizer.model that counts the tokens of texts."),
    ] = None,
    block_size: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens of a block; as the trace knows content if not given."),
    ] = None,
    convert: Annotated[
        Path | None, typer.Option(help="New file in kvsim's own format, .csv or .jsonl.")
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(help="Figure of what a prefix cache finds, .png or .svg.")
    ] = None,
    fit: Annotated[
        Path | None, typer.Option(help="New scenario with a workload that resembles it, .yaml.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not tables.")] = False,
) -> None:
    """Say what is in a trace: requests, rates, lengths, and how much of them could be shared.

    Example: kvsim trace conversation_trace.jsonl.gz --figure sharing.png
    """
    from sim.trace.command import show_trace

    show_trace(
        file, format_name, block_size, convert, figure, fit, tokenizer=tokenizer, as_json=as_json
    )


import_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Make a scenario of what a running vLLM prints and exports.",
)
app.add_typer(import_app, name="import")


@import_app.command()
def vllm_log(
    file: Annotated[str, typer.Argument(help="Log of its start, plain or gzipped; - for stdin.")],
    out: Annotated[
        Path | None, typer.Option(help="New scenario file; without: standard output.")
    ] = None,
) -> None:
    """Make a scenario of the settings that a vLLM logged when it started, line by line.

    Its workload is a placeholder, to be replaced.

    Example: kvsim import vllm-log server.log --out mine.yaml
    """
    from sim.vllm_import.command import import_log

    import_log(file, out)


@import_app.command()
def metrics(
    file: Annotated[
        str, typer.Argument(help="What vLLM answers at /metrics, plain or gzipped; - for stdin.")
    ],
    since: Annotated[
        str | None, typer.Option(help="Earlier scrape; only what came after it counts.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=1e-3, help="How long was counted: since the start, or --since."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="New scenario file; without: standard output.")
    ] = None,
) -> None:
    """Make a scenario of the load that a vLLM counted: rate, prompts, outputs, and its cache.

    Example: kvsim import metrics after.txt --since before.txt --seconds 600 --out mine.yaml
    """
    from sim.vllm_import.command import import_metrics

    import_metrics(file, since, seconds, out)


@app.command()
def diff(
    run_folder: Annotated[Path, typer.Argument(help="A folder that kvsim run left.")],
    file: Annotated[
        str, typer.Argument(help="What vLLM answers at /metrics, plain or gzipped; - for stdin.")
    ],
    since: Annotated[
        str | None, typer.Option(help="Earlier scrape; only what came after it counts.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(help="Which system of the run, where it has several.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
) -> None:
    """Compare a simulated run with the metrics of a vLLM, under the names that vLLM gives them.

    Example: kvsim diff runs/mine-0123456789 after.txt --since before.txt
    """
    from sim.vllm_import.command import diff as print_difference

    print_difference(run_folder, file, since, system, as_json=as_json)


@app.command()
def explain(
    folder: Annotated[Path, typer.Argument(help="Folder that `kvsim run` has left.")],
    request: Annotated[
        int | None, typer.Argument(min=0, help="Number of a request, to see its life alone.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="Which system of several.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Which seed of several.")] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(help="Which point of a sweep: --at engine.block_size=8 (repeatable)."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not tables.")] = False,
) -> None:
    """Say where the time of requests went: queueing, for what; prompts; decodes; preemptions.

    Example: kvsim explain runs/chat-0123456789 --system continuous --at arrivals.concurrency=64
    """
    from sim.explain.command import explain as explain_run

    explain_run(folder, request, system, seed, at or [], as_json=as_json)
