"""The command as a user meets it: what goes where, and what is left when something is wrong."""

import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from engine import Transformer, TransformerConfig
from engine.tokenizer import decode, encode, printable
from sim.cli import main
from sim.demo import Demo, demo_lines

BROKEN_TRACE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2024-01-01 09:00:00.0000000,10,5
2024-01-01 09:00:01.0000000,ten,5
"""

# Arguments of `kvsim run` -> what the one line on stderr must name.
MISTAKES = {
    ("nothing.yaml",): ("nothing.yaml", "no such file"),
    ("small.yaml", "--set", "engin.block_size=3"): ("engin", "unknown key", "engine"),
    ("small.yaml", "--set", "engine.block_size=many"): ("engine.block_size", "'many'", "integer"),
    ("small.yaml", "--set", "workload={trace: broken.csv}"): (
        "broken.csv",
        "line 3",
        "ContextTokens",
        "'ten'",
        "integer",
    ),
    ("small.yaml", "--set", "engine={num_blocks: 1, block_size: 4}"): (
        "none of the requests",
        "8 prompt",
        "4 new",
        "3 blocks",
        "1",
    ),
    ("small.yaml", "--set", "workload={trace: nothing.csv}"): ("nothing.csv", "no such file"),
}


def assert_is_a_mistake(answer: tuple[int, str, str], *parts: str) -> None:
    status, out, err = answer
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("kvsim: ")
    assert [part for part in parts if part not in line] == [], line


@pytest.fixture
def call(kvsim, monkeypatch, capsys):
    """Calls the command in this process and in the folder of `kvsim`: status, stdout, stderr."""
    monkeypatch.chdir(kvsim.folder)
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")  # several runs one after the other, here

    def call(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["kvsim", *args])
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return call


@pytest.mark.parametrize("args", MISTAKES, ids=" ".join)
def test_mistake_is_one_line_and_leaves_nothing(kvsim, call, args):
    (kvsim.folder / "broken.csv").write_text(BROKEN_TRACE, "utf-8")
    assert_is_a_mistake(call("run", *args), *MISTAKES[args])
    assert kvsim.left() == []


@pytest.mark.parametrize("key_value", ["engin.block_size=3", "workload={trace: broken.csv}"])
def test_mistake_ends_the_process_the_same_way(kvsim, key_value):
    """Found before and while the run is on, in processes of their own."""
    (kvsim.folder / "broken.csv").write_text(BROKEN_TRACE, "utf-8")
    done = kvsim("run", "small.yaml", "--set", "replications=2", "--set", key_value)
    assert_is_a_mistake((done.returncode, done.stdout, done.stderr))
    assert kvsim.left() == []


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_out_that_is_a_file_is_found_before_the_work_is_done(kvsim, call, out, monkeypatch):
    def simulate(*_: object) -> None:
        raise AssertionError("the work is done first")

    monkeypatch.setattr("sim.experiment.simulate", simulate)
    (kvsim.folder / "file").write_text("mine", "utf-8")
    assert_is_a_mistake(call("run", "small.yaml", "--out", out), out, "file is no folder")
    assert (kvsim.folder / "file").read_text("utf-8") == "mine"


def test_every_mistake_has_its_own_line(call):
    answer = call("run", "small.yaml", "--set", "seed=-1", "--set", "engine.num_blocks=0")
    lines = answer[2].splitlines()
    assert (answer[:2], len(lines)) == ((2, ""), 2)
    assert all(line.startswith("kvsim: ") for line in lines)


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (("nonsense",), "nonsense"),
        (("run",), "scenario"),
        (("run", "a.yaml", "b.yaml"), "b.yaml"),
        (("run", "a.yaml", "--nonsense"), "--nonsense"),
        (("run", "a.yaml", "--format", "xml"), "xml"),
        (("run", "a.yaml", "--seed", "-1"), "--seed"),
        (("run", "a.yaml", "--seed", "x"), "--seed"),
        (("run", "a.yaml", "--set"), "--set"),
        (("demo",), "prompts"),
        (("demo", "a", "--max-new", "0"), "--max-new"),
        (("demo", "a", "--block-size", "0"), "--block-size"),
        (("demo", "a", "--batching", "dynamic"), "dynamic"),
        (("demo", ""), "empty"),
        (("demo", "a", "--watch", "--json"), "--json: got it with --watch"),
        (("demo", "hello", "--num-blocks", "1"), "the pool has 1"),
    ],
)
def test_usage_mistake_is_one_line(call, args, part):
    assert_is_a_mistake(call(*args), part)


@pytest.fixture(scope="module")
def finished(kvsim_of_module):
    """The first run of small.yaml, in csv: the command, and what it answered."""
    return kvsim_of_module, kvsim_of_module("run", "small.yaml", "--format", "csv")


def summary_text(kvsim) -> str:
    (name,) = kvsim.left()
    return (kvsim.folder / "runs" / name / "summary.csv").read_text("utf-8")


def test_run_leaves_one_folder_named_after_the_scenario(finished):
    kvsim, done = finished
    assert done.returncode == 0
    (name,) = kvsim.left()
    assert name.startswith("small-")
    assert f"written to runs/{name}" in done.stderr.splitlines()


def test_csv_on_stdout_is_the_summary(finished):
    kvsim, done = finished
    assert done.stdout == summary_text(kvsim)


def test_second_run_finds_the_first(finished):
    """It prints the same, says so, and writes nothing."""
    kvsim, first = finished
    (name,) = kvsim.left()
    before = {path: path.stat().st_mtime_ns for path in (kvsim.folder / "runs" / name).rglob("*")}
    again = kvsim("run", "small.yaml", "--format", "csv")
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert f"found in runs/{name}" in again.stderr.splitlines()
    assert "written" not in again.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert kvsim.left() == [name]


def test_json_on_stdout_is_the_summary(finished):
    kvsim, _ = finished
    (got,) = json.loads(kvsim("run", "small.yaml", "--format", "json", "--quiet").stdout)
    (expected,) = csv.DictReader(io.StringIO(summary_text(kvsim)))
    assert list(got) == list(expected)
    assert got.pop("system") == expected.pop("system") == "default"
    assert got == {key: float(text) if text else None for key, text in expected.items()}


def test_numbers_have_the_same_digits_in_json_as_in_csv(call):
    """All that there are."""
    args = ("run", "small.yaml", "--set", "latency.step_time_s=0.0123456789", "--quiet", "--format")
    (row,) = json.loads(call(*args, "json")[1], parse_float=str, parse_int=str)
    (expected,) = csv.DictReader(io.StringIO(call(*args, "csv")[1]))
    assert {key: "" if text is None else text for key, text in row.items()} == expected
    assert max(len(text) for text in expected.values()) > 17


def test_quiet_says_nothing_but_the_result(finished):
    kvsim, first = finished
    quiet = kvsim("run", "small.yaml", "--format", "csv", "--quiet")
    assert (quiet.stdout, quiet.stderr) == (first.stdout, "")


def test_table_shows_every_system_and_no_notes(finished):
    """5 requests of 4 tokens; the last comes at 0.5 s and ends at 0.54 s: 37 tokens/s."""
    kvsim, _ = finished
    table = kvsim("run", "small.yaml").stdout
    (row,) = [line.split() for line in table.splitlines() if line.split()[:1] == ["default"]]
    assert row[1:5] == ["37", "10", "10", "10"]
    assert "written" not in table
    assert "found" not in table


def test_summary_by_hand(finished):
    """5 requests at 0.1, ..., 0.5 s, each alone and done after 4 steps of 10 ms.

    Each holds one block of 16 slots, of which 8, 9, 10 and 11 are live: 9.5 on average.
    """
    kvsim, _ = finished
    (row,) = csv.DictReader(io.StringIO(summary_text(kvsim)))
    assert (row["requests"], row["finished"], row["refused"], row["steps"]) == ("5", "5", "0", "20")
    assert float(row["span_s"]) == 0.54
    assert float(row["output_tokens_per_s"]) == pytest.approx(20 / 0.54)
    assert float(row["ttft_p50_s"]) == 0.01
    assert float(row["e2e_mean_s"]) == pytest.approx(0.04)
    assert float(row["block_utilisation"]) == pytest.approx(5 * 0.04 / 0.54 / 512)
    assert float(row["live_share"]) == pytest.approx(5 * 0.04 / 0.54 * 9.5 / (512 * 16))


@pytest.mark.parametrize("sweep", [(), ("--set", "sweep={engine.max_num_seqs: [1, 2]}")])
def test_system_that_serves_nobody_stands_beside_one_that_does(call, kvsim, sweep):
    systems = "systems={large: {}, tiny: {num_blocks: 1, block_size: 1}}"
    code, out, err = call("run", "small.yaml", "--set", systems, *sweep)
    assert code == 0, err
    assert "tiny" in out
    assert "5 requests refused" in err
    (folder,) = kvsim.left()
    assert "kv_shares.png" in kvsim.left(f"runs/{folder}/figures")


def test_seed_on_the_command_line_is_that_of_the_scenario(call):
    _, out, _ = call("run", "small.yaml", "--seed", "7", "--format", "csv", "--quiet")
    (row,) = csv.DictReader(io.StringIO(out))
    assert row["seed"] == "7"


@pytest.mark.parametrize(
    "overrides",
    [
        ["workload.outputs={empirical: {file: lengths.txt}}"],
        ["sweep={workload.outputs: [{empirical: {file: lengths.txt}}]}"],
        [
            "workload.outputs={empirical: {file: small.yaml}}",
            "sweep={workload.outputs.empirical.file: [lengths.txt]}",
        ],
    ],
)
def test_changed_input_file_is_another_run(kvsim, call, overrides):
    """The content counts, not the name, in a sweep as well."""
    options = [word for override in overrides for word in ("--set", override)]
    for number, text in enumerate(("3\n", "5\n", "3\n")):
        (kvsim.folder / "lengths.txt").write_text(text, "utf-8")
        assert call("run", "small.yaml", "--quiet", *options)[0] == 0
        assert len(kvsim.left()) == min(number + 1, 2)


def test_names_that_look_like_something_else_are_names(call):
    """pandas would read them as numbers or as no value."""
    systems = 'systems={"01": {}, "None": {}, "null": {}, "1e3": {}, "True": {}}'
    _, out, _ = call("run", "small.yaml", "--quiet", "--set", systems)
    shown = [line.split()[0] for line in out.splitlines()[2:] if line.strip()]
    assert shown == ["01", "None", "null", "1e3", "True"]


def test_swept_null_has_its_row(call):
    """Every value of the sweep is shown, also the one that stands for no limit."""
    sweep = "sweep={workload.max_new_tokens: [null, 2]}"
    _, out, _ = call("run", "small.yaml", "--quiet", "--set", sweep)
    shown = [line.split()[0] for line in out.splitlines() if "10" in line.split()]
    assert shown == ["null", "2"]


@pytest.mark.parametrize("file", ["summary.csv", "run.json"])
@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("", "utf-8")])
def test_folder_that_is_no_run_is_not_taken_for_one(kvsim, call, file, damage):
    """Someone has taken the results out of it."""
    call("run", "small.yaml", "--quiet")
    (name,) = kvsim.left()
    damage(kvsim.folder / "runs" / name / file)
    assert_is_a_mistake(call("run", "small.yaml"), f"runs/{name}/{file}: ", "remove the folder")


def test_notes_of_a_run_go_to_stderr_even_when_it_is_found(call):
    args = ("run", "small.yaml", "--format", "csv", "--set", "workload.max_new_tokens=2")
    first, second = call(*args), call(*args)
    note = "5 outputs cut at max_new_tokens 2"
    assert note in first[2].splitlines()
    assert note in second[2].splitlines()
    assert "cut" not in first[1]


@pytest.mark.parametrize("name", ["summary.csv", "run.json"])
def test_a_run_that_is_cut_off_is_not_taken(call, name):
    assert call("run", "small.yaml")[0] == 0
    (folder,) = Path("runs").iterdir()
    whole = (folder / name).read_bytes()
    for content in (whole[:40], whole[:-2], whole.partition(b"\n")[0] + b"\n"):
        (folder / name).write_bytes(content)
        status, out, err = call("run", "small.yaml")
        assert (status, out) == (2, "")
        said = {"summary.csv": "is missing or has changed since", "run.json": "is damaged, or of"}
        assert err.startswith(f"kvsim: {folder / name}: {said[name]}")
        assert err.endswith("; remove the folder to run it again\n")
        assert err.count("\n") == 1


# Where the tests run in the background, their processes are born deaf to it.
HEED_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"


def interrupted_at(kvsim, name: str, by: str = "SIGINT") -> subprocess.CompletedProcess[str]:
    """Runs small.yaml and presses Ctrl-C when it has come to this function, or terminates it."""
    module, _, function = name.rpartition(".")
    code = f"""
{HEED_CTRL_C}
import os, {module} as module
def interrupt(*args, **kwargs):
    os.kill(os.getpid(), signal.{by})
    return real(*args, **kwargs)
