"""Reading scenario files: every mistake is one line that says where, what came, what was expected.

The lines are checked by what they must name, not by their wording.
"""

import random
from pathlib import Path

import pytest

from sim.errors import UserError
from sim.scenario import RooflineSpec, Scenario, SiliconSpec
from sim.scenario.file import dump_scenario, load_scenario, points

GOOD = """\
name: good
latency: {kind: constant, step_time_s: 0.01}
workload:
  requests: 5
  arrivals: {constant: {rate: 10}}
  prompts: {unique: 8}
  outputs: 4
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes s.yaml into the current folder, an empty one."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> Path:
        Path("s.yaml").write_text(text, "utf-8")
        return Path("s.yaml")

    return write


def lines_of(path: Path, *overrides: str) -> list[str]:
    """What the user is told."""
    with pytest.raises(UserError) as caught:
        load_scenario(path, list(overrides))
    return str(caught.value).splitlines()


def line_of(path: Path, *overrides: str) -> str:
    (line,) = lines_of(path, *overrides)
    return line


def assert_names(line: str, where: str, *parts: str) -> None:
    assert line.startswith(f"{where}: "), line
    rest = line.removeprefix(f"{where}: ")
    assert [part for part in parts if part not in rest] == [], line


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


# What is added to a good scenario -> key path, what came, what was expected.
ADDED = {
    "seed: many": ("seed", "'many'", "integer"),
    "seed: '1'": ("seed", "'1'", "integer"),
    "seed: 1.5": ("seed", "1.5", "integer"),
    "seed: true": ("seed", "True", "integer"),
    "seed: -1": ("seed", "-1", "greater than or equal to 0"),
    "seed:": ("seed", "None", "integer"),
    "replications: 0": ("replications", "0", "greater than or equal to 1"),
    "runner: torch": ("runner", "'torch'", "toy-lm", "replay"),
    "hardware: 3": ("hardware", "3", "string"),
    "hardware: tpu": ("hardware", "'tpu'", "a100-80gb", "h100-80gb"),
    "model: gpt-7": ("model", "'gpt-7'", "did you mean", "gpt-j-6b"),
    "engine: {block_size: 0}": ("engine.block_size", "0", "from 1"),
    "engine: {block_size: x}": ("engine.block_size", "'x'", "integer"),
    "engine: {max_wait_s: -1}": ("engine.max_wait_s", "-1", "from 0 to 1e9"),
    "engine: {max_wait_s: .inf}": ("engine.max_wait_s", "inf", "finite"),
    "engine: {watermark: 1}": ("engine.watermark", "1", "below 1"),
    "engine: {batching: dynamic}": ("engine.batching", "'dynamic'", "static", "continuous"),
    "engine: [1]": ("engine", "[1]"),
    "engine:": ("engine", "None"),
    "engine: {enable_chunked_prefill: false}": (
        "engine.max_num_batched_tokens",
        "2048",
        ">= max_model_len (4096)",
    ),
    "toy_lm: {num_heads: 3}": ("toy_lm.num_kv_heads", "2", "divisor", "3"),
    "toy_lm: {head_size: 7}": ("toy_lm.head_size", "7", "even"),
    "systems: {a: {batching: dynamic}}": ("systems.a.batching", "'dynamic'", "static"),
    "systems: {a: {block_size: x}}": ("systems.a.block_size", "'x'", "integer"),
    "systems: {a: {}, b: {num_blocks: 0}}": ("systems.b.num_blocks", "0", "from 1"),
    "systems: {a: {max_model_len: 64}}": ("systems", "max_model_len", "'a'", "engine"),
    "systems: {a: 3}": ("systems.a", "3"),
    "systems: {a: }": ("systems.a", "None"),
    "systems: [a, b]": ("systems", "'a'"),
    "systems: {}": ("systems", "{}", "at least 1"),
    "sweep: {engine.block_size: 8}": ("sweep.engine.block_size", "8"),
    "sweep: {engine.block_size: []}": ("sweep.engine.block_size", "[]", "at least 1"),
    "sweep: {model.x: [8]}": ("model.x=8", "model", "got {'x': 8}", "string"),
    "sweep: {seed: [1, 2]}": ("sweep", "'seed'", "expected", "engine", "workload"),
    # Only this system, and only at the last point of the sweep.
    "systems: {a: {enable_chunked_prefill: false}}\nsweep: {engine.max_model_len: [128, 8192]}": (
        "systems.a.max_num_batched_tokens",
        "2048",
        "8192",
    ),
}


@pytest.mark.parametrize("text", ADDED)
def test_wrong_value_is_named_by_its_key_path(write, text):
    assert_names(line_of(write(GOOD + text + "\n")), "s.yaml", *ADDED[text])


# What is swept over a good scenario -> at which value, key path, what came, what was expected.
SWEPT = {
    "engine.block_size: [8, 0]": ("engine.block_size=0", "engine.block_size", "0", "from 1"),
    "engine.block_size: [8, x]": ("engine.block_size=x", "engine.block_size", "'x'", "integer"),
    "workload.arrivals.poisson.rate: [8]": (
        "workload.arrivals.poisson.rate=8",
        "workload.arrivals",
        "exactly one of",
        "2",
    ),
    "systems.default.block_size: [8, 0]": (
        "systems.default.block_size=0",
        "systems.default.block_size",
        "0",
        "from 1",
    ),
    "workload.max_new_tokens: [3, 0]": (
        "workload.max_new_tokens=0",
        "workload.max_new_tokens",
        "0",
        "greater than or equal to 1",
    ),
}


@pytest.mark.parametrize("text", SWEPT)
def test_wrong_value_of_a_sweep_is_named_with_its_point(write, text):
    point, *parts = SWEPT[text]
    line = line_of(write(GOOD + f"sweep: {{{text}}}\n"))
    assert_names(line, f"s.yaml: sweep at {point}", *parts)


# What replaces a part of a good scenario -> key path, what came, what was expected.
REPLACED = {
    ("{rate: 10}", "{rate: 0}"): ("workload.arrivals.constant.rate", "0", "greater than"),
    ("{rate: 10}", "{rate: fast}"): ("workload.arrivals.constant.rate", "'fast'", "number"),
    ("arrivals:", "classes: {<b>: {share: 1}}\n  arrivals:"): (
        "workload.classes.<b>",
        "'<b>'",
        "a letter or digit",
    ),
    ("{rate: 10}", "{}"): ("workload.arrivals.constant.rate", "missing"),
    ("constant: {rate: 10}", ""): ("workload.arrivals", "exactly one of", "poisson", "0"),
    ("constant: {rate: 10}", "constant: {rate: 1}, poisson: {rate: 1}"): (
        "workload.arrivals",
        "exactly one of",
        "2",
    ),
    ("{constant: {rate: 10}}", "poisson"): ("workload.arrivals", "'poisson'"),
    ("unique: 8", "unique: 0"): ("workload.prompts.unique", "0", "greater than or equal to 1"),
    ("outputs: 4", "outputs: 2000000000"): ("workload.outputs.fixed", "2000000000", "1000000000"),
    ("unique: 8", "unique: 8, shared: {groups: 2000000000, tokens: 3}"): (
        "workload.prompts.shared.groups",
        "2000000000",
        "1000000000",
    ),
    ("outputs: 4", "outputs: 4\n  max_new_tokens: 2000000000"): (
        "workload.max_new_tokens",
        "2000000000",
        "1000000000",
    ),
    ("outputs: 4", "outputs: {lognormal: {mean: 3}}"): (
        "workload.outputs.lognormal.sigma",
        "missing",
    ),
    ("outputs: 4", "outputs: lots"): ("workload.outputs", "'lots'"),
    ("  outputs: 4\n", ""): ("workload", "missing", "outputs"),
    ("requests: 5", "requests: 0"): ("workload.requests", "0", "greater than or equal to 1"),
    ("outputs: 4", "outputs: 4\n  trace: x.csv"): (
        "workload",
        "trace",
        "prompts, outputs",
    ),
    ("name: good", "name: a/b"): ("name", "'a/b'"),
    ("name: good", "name: 12"): ("name", "12", "string"),
    ("name: good\n", ""): ("name", "missing"),
    ("kind: constant, ", ""): ("latency.kind: missing, expected one of", "constant", "silicon"),
    ("kind: constant", "kind: magic"): ("latency.kind", "'magic'", "constant", "roofline"),
    ("outputs: 4", "outputs: {uniform: {low: 5, high: 3}}"): (
        "workload.outputs.uniform.high",
        "3",
        "at least low (5)",
    ),
    ("constant: {rate: 10}", "gamma: {rate: 1, cv: 0}"): (
        "workload.arrivals.gamma.cv",
        "0",
        "0.001",
    ),
    ("step_time_s: 0.01", "step_time_s: 0"): ("latency.step_time_s", "0", "greater than 0"),
    (", step_time_s: 0.01", ""): ("latency.step_time_s", "missing"),
    ("step_time_s: 0.01", "step_time_s: 1e400"): ("latency.step_time_s", "inf", "finite"),
}


@pytest.mark.parametrize(("old", "new"), REPLACED)
def test_broken_part_is_named_by_its_key_path(write, old, new):
    assert_names(line_of(write(changed(old, new))), "s.yaml", *REPLACED[old, new])


@pytest.mark.parametrize(
    ("text", "path", "meant"),
    [
        ("engin: {block_size: 3}", "engin", "engine"),
        ("engine: {blok_size: 3}", "engine.blok_size", "block_size"),
        ("toy_lm: {num_layer: 1}", "toy_lm.num_layer", "num_layers"),
        ("systems: {a: {batchin: static}}", "systems.a.batchin", "batching"),
        ("sweep: {engine.blok_size: [8]}", "engine.blok_size", "block_size"),
    ],
)
def test_unknown_key_is_answered_with_the_one_that_was_meant(write, text, path, meant):
    line = line_of(write(GOOD + text + "\n"))
    assert_names(line, "s.yaml", path, "unknown key", f"did you mean {meant}?")


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("latency.overhead_s=1", "latency.overhead_s: unknown key for kind constant"),
        ("engine.rate=1", "engine.rate: unknown key here"),
        ("block_size=1", "block_size: unknown key here"),
    ],
)
def test_key_of_another_place_is_not_answered_with_itself(write, override, expected):
    assert line_of(write(GOOD), override).endswith(f": {expected}")


def test_key_like_no_other_is_answered_with_no_suggestion(write):
    line = line_of(write(GOOD + "zzzzzz: 3\n"))
    assert_names(line, "s.yaml", "zzzzzz", "unknown key")
    assert "mean" not in line


def test_every_mistake_has_a_line_of_its_own(write):
    """Three mistakes, three lines, whatever their order."""
    text = GOOD + "seed: -1\nengin: 1\nengine: {block_size: 0}\n"
    lines = sorted(lines_of(write(text)))
    assert len(lines) == 3
    assert_names(lines[0], "s.yaml", "engin", "unknown key")
    assert_names(lines[1], "s.yaml", "engine.block_size", "0")
    assert_names(lines[2], "s.yaml", "seed", "-1")


def test_long_value_is_cut(write):
    line = line_of(write(GOOD + f"model: [{', '.join(['word'] * 100)}]\n"))
    assert_names(line, "s.yaml", "model", "...")
    assert len(line) < 120


@pytest.mark.parametrize(
    ("text", "where", "parts"),
    [
        (GOOD + "seed: 1\nseed: 2\n", "s.yaml, line 9, column 1", ("'seed'", "twice")),
        (GOOD + "engine: {num_blocks: 1, num_blocks: 2}", "s.yaml, line 8, column 25", ("twice",)),
        (GOOD + "engine: {block_size: 3\n", "s.yaml, line 9, column 1", ("expected",)),
        (GOOD + "engine:\n\tblock_size: 3\n", "s.yaml, line 9, column 1", ("'\\t'",)),
        (GOOD + "---\n" + GOOD, "s.yaml, line 8, column 1", ("document",)),
        (GOOD + "? [a, b]\n: 1\n", "s.yaml, line 8, column 3", ("key",)),
        ("name: a\x00\n", "s.yaml", ("not YAML",)),
        ("name: 2024-01-01\n", "s.yaml, line 1, column 7", ("2024-01-01", "date", "quotes")),
        ("name: 2024-13-41\n", "s.yaml, line 1, column 7", ("2024-13-41", "date", "quotes")),
        ("a: " + "[" * 500, "s.yaml", ("not YAML",)),
        ("seed: 1" + "0" * 5000, "s.yaml", ("not YAML",)),
        ("", "s.yaml", ("mapping",)),
        ("# nothing\n", "s.yaml", ("mapping",)),
        ("- a\n- b\n", "s.yaml", ("mapping", "['a', 'b']")),
        ("hello\n", "s.yaml", ("mapping", "'hello'")),
    ],
)
def test_text_that_is_no_scenario(write, text, where, parts):
    assert_names(line_of(write(text)), where, *parts)


def test_yaml_that_contains_itself(write):
    assert "itself" in line_of(write(GOOD + "engine: &e {block_size: *e}\n"))


def test_missing_file(write, tmp_path):
    assert_names(line_of(Path("nothing.yaml")), "nothing.yaml", "no such file")


def test_folder_instead_of_a_file(tmp_path):
    assert_names(line_of(tmp_path), str(tmp_path), "directory")


def test_bytes_that_are_not_utf8(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_bytes(b"name: \xff\n")
    assert_names(line_of(path), str(path), "byte 6", "UTF-8")


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['touch evaluated']",
        "!!python/object/new:os.system ['touch evaluated']",
        "!!python/object:os.system {}",
        "!!python/name:os.system",
        "!!python/module:os",
        "!!python/tuple [1, 2]",
    ],
)
def test_nothing_is_evaluated(write, value):
    """A tag of Python's is a mistake with a place, and does nothing."""
    line = line_of(write(GOOD + f"model: {value}\n"))
    assert_names(line, "s.yaml, line 8, column 8", "python")
    assert not Path("evaluated").exists()


