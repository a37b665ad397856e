"""Several replicas behind a router: who serves what and when, and what they leave together."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from engine import Request
from sim import simulate as wiring
from sim.errors import UserError
from sim.metrics import half_width_95, summarise, summarise_replicas
from sim.records import Records
from sim.router import ROUTERS
from sim.scenario import Scenario
from sim.scenario.file import load_scenario, points
from sim.simulate import serve, simulate
from sim.tables import replica_table
from sim.twin.twin import check_can_be_twinned
from workloads import ClosedLoop, Workload
from workloads.content import Segment

MS = 1_000_000


@pytest.fixture
def serve_by(new_scenario, assert_equal_records) -> Callable[..., Records]:
    """Serves a workload by replicas in steps of 10 ms, both ways: `serve_by("least-kv", work)`."""

    def served(router: str, workload: Workload, count: int = 2, **engine: Any) -> Records:
        settings = {"block_size": 4, "num_blocks": 64, "max_model_len": 64} | engine
        scenario = new_scenario(replicas={"count": count, "router": router}, engine=settings)
        records = serve(scenario, "default", workload)
        assert_equal_records(records, serve(scenario, "default", workload, stepwise=True))
        return records

    return served


def log(records: Records) -> list[tuple[float, ...]]:
    """(replica, arrived, admitted, first token, last token) of each request, in ms."""
    columns = ["arrival_ns", "admitted_ns", "first_token_ns", "finished_ns"]
    return [
        (replica, *(time / MS for time in row))
        for replica, *row in records.requests[["replica", *columns]].itertuples(index=False)
    ]


# --- by hand ---


def test_round_robin_takes_turns(new_workload, serve_by):
    """Each replica in steps of its own: that of the second is from 3 to 13."""
    workload = new_workload((4, 2), (4, 1), (4, 1), (4, 1), arrival_ms=[0, 3, 5, 6])
    assert log(serve_by("round-robin", workload)) == [
        (0, 0, 0, 10, 20),
        (1, 3, 3, 13, 13),
        (0, 5, 10, 20, 20),
        (1, 6, 13, 23, 23),
    ]


def test_least_requests_counts_those_that_run_and_those_that_wait(new_workload, serve_by):
    """At 5 both have one; at 6 the first has two; at 25 the second has none any more."""
    workload = new_workload((4, 9), (4, 2), (4, 2), (4, 1), (4, 1), arrival_ms=[0, 3, 5, 6, 25])
    assert log(serve_by("least-requests", workload, max_num_seqs=1)) == [
        (0, 0, 0, 10, 90),
        (1, 3, 3, 13, 23),
        (0, 5, 90, 100, 110),
        (1, 6, 23, 33, 33),
        (1, 25, 33, 43, 43),
    ]


@pytest.mark.parametrize(("at_ms", "replica"), [(20, 1), (21, 0)])
def test_a_request_is_unfinished_until_its_last_step_has_ended(
    new_workload, serve_by, at_ms, replica
):
    """At 20, and arrivals come before ends of steps."""
    workload = new_workload((4, 2), (4, 1), arrival_ms=[0, at_ms])
    assert log(serve_by("least-requests", workload))[1][0] == replica


def test_least_kv_goes_by_what_is_held_now(new_workload, serve_by):
    """Blocks of 4. At 15 a prompt of 12 and one of 4 run, each with a token more: 4 blocks to 2. In
    the step from 80 the second begins its fourth block and the first has ended."""
    workload = new_workload((12, 4), (4, 20), (4, 1), (4, 1), arrival_ms=[0, 1, 15, 85])
    assert [row[0] for row in log(serve_by("least-kv", workload))] == [0, 1, 1, 0]


@pytest.mark.parametrize(("at_ms", "replica"), [(40, 0), (41, 1), (50, 1), (51, 0)])
def test_a_block_counts_as_soon_as_the_step_that_begins_it_has_begun(
    new_workload, serve_by, at_ms, replica
):
    """Two blocks of 4 slots each from 10 on; the first begins its third in the step from 40 to 50,
    the second in the one after it."""
    workload = new_workload((5, 20), (4, 20), (4, 1), arrival_ms=[0, 0, at_ms])
    assert log(serve_by("least-kv", workload))[2][0] == replica


def test_prefix_match_brings_equal_prompts_together(new_workload, serve_by):
    """Three prompts of 9 in turn, of which 8 tokens can be hit: round robin computes each of them
    on each replica, prefix match once; they come one by one."""
    turns = [0, 1, 2] * 6
    workload = new_workload(
        *[(9, 1)] * 18, arrival_ms=[20 * i for i in range(18)], content_ids=turns
    )
    hits = {
        router: summarise(serve_by(router, workload, enable_prefix_caching=True))
        for router in ("round-robin", "prefix-match")
    }
    assert hits["round-robin"]["prefix_hit_tokens"] == (18 - 6) * 8
    assert hits["prefix-match"]["prefix_hit_tokens"] == (18 - 3) * 8


def test_prefix_match_finds_what_a_step_computes_as_it_begins(new_workload, serve_by):
    """The first runs from 0; the second, of the same text, comes at 5, and it is there already."""
    workload = new_workload((9, 9), (9, 1), arrival_ms=[0, 5], content_ids=[7, 7])
    records = serve_by("prefix-match", workload, enable_prefix_caching=True)
    assert log(records)[1] == (0, 5, 10, 20, 20)
    assert records.requests["cached_tokens"].tolist() == [0, 8]


def test_who_hears_as_a_step_ends_may_be_in_time_for_the_next_of_any_replica(
    new_workload, serve_by
):
    """All steps end at 10. The user of the second request, on replica 1, sends the third to replica
    0; in the other run that of the third, on replica 0, sends the fourth to replica 1."""
    workload = new_workload((4, 3), (4, 1), (4, 1), closed_loop=ClosedLoop(2, 0.0))
    assert log(serve_by("round-robin", workload))[2] == (0, 10, 10, 20, 20)
    workload = new_workload((4, 3), (4, 3), (4, 1), (4, 1), closed_loop=ClosedLoop(3, 0.0))
    assert log(serve_by("round-robin", workload))[3] == (1, 10, 10, 20, 20)


def test_refused_request_belongs_to_the_replica_that_it_was_sent_to(new_workload, serve_by):
    workload = new_workload((4, 1), (70, 1), (4, 1), arrival_ms=[0, 1, 2])
    records = serve_by("round-robin", workload)
    rows = summarise_replicas(records)
    assert [row["refused"] for row in rows] == [0, 1]
    assert summarise(records)["refused"] == 1
    assert records.first_refusal is not None


# --- against runs of one replica ---


@pytest.mark.parametrize("router", ROUTERS)
def test_one_replica_is_the_same_under_any_router(new_scenario, assert_equal_records, router):
    engine = {"enable_prefix_caching": True}
    alone = simulate(new_scenario(engine=engine), "default")
    behind = new_scenario(engine=engine, replicas={"count": 1, "router": router})
    assert_equal_records(simulate(behind, "default"), alone)
    assert "replica" not in alone.requests
    assert summarise_replicas(alone) == []


def with_some(workload: Workload, first: int, step: int) -> Workload:
    """Every step-th request of a workload of one segment a request, from the first on."""
    some = slice(first, None, step)
    num = len(workload.prompt_tokens[some])
    assert workload.arrival_ns is not None
    return Workload(
        arrival_ns=workload.arrival_ns[some],
        closed_loop=None,
        prompt_tokens=workload.prompt_tokens[some],
        output_tokens=workload.output_tokens[some],
        max_new_tokens=workload.max_new_tokens[some],
        segment_offsets=np.arange(num + 1, dtype=np.int64),
        segment_ids=workload.segment_ids[some],
        segment_tokens=workload.segment_tokens[some],
        answer_ids=workload.answer_ids[some],
        num_outputs=1,
    )


@pytest.mark.parametrize("is_async", [False, True])
def test_round_robin_is_every_nth_request_on_a_replica_alone(
    new_workload, new_scenario, serve_by, is_async
):
    """Each replica's steps and stamps are those of a run with its requests alone; and its ledger,
    but that it stays empty until the others have ended."""
    rng = random.Random(7)
    lengths = [(rng.randint(1, 20), rng.randint(1, 25)) for _ in range(60)]
    workload = new_workload(*lengths, arrival_ms=sorted(rng.randrange(900) for _ in range(60)))
    settings = {"num_blocks": 16, "async_scheduling": is_async}
    records = serve_by("round-robin", workload, 3, **settings)
    for number in range(3):
        engine = {"block_size": 4, "max_model_len": 64} | settings
        alone = serve(new_scenario(engine=engine), "default", with_some(workload, number, 3))
        part = records.of_replica(number)
        pd.testing.assert_frame_equal(
            part.requests.reset_index(drop=True), alone.requests, check_names=False
        )
        pd.testing.assert_frame_equal(part.steps.iloc[: len(alone.steps)], alone.steps)
        assert (part.steps.iloc[len(alone.steps) :]["free"] == 64).all()
        assert part.slot_ns[:-1] == alone.slot_ns[:-1]


# --- what they leave together ---


@pytest.fixture(scope="module")
def run_of_three(new_scenario) -> Records:
    """Short of memory, and with prompts that are shared."""
    scenario = new_scenario(
        replicas={"count": 3, "router": "prefix-hash"},
        engine={
            "block_size": 4,
            "num_blocks": 20,
            "max_model_len": 64,
            "enable_prefix_caching": True,
        },
        workload={
            "requests": 80,
            "arrivals": {"poisson": {"rate": 30}},
            "prompts": {
                "unique": {"uniform": {"low": 1, "high": 12}},
                "shared": {"groups": 2, "tokens": 9},
            },
            "outputs": {"uniform": {"low": 1, "high": 30}},
        },
    )
    return simulate(scenario, "default")


def test_the_whole_is_the_sum_of_its_parts(run_of_three):
    total, parts = summarise(run_of_three), summarise_replicas(run_of_three)
    assert total["preemptions"] > 0
    assert len({row["requests"] for row in parts}) == 3
    for name in (
        "requests",
        "finished",
        "output_tokens",
        "preemptions",
        "steps",
        "prefix_query_tokens",
        "prefix_hit_tokens",
        "prefix_miss_evicted_tokens",
    ):
        assert total[name] == sum(row[name] for row in parts), name
    for name in ("output_tokens_per_s", "requests_per_s", "saved_slots_mean"):
        assert total[name] == pytest.approx(sum(row[name] for row in parts)), name
    for name in ("block_utilisation", "live_share", "cached_share", "free_share"):
        assert total[name] == pytest.approx(np.mean([row[name] for row in parts])), name
    assert {row["span_s"] for row in parts} == {total["span_s"]}
    num_gaps = sum(int(part.itl_ns[1].sum()) for part in run_of_three.replicas)
    assert num_gaps == run_of_three.itl_ns[1].sum() == total["output_tokens"] - total["finished"]
    assert total["itl_mean_s"] == pytest.approx(
        sum(
            row["itl_mean_s"] * part.itl_ns[1].sum()
            for row, part in zip(parts, run_of_three.replicas, strict=True)
        )
        / num_gaps
    )


def test_the_ledger_of_each_replica_adds_up_over_the_whole_time(run_of_three):
    end_ns = run_of_three.steps.groupby("replica")["duration_ns"].sum()
    assert end_ns.nunique() == 1
    assert end_ns[0] >= run_of_three.requests["finished_ns"].max()
    for part in run_of_three.replicas:
        assert sum(part.slot_ns) == 20 * 4 * end_ns[0]


def test_a_replica_that_is_never_asked_has_an_empty_pool(new_workload, serve_by):
    workload = new_workload((4, 3), (4, 3), arrival_ms=[0, 50])
    records = serve_by("least-requests", workload, 3)
    assert records.requests["replica"].tolist() == [0, 0]
    rows = summarise_replicas(records)
    assert [row["requests"] for row in rows] == [2, 0, 0]
    assert [row["free_share"] for row in rows[1:]] == [1.0, 1.0]


# --- every step by itself ---


SYSTEMS: list[dict[str, Any]] = [
    *[{}, {}],
    {"batching": "static", "batch_size": 4, "max_wait_s": 0.03, "async_scheduling": False},
    {"policy": "priority"},
    {"policy": "lpm"},
    {
        "mixed_batches": False,
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 300,
        "async_scheduling": False,
    },
]


def random_scenario(seed: int) -> Scenario:
    """Small worlds with ends of steps, answers and arrivals that coincide."""
    rng = random.Random(seed)
    is_caching = rng.random() < 0.6
    arrivals: dict[str, Any] = rng.choice(
        [
            {"constant": {"rate": rng.choice([20, 50, 100, 200])}},
            {"poisson": {"rate": rng.choice([20, 200])}},
            {
                "closed_loop": {
                    "concurrency": rng.randint(2, 30),
                    "think_time_s": rng.choice([0.0, 0.0, 0.05]),
                }
            },
        ]
    )
    workload: dict[str, Any] = {
        "requests": rng.randint(20, 80),
        "arrivals": arrivals,
        "prompts": {
            "unique": {"uniform": {"low": 1, "high": 20}},
            "shared": {"groups": rng.randint(1, 4), "tokens": 20},
        },
        "outputs": {"uniform": {"low": 1, "high": rng.choice([5, 60])}},
    }
    if rng.random() < 0.4:
        turns = {"uniform": {"low": 1, "high": 4}}
        workload["sessions"] = {"turns": turns, "think_time_s": rng.choice([0.0, 0.05])}
    engine = {
        "block_size": rng.choice([1, 4, 8]),
        "num_blocks": rng.choice([120, 400]),
        "max_model_len": 110,
        "max_num_seqs": rng.choice([3, 8, 40]),
        "max_num_batched_tokens": rng.choice([16, 300]),
        "enable_prefix_caching": is_caching,
        "async_scheduling": rng.random() < 0.5,
    }
    system = rng.choice(SYSTEMS)
    if is_caching or system.get("policy") != "lpm":
        engine |= system
    if not ({"batching", "policy"} & set(engine) or "sessions" in workload):
        workload["n"] = rng.choice([1, 3])
    routers = [name for name in ROUTERS if is_caching or name != "prefix-match"]
    return Scenario.parse(
        {
            "name": "random",
            "seed": seed,
            "latency": rng.choice(
                [
                    {"kind": "constant", "step_time_s": 0.01},
                    {
                        "kind": "linear",
                        "step_s": 0.01,
                        "per_decode_s": 1e-3,
                        "per_prefill_token_s": 1e-4,
                    },
                    {"kind": "roofline"},
                ]
            ),
            "engine": engine,
            "replicas": {"count": rng.choice([1, 2, 4]), "router": rng.choice(routers)},
            "workload": workload,
        }
    )


@pytest.mark.parametrize("seed", range(100))
def test_records_are_those_of_every_step_by_itself(assert_equal_records, seed):
    scenario = random_scenario(seed)
    stepwise = simulate(scenario, "default", stepwise=True)
    assert_equal_records(simulate(scenario, "default"), stepwise)


def workload_of(segments: list[list[Segment]], outputs: list[int], **sent: Any) -> Workload:
    """Prompts of these segments; the answer to request i is the content 1000 + i. sent: how."""
    flat = [segment for prompt in segments for segment in prompt]
    output_tokens = np.array(outputs, np.int64)
    return Workload(
        **{"arrival_ns": None, "closed_loop": None} | sent,
        prompt_tokens=np.array([sum(n for _, n in prompt) for prompt in segments], np.int64),
        output_tokens=output_tokens,
        max_new_tokens=output_tokens,
        segment_offsets=np.cumsum([0, *map(len, segments)]),
        segment_ids=np.array([content for content, _ in flat], np.int64),
        segment_tokens=np.array([n for _, n in flat], np.int64),
        answer_ids=1000 + np.arange(len(segments)),
        num_outputs=1,
    )


def quoting_workload(rng: random.Random, num_requests: int) -> Workload:
    """Half of the prompts quote some of the prompt and the answer of an earlier request, which may
    be written just then."""
    segments: list[list[Segment]] = []
    for number in range(num_requests):
        if number and rng.random() < 0.6:
            other = rng.randrange(max(number - 6, 0), number)
            segments.append([*segments[other][:1], (1000 + other, rng.randint(1, 15))])
        else:
            segments.append([(number, 8)])
    outputs = [rng.randint(10, 40) for _ in segments]
    return workload_of(segments, outputs, closed_loop=ClosedLoop(7, 0.0))


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_what_is_just_being_written_is_found_as_every_step_by_itself_has_it(
    serve_by, seed, is_async
):
    workload = quoting_workload(random.Random(seed), 60)
    records = serve_by(
        "prefix-match",
        workload,
        3,
        enable_prefix_caching=True,
        async_scheduling=is_async,
        block_size=2,
        num_blocks=128,
    )
    assert records.requests["cached_tokens"].sum() > 0


@pytest.mark.parametrize(("at_ms", "replica"), [(49, 1), (50, 1), (51, 0), (60, 0)])
def test_with_asynchronous_steps_a_token_is_found_once_it_is_known_and_fed(
    serve_by, at_ms, replica
):
    """The fifth token of the first answer comes at 50, as the step after the next is scheduled, but
    after who comes then. Of the 28 tokens that quote it 9 are more than 0.3, and 8 are not."""
    segments = [[(0, 4)], [(0, 4), (1000, 20), (5, 4)]]
    workload = workload_of(segments, [30, 1], arrival_ns=np.array([0, at_ms * MS]))
    settings = {"block_size": 1, "enable_prefix_caching": True, "async_scheduling": True}
    assert log(serve_by("prefix-match", workload, **settings))[1][0] == replica


# --- what routers are for ---


def waiting_s(
    monkeypatch: pytest.MonkeyPatch, scenario: Scenario, router: str | None = None
) -> float:
    """Mean time in the queue; without the name of a router the replicas are drawn at random."""
    with monkeypatch.context() as patch:
        if router is None:
            rng = np.random.default_rng(scenario.seed)

            def at_random(_: Request, replicas: Sequence[object]) -> int:
                return int(rng.integers(len(replicas)))

            patch.setattr(wiring, "build_router", lambda name, seed: at_random)
        else:
            replicas = scenario.replicas.model_copy(update={"router": router})
            scenario = scenario.model_copy(update={"replicas": replicas})
        waited = summarise(simulate(scenario, "default"))["queueing_mean_s"]
    assert waited is not None
    return waited


@pytest.mark.slow
def test_two_choices_wait_less_than_random_ones_and_turns(new_scenario, monkeypatch):
    """Eight servers of one request at a time, busy for 0.9 of the time; exponential outputs.

    With random choices each is an M/G/1 queue; the differences are of the same arrivals.
    """
    differences: dict[str | None, list[float]] = {None: [], "round-robin": []}
    for seed in range(8):
        scenario = new_scenario(
            seed=seed,
            replicas=8,
            engine={"max_num_seqs": 1},
            workload={
                "requests": 800,
                "arrivals": {"poisson": {"rate": 8 * 0.9 / 0.2}},
                "prompts": {"unique": 4},
                "outputs": {"exponential": {"mean": 20, "max": 1000}},
            },
        )
        of_two = waiting_s(monkeypatch, scenario, "power-of-two")
        for other, found in differences.items():
            found.append(waiting_s(monkeypatch, scenario, other) - of_two)
    for found in differences.values():
        half_width = half_width_95(np.array(found))
        assert half_width is not None
        assert np.mean(found) > half_width


# --- scenario, folder, tables ---


def test_a_bare_number_is_the_count(new_scenario):
    assert new_scenario(replicas=4) == new_scenario(replicas={"count": 4, "router": "round-robin"})
    assert new_scenario().replicas.count == 1


def test_the_count_and_the_router_can_be_set_and_swept(kvsim):
    path = kvsim.folder / "small.yaml"
    assert load_scenario(path, ["replicas.count=8"]).replicas.count == 8
    assert load_scenario(path, ["replicas=3"]).replicas.count == 3
    both = load_scenario(path, ["replicas=3", "replicas.router=least-kv"]).replicas
    assert (both.count, both.router) == (3, "least-kv")
    swept = load_scenario(path, ["replicas=2", "sweep.replicas.router=[least-kv, round-robin]"])
    assert [(p.replicas.count, p.replicas.router) for _, p in points(swept)] == [
        (2, "least-kv"),
        (2, "round-robin"),
    ]
    swept = load_scenario(path, ["sweep.replicas.count=[1, 4]"])
    assert [point.replicas.count for _, point in points(swept)] == [1, 4]


@pytest.fixture(scope="module")
def swept(kvsim_of_module):
    """A folder with every router at 3 replicas, and one with 10 of them, set by hand."""
    kvsim = kvsim_of_module
    text = (kvsim.folder / "small.yaml").read_text("utf-8")
    text += "replicas: 3\nengine: {enable_prefix_caching: true, block_size: 4}\n"
    (kvsim.folder / "three.yaml").write_text(text, "utf-8")
    sweep = f"sweep.replicas.router=[{', '.join(ROUTERS)}]"
    folders = []
    for out, hash_seed in (("one", "1"), ("two", "31337")):
        done = kvsim("run", "three.yaml", "--out", out, "--set", sweep, PYTHONHASHSEED=hash_seed)
        assert done.returncode == 0, done.stderr
        (name,) = kvsim.left(out)
        folders.append(kvsim.folder / out / name)
    return folders


@pytest.mark.slow
def test_same_seed_same_bytes_under_any_hash_seed(swept):
    first, second = (
        {
            str(path.relative_to(folder)): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        for folder in swept
    )
    assert first == second


@pytest.mark.slow
def test_tables_of_a_run_have_the_replicas(swept):
    requests, steps, replicas = (
        pd.read_csv(swept[0] / f"{name}.csv") for name in ("requests", "steps", "replicas")
    )
    assert replicas[["replicas.router", "replica"]].to_numpy().tolist() == [
        [router, number] for router in ROUTERS for number in range(3)
    ]
    keys = ["replicas.router", "replica"]
    counted = requests.groupby(keys).size()
    assert {tuple(row) for row in counted.reset_index().to_numpy()} == {
        (*row[keys], row["requests"]) for _, row in replicas.iterrows() if row["requests"]
    }
    assert steps.groupby(keys)["steps"].sum().sum() == replicas["steps"].sum()


@pytest.mark.slow
def test_replicas_are_printed_and_many_are_folded(kvsim):
    few = kvsim("run", "small.yaml", "--quiet", "--set", "replicas.count=2").stdout
    assert [line.split()[:3] for line in few.splitlines() if "default" in line][1:] == [
        ["default", "0", "3"],
        ["default", "1", "2"],
    ]
    many = kvsim("run", "small.yaml", "--quiet", "--set", "replicas=9").stdout
    assert [line.split()[:3] for line in many.splitlines() if "default" in line][1:] == [
        ["default", "min", "0"],
        ["default", "mean", "0.556"],
        ["default", "max", "1"],
    ]


def test_eight_replicas_have_a_row_each():
    rows = pd.DataFrame({"system": "s", "replica": range(8), "requests": 1})
    names = (
        "output_tokens_per_s",
        "ttft_p50_s",
        "ttft_p99_s",
        "tpot_p50_s",
        "block_utilisation",
        "preemptions",
        "prefix_hit_share",
    )
    assert replica_table(rows.assign(**dict.fromkeys(names, 0.5))).row_count == 8


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("replicas=0", "replicas.count: got 0, expected greater than or equal to 1"),
        ("replicas.count=2000", "replicas.count: got 2000, expected less than or equal to 1024"),
        ("replicas.router=random", "replicas.router: got 'random', expected 'round-robin', "),
        (
            "replicas.router=prefix-match",
            "replicas.router: got 'prefix-match', which needs "
            "enable_prefix_caching, expected another one for the system 'default'",
        ),
        ("replicas.number=2", "replicas.number: unknown key"),
    ],
)
def test_mistakes_are_named_in_one_line(kvsim, override, expected):
    with pytest.raises(UserError) as raised:
        load_scenario(kvsim.folder / "small.yaml", [override])
    assert expected in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_twin_is_of_one_replica(new_scenario):
    with pytest.raises(UserError, match="replicas: got 2, expected 1: a twin"):
        check_can_be_twinned(new_scenario(runner="toy-lm", replicas=2), "x.yaml")