real, module.{function} = module.{function}, interrupt
from sim.cli import main
main()
"""
    argv = [sys.executable, "-c", code, "run", "small.yaml"]
    return subprocess.run(
        argv, cwd=kvsim.folder, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "name",
    [
        "sim.simulate.build_workload",
        "sim.run_folder.summarise",
        "sim.plots.run_figures.draw_figures",
    ],
)
def test_interrupted_run_leaves_nothing(kvsim, name):
    """While it simulates, writes its tables or draws: status 130, no folder, no traceback."""
    done = interrupted_at(kvsim, name)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert [path.name for path in kvsim.folder.iterdir()] == ["small.yaml"]


def test_interrupted_start_is_one_line(tmp_path):
    """While the command line is still being imported."""
    code = f"""
{HEED_CTRL_C}
import os, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from sim.cli import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, "kvsim: interrupted; nothing was kept\n")


def test_terminated_run_leaves_nothing(kvsim):
    """As by a batch system whose time is up: 128 + 15."""
    done = interrupted_at(kvsim, "sim.run_folder.summarise", by="SIGTERM")
    assert (done.returncode, done.stderr) == (143, "")
    assert [path.name for path in kvsim.folder.iterdir()] == ["small.yaml"]


def test_pool_larger_than_the_gpu_is_warned_of(call):
    """100,000 blocks of 16 tokens of 131,072 bytes are 210 GB; 85.1 GB less the weights are 69."""
    sets = ("--set", "latency=roofline", "--set", "engine.num_blocks=100000")
    _, out, err = call("run", "small.yaml", *sets)
    (warning,) = [line for line in err.splitlines() if "warning" in line]
    assert [part for part in ("default: ", "210 GB", "69 GB") if part not in warning] == []
    assert "warning" not in out