def test_nothing_is_evaluated_on_the_command_line(write):
    override = "model=!!python/object/apply:os.system ['touch evaluated']"
    assert "python" in line_of(write(GOOD), override)
    assert not Path("evaluated").exists()


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e9", 1e9), ("1E3", 1e3), ("1e-3", 1e-3), ("1.5e+2", 150), (".5", 0.5), ("1_000", 1e3)],
)
def test_number_in_any_notation_is_a_number(write, text, value):
    """YAML 1.1 alone reads 1e9 as text."""
    loaded = load_scenario(write(changed("rate: 10", f"rate: {text}")))
    assert loaded.workload.arrivals.choice.rate == value


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("engine.block_size", ("key.path=value",)),
        ("=3", ("key.path=value",)),
        ("engine..block_size=3", ("key.path=value",)),
        (".seed=3", ("key.path=value",)),
    ],
)
def test_override_that_is_none(write, override, parts):
    assert_names(line_of(write(GOOD), override), f"--set {override}", *parts)


def test_override_that_is_not_yaml(write):
    line = line_of(write(GOOD), "engine={block_size: 3")
    assert line.startswith("--set engine={block_size: 3")
    assert "expected" in line


def test_override_below_a_value_without_keys(write):
    line = line_of(write(GOOD), "workload.requests.x=3")
    assert_names(line, "--set workload.requests.x=3", "requests is 5", "mapping")


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("engine.block_size=0", ("engine.block_size", "0", "from 1")),
        ("engine.blok_size=3", ("engine.blok_size", "unknown key", "block_size")),
        ("engine.block_size=", ("engine.block_size", "None", "integer")),
    ],
)
def test_override_with_a_wrong_value(write, override, parts):
    line = line_of(write(GOOD), override)
    assert [part for part in parts if part not in line] == []