@pytest.mark.slow
def test_interrupted_processes_of_a_sweep_leave_nothing(kvsim):
    """Ctrl-C reaches all processes of the terminal's group, as soon as the folder is begun."""
    code = f"{HEED_CTRL_C}; from sim.cli import main; main()"
    args = ("run", "small.yaml", "--set", "replications=2", "--set", "workload.requests=300000")
    process = subprocess.Popen(
        [sys.executable, "-c", code, *args],
        cwd=kvsim.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not kvsim.left() and time.monotonic() < deadline:
        time.sleep(0.02)
    for _ in range(6):  # Python loses one that comes while it is cleaning up after an import
        os.killpg(process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
            break
    out, _ = process.communicate(timeout=10)
    assert process.returncode == 130
    assert out == ""
    assert kvsim.left() == []


@pytest.mark.parametrize(
    "args",
    [
        ("demo", "hello", "--max-new", "300", "--num-blocks", "100"),
        ("run", "small.yaml", "--quiet"),
    ],
    ids=["demo", "run"],
)
def test_reader_that_goes_away_is_no_error(kvsim, args):
    """As `| head -1` does; here before the first line, so that every write fails."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout:
        done = subprocess.run(
            kvsim.argv(*args),
            cwd=kvsim.folder,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.stderr == ""
    assert done.returncode in (0, 1)


def test_help_lists_the_commands(kvsim):
    done = kvsim("--help")
    assert (done.returncode, done.stderr) == (0, "")
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert {"run", "demo"} <= set(listed)


@pytest.mark.parametrize("command", ["run", "demo", "diff", "import vllm-log", "import metrics"])
def test_help_of_a_command_has_an_example(kvsim, command):
    assert f"Example: kvsim {command}" in " ".join(kvsim(*command.split(), "--help").stdout.split())


def test_no_arguments_mean_help(call):
    assert call() == call("--help")


def test_help_waits_for_no_library(tmp_path):
    """Of those that take long to import."""
    code = """
import sys
sys.argv = ["kvsim", "--help"]
from sim.cli import main
try:
    main()
except SystemExit:
    slow = {"numpy", "pandas", "scipy", "matplotlib", "pydantic", "yaml", "simpy", "joblib"}
    print("imported:", *sorted(slow & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "imported:"


# The demo in blocks of 4: prompts of 11, 11 and 7 bytes, the first two alike in their first block.
PROMPTS = ["hello world", "hello there", "goodbye"]
HEADING = "step  blocks in use  blocks shared  tokens produced  running prompts"


def shown(capacity: int = 64, **settings) -> list[tuple[int, int, int, int, str]]:
    """The demo's lines of steps: step, blocks in use, shared, tokens produced, running."""
    chosen = {"batching": "continuous", "enable_prefix_caching": True} | settings
    demo = Demo(PROMPTS, max_new_tokens=3, block_size=4, num_blocks=capacity, **chosen)
    lines = list(demo_lines(demo))
    assert lines[0] == HEADING
    cells = [line.split(maxsplit=4) for line in lines[1 : lines.index("")]]
    return [(*map(int, numbers), running) for *numbers, running in cells]


def test_demo_shows_sharing_step_by_step():
    """3 + 2 + 2 blocks at first, one of them in two tables. The contexts are 11, 11, 7; then 12,
    12, 8, which still fit; then 13, 13, 9, a new block for each.
    """
    assert shown() == [(0, 7, 1, 3, "1 2 3"), (1, 7, 1, 3, "1 2 3"), (2, 10, 1, 3, "1 2 3")]


def test_demo_without_sharing():
    """3 + 3 + 2 blocks, then one more each."""
    steps = shown(enable_prefix_caching=False)
    assert steps == [(0, 8, 0, 3, "1 2 3"), (1, 8, 0, 3, "1 2 3"), (2, 11, 0, 3, "1 2 3")]


def test_demo_of_a_static_batch():
    """What 13, 13 and 9 slots need is taken at once: 4 + 4 + 3 blocks, one of them shared."""
    assert shown(batching="static") == [(i, 10, 1, 3, "1 2 3") for i in range(3)]


def test_demo_of_a_static_batch_without_sharing():
    steps = shown(batching="static", enable_prefix_caching=False)
    assert steps == [(i, 11, 0, 3, "1 2 3") for i in range(3)]


def test_demo_of_a_pool_that_is_too_small_for_all():
    """8 blocks without sharing: 3 + 3 + 2 are all. When all three grow at step 2, the third makes
    room for the others, 4 + 4, and comes back when they have ended, with 7 + 2 known tokens.
    """
    assert shown(8, enable_prefix_caching=False) == [
        (0, 8, 0, 3, "1 2 3"),
        (1, 8, 0, 3, "1 2 3"),
        (2, 8, 0, 2, "1 2"),
        (3, 3, 0, 1, "3"),
    ]


def test_demo_of_a_prompt_that_takes_two_steps():
    """2,048 tokens are computed in a step at most; the first of two yields no token."""
    settings = {"block_size": 16, "num_blocks": 200, "batching": "continuous"}
    lines = list(
        demo_lines(Demo(["a" * 2050], max_new_tokens=1, enable_prefix_caching=False, **settings))
    )
    assert [line.split() for line in lines[1:3]] == [
        ["0", "128", "0", "0", "1"],
        ["1", "129", "0", "1", "1"],
    ]


def greedy_text(prompt: str, num_tokens: int) -> str:
    """What the model says, computed without engine or cache."""
    transformer = Transformer(TransformerConfig())
    tokens = encode(prompt)
    for _ in range(num_tokens):
        tokens.append(int(transformer.dense_forward(tokens)[-1].argmax()))
    return printable(decode(tokens[len(encode(prompt)) :]))


@pytest.mark.parametrize("batching", ["static", "continuous"])
@pytest.mark.parametrize("enable_prefix_caching", [False, True])
def test_demo_ends_with_the_texts_whatever_the_cache(batching, enable_prefix_caching):
    lines = list(
        demo_lines(
            Demo(
                PROMPTS,
                max_new_tokens=6,
                block_size=4,
                num_blocks=16,
                batching=batching,
                enable_prefix_caching=enable_prefix_caching,
            )
        )
    )
    assert lines[lines.index("") + 1 :] == [
        f"{number}: {prompt}  ->  {greedy_text(prompt, 6)}"
        for number, prompt in enumerate(PROMPTS, start=1)
    ]


@pytest.mark.parametrize("marker", [["--prompts"], []])
def test_demo_command_prints_these_lines(kvsim, marker):
    done = kvsim(
        "demo",
        *marker,
        *PROMPTS,
        "--max-new",
        "3",
        "--batching",
        "static",
        "--no-prefix-sharing",
        "--num-blocks",
        "20",
        "--block-size",
        "3",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == list(
        demo_lines(
            Demo(
                PROMPTS,
                max_new_tokens=3,
                block_size=3,
                num_blocks=20,
                batching="static",
                enable_prefix_caching=False,
            )
        )
    )


def test_demo_never_moves_the_cursor(call):
    status, out, _ = call("demo", "a\x1b[2Jb\r\nc\x07", "--max-new", "8")
    assert status == 0
    assert out.replace("\n", "").isprintable()
    assert "1: a\\x1b[2Jb\\r\\nc\\x07  ->  " in out


def test_demo_tells_a_text_from_an_escape(call):
    assert "1: \\\\x07\\x07  ->  " in call("demo", "\\x07\x07", "--max-new", "1")[1]


def test_demo_that_is_watched_elsewhere_than_in_a_terminal_prints_its_last_picture(call):
    """15, 15 and 11 slots are filled at the end: 4, 4 and 3 blocks, one of them in two tables."""
    status, out, _ = call("demo", *PROMPTS, "--max-new", "5", "--num-blocks", "16", "--watch")
    assert status == 0
    assert "\x1b" not in out
    picture, _, rest = out.partition("\n\n")
    row, *cells = picture.split()
    assert row == "0"
    signs = Counter(cell[0] for cell in cells)
    assert signs == {"\N{MULTIPLICATION SIGN}": 1, "1": 3, "2": 3, "3": 3, "\N{MIDDLE DOT}": 6}
    three_quarters = "\N{LOWER THREE QUARTERS BLOCK}"
    assert sorted(cell for cell in cells if cell[1] == three_quarters) == [
        f"{number}{three_quarters}" for number in (1, 2, 3)
    ]
    assert rest.count("step 4: 10 of 16 blocks held, 1 of them by several") == 1
    assert f"1: hello world  ->  {greedy_text('hello world', 5)}" in rest