def test_overrides_apply_in_order_over_the_file(write):
    path = write(GOOD + "engine: {block_size: 2, num_blocks: 7}\n")
    loaded = load_scenario(path, ["engine.block_size=4", "seed=3", "engine.block_size=8"])
    assert (loaded.engine.block_size, loaded.engine.num_blocks, loaded.seed) == (8, 7, 3)


def test_override_makes_the_mappings_it_needs(write):
    loaded = load_scenario(write(GOOD), ["systems.prefix sharing.enable_prefix_caching=true"])
    assert loaded.systems == {"prefix sharing": {"enable_prefix_caching": True}}


def test_override_below_a_bare_word_keeps_its_kind(write):
    path = write(changed("{kind: constant, step_time_s: 0.01}", "roofline"))
    latency = load_scenario(path, ["latency.overhead_s=0.5"]).latency
    assert (latency.kind, latency.overhead_s) == ("roofline", 0.5)


@pytest.mark.parametrize("key", ["outputs", "prompts.unique", "prompts.shared.tokens"])
def test_override_below_a_bare_number_finds_a_fixed_length(write, key):
    path = write(changed("unique: 8", "unique: 8, shared: {groups: 2, tokens: 3}"))
    changed_below = load_scenario(path, [f"workload.{key}.fixed=7"])
    assert changed_below == load_scenario(path, [f"workload.{key}=7"])


def test_value_of_an_override_is_yaml(write):
    loaded = load_scenario(write(GOOD), ["sweep={model: [toy, opt-13b]}", "name='1e9'"])
    assert (loaded.sweep, loaded.name) == ({"model": ["toy", "opt-13b"]}, "1e9")


def test_all_after_the_first_equals_sign_is_the_value(write):
    assert "name: got 'a=b'" in line_of(write(GOOD), "name=a=b")


def test_override_of_a_swept_key_wins(write):
    path = write(GOOD + "sweep: {engine.block_size: [8, 16], model: [toy, opt-13b]}\n")
    loaded = load_scenario(path, ["engine.block_size=4"])
    assert loaded.engine.block_size == 4
    assert list(loaded.sweep) == ["model"]


def test_override_of_a_sweep_has_the_swept_key_as_its_rest(write):
    loaded = load_scenario(write(GOOD), ["sweep.engine.block_size=[8, 16]"])
    assert loaded.sweep == {"engine.block_size": [8, 16]}


def test_override_that_every_system_overrides_is_a_mistake(write):
    """It would change nothing."""
    path = write(GOOD + "systems: {a: {block_size: 4}, b: {block_size: 8}}\n")
    override = "engine.block_size=2"
    assert_names(line_of(path, override), f"--set {override}", "every system", "systems")
    loaded = load_scenario(path, ["systems.a.block_size=2"])
    assert loaded.systems == {"a": {"block_size": 2}, "b": {"block_size": 8}}


TRACE = "name: t\nworkload: {trace: sub/x.csv}\n"
EMPIRICAL = GOOD.replace("outputs: 4", "outputs: {empirical: {file: sub/x.txt}}")


def test_path_in_a_file_is_relative_to_the_file(write, tmp_path, monkeypatch):
    write(TRACE).rename(tmp_path / "t.yaml")
    write(EMPIRICAL).rename(tmp_path / "e.yaml")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    trace = load_scenario(Path("../t.yaml")).workload.trace
    lengths = load_scenario(Path("../e.yaml")).workload.outputs.choice.file
    assert Path(trace).resolve() == tmp_path / "sub/x.csv"
    assert Path(lengths).resolve() == tmp_path / "sub/x.txt"


@pytest.mark.parametrize("override", ["workload.trace=sub/y.csv", "workload={trace: sub/y.csv}"])
def test_path_of_an_override_is_relative_to_the_current_folder(
    write, tmp_path, monkeypatch, override
):
    write(TRACE)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    trace = load_scenario(Path("../s.yaml"), [override]).workload.trace
    assert Path(trace).resolve() == elsewhere / "sub/y.csv"


def test_swept_path_is_relative_like_any_other(write, tmp_path, monkeypatch):
    write(TRACE + "sweep: {workload.trace: [a.csv, sub/b.csv]}\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    in_file = load_scenario(Path("../s.yaml")).sweep["workload.trace"]
    assert [Path(path).resolve() for path in in_file] == [
        tmp_path / "a.csv",
        tmp_path / "sub/b.csv",
    ]
    on_command_line = load_scenario(Path("../s.yaml"), ["sweep.workload.trace=[c.csv]"])
    assert on_command_line.sweep["workload.trace"] == [str(elsewhere / "c.csv")]


def test_absolute_path_stays(write):
    absolute = load_scenario(write(TRACE.replace("sub/x.csv", "/data/x.csv")))
    assert absolute.workload.trace == "/data/x.csv"


def test_path_is_absolute_so_that_it_holds_anywhere(write):
    assert Path(load_scenario(write(TRACE)).workload.trace).is_absolute()


FULL = """\
name: full
seed: 7
replications: 2
model: opt-13b
hardware: h100-80gb
latency: {kind: linear, step_s: 1e-3, per_decode_s: 1e-05}
runner: toy-lm
toy_lm: {num_layers: 1, rope_theta: 5e5}
engine: {block_size: 8, max_wait_s: 0.1, enable_prefix_caching: true}
workload:
  requests: 9
  max_new_tokens: 30
  arrivals: {closed_loop: {concurrency: 3, think_time_s: 0.5}}
  prompts:
    shared: {groups: 2, tokens: {uniform: {low: 2, high: 5}}}
    unique: {lognormal: {mean: 40, sigma: 0.5, max: 90}}
  outputs: {empirical: {file: lengths.txt}}
systems: {"yes": {}, "12": {num_blocks: 9}, 'a: b': {batching: static}, "größer": {}}
sweep:
  workload.arrivals.closed_loop.concurrency: [1, 2]
  engine.enable_prefix_caching: [false, true]
"""


@pytest.mark.parametrize("text", [GOOD, FULL, TRACE], ids=["good", "full", "trace"])
def test_resolved_scenario_loads_as_itself(write, tmp_path, text):
    """Even in another folder, defaults written out."""
    scenario = load_scenario(write(text))
    resolved = tmp_path / "elsewhere" / "scenario.yaml"
    resolved.parent.mkdir()
    resolved.write_text(dump_scenario(scenario), "utf-8")
    assert load_scenario(resolved) == scenario


@pytest.mark.parametrize("name", ["chat", "azure_conv"])
def test_resolved_shipped_scenario_loads_as_itself(tmp_path, root, name):
    scenario = load_scenario(root / "scenarios" / f"{name}.yaml")
    resolved = tmp_path / "scenario.yaml"
    resolved.write_text(dump_scenario(scenario), "utf-8")
    assert load_scenario(resolved) == scenario


@pytest.mark.parametrize("text", ["1e9", "2024-01-01", "12", "1_0", "0x1F", "true", "no", "null"])
def test_resolved_text_stays_text(write, text):
    """Whatever it would be without quotes: as a value and as a key."""
    named = changed("name: good", f"name: '{text}'")
    scenario = load_scenario(write(f"{named}systems: {{'{text}': {{}}}}\n"))
    assert (scenario.name, list(scenario.systems)) == (text, [text])
    assert load_scenario(write(dump_scenario(scenario))) == scenario


def test_resolved_scenario_writes_out_defaults():
    """So that a later default does not change an old run."""
    text = dump_scenario(Scenario.parse({"name": "t", "workload": {"trace": "/x.csv"}}))
    assert "num_blocks: 512" in text
    assert "overhead_s: 0.001" in text


def test_byte_order_mark_and_windows_line_ends_do_not_matter(write, tmp_path):
    plain = load_scenario(write(GOOD))
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_scenario(path) == plain


def test_points_are_all_combinations_the_last_key_fastest(write):
    text = GOOD + "sweep: {engine.block_size: [8, 4], workload.outputs: [1, 2]}\n"
    swept = points(load_scenario(write(text)))
    assert [tuple(labels.values()) for labels, _ in swept] == [(8, 1), (8, 2), (4, 1), (4, 2)]
    assert [(point.engine.block_size, point.workload.outputs.fixed) for _, point in swept] == [
        (8, 1),
        (8, 2),
        (4, 1),
        (4, 2),
    ]


def test_point_differs_in_nothing_but_the_swept_keys(write):
    scenario = load_scenario(write(FULL))
    labels, point = points(scenario)[-1]
    assert labels == {
        "workload.arrivals.closed_loop.concurrency": 2,
        "engine.enable_prefix_caching": True,
    }
    by_hand = load_scenario(
        write(FULL.partition("sweep:")[0].replace("concurrency: 3", "concurrency: 2"))
    )
    assert point == by_hand


def test_kinds_of_step_times_can_be_swept_though_their_keys_differ(write):
    text = GOOD.replace("latency: {kind: constant, step_time_s: 0.01}\n", "")
    text += "sweep: {latency.kind: [roofline, silicon]}\n"
    latencies = [point.latency for _, point in points(load_scenario(write(text)))]
    assert latencies == [RooflineSpec(kind="roofline"), SiliconSpec(kind="silicon")]


def test_without_a_sweep_there_is_one_point(write):
    scenario = load_scenario(write(GOOD))
    assert points(scenario) == [({}, scenario)]


@pytest.mark.parametrize("seed", range(6))
def test_any_garbage_is_answered_in_lines(write, seed):
    """Good text with random characters put into it loads or is a mistake, and never a traceback."""
    rng = random.Random(seed)
    for _ in range(25):
        text = FULL
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(text))
            text = text[:place] + rng.choice("{}[]:,-'\"\n &*!|>?#%@\t\\0aé~") + text[place + 1 :]
        try:
            load_scenario(write(text))
        except UserError as error:
            assert all(line.startswith("s.yaml") for line in str(error).splitlines())
