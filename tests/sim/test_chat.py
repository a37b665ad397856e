"""The shipped scenarios: what they are there to show, and for the reason that is given."""

import csv
import gzip
import io
from pathlib import Path

import pytest
from matplotlib.image import imread

from sim.scenario.deployed import build_config
from sim.scenario.file import load_scenario
from sim.simulate import simulate

pytestmark = pytest.mark.slow  # all runs of the chat scenario, once

USERS = "workload.arrivals.closed_loop.concurrency"
STATIC, CONTINUOUS, SHARING = "static", "continuous", "continuous + prefix sharing"


@pytest.fixture(scope="module")
def chat_folder(kvsim_of_module, root) -> Path:
    """What `kvsim run scenarios/chat.yaml` leaves, once and without the toy LM."""
    kvsim = kvsim_of_module
    fast = ("--set", "runner=replay", "--set", "replications=1", "--quiet")
    done = kvsim("run", str(root / "scenarios" / "chat.yaml"), *fast)
    assert (done.returncode, done.stderr) == (0, "")
    (name,) = kvsim.left()
    return kvsim.folder / "runs" / name


@pytest.fixture(scope="module")
def chat(chat_folder) -> dict[tuple[str, int], dict[str, float]]:
    """Metrics by system and number of users."""
    text = (chat_folder / "summary.csv").read_text("utf-8")
    return {
        (row.pop("system"), int(row.pop(USERS))): {
            name: float(value) for name, value in row.items() if value
        }
        for row in csv.DictReader(io.StringIO(text))
    }


def test_every_system_meets_every_number_of_users(chat):
    systems = (STATIC, CONTINUOUS, SHARING)
    assert list(chat) == [(s, users) for s in systems for users in (1, 2, 4, 8, 16, 32, 64)]
    assert all(row["finished"] == row["requests"] == 160 for row in chat.values())


def test_all_systems_produce_the_same_tokens(chat):
    assert len({row["output_tokens"] for row in chat.values()}) == 1


@pytest.mark.parametrize("users", [2, 4, 8, 16, 32, 64])
def test_continuous_beats_static(chat, users):
    """More tokens a second, and the first of them earlier."""
    static, continuous = chat[STATIC, users], chat[CONTINUOUS, users]
    assert continuous["output_tokens_per_s"] > 1.2 * static["output_tokens_per_s"]
    assert continuous["ttft_p50_s"] < static["ttft_p50_s"]


@pytest.mark.parametrize("users", [16, 32, 64])
def test_sharing_beats_continuous(chat, users):
    continuous, sharing = chat[CONTINUOUS, users], chat[SHARING, users]
    assert sharing["output_tokens_per_s"] > continuous["output_tokens_per_s"]
    assert sharing["ttft_p50_s"] < continuous["ttft_p50_s"]


def test_sharing_beats_continuous_by_far_where_memory_is_short(chat):
    sharing, continuous = chat[SHARING, 64], chat[CONTINUOUS, 64]
    assert sharing["output_tokens_per_s"] > 1.2 * continuous["output_tokens_per_s"]


def test_static_holds_more_for_nothing_than_it_uses(chat):
    """Why it is slower: rows that have ended keep their slots, others wait for them."""
    static = chat[STATIC, 64]
    assert static["over_reserved_share"] > 2 * static["live_share"]
    assert chat[CONTINUOUS, 64]["over_reserved_share"] == 0
    assert chat[CONTINUOUS, 64]["live_share"] > 2 * static["live_share"]


def test_static_batches_are_as_large_as_the_pool_allows(chat):
    """So the last 32 users change nothing but the wait."""
    rates = [chat[STATIC, users]["output_tokens_per_s"] for users in (32, 64)]
    assert rates[1] == pytest.approx(rates[0], rel=0.02)
    assert chat[STATIC, 64]["block_utilisation"] > 0.95
    assert chat[STATIC, 64]["ttft_p50_s"] > 2 * chat[STATIC, 32]["ttft_p50_s"]


def test_sharing_needs_fewer_slots_for_more_tokens(chat):
    """Why it is faster: the same users fit, so nobody is preempted and computed again."""
    sharing, continuous = chat[SHARING, 64], chat[CONTINUOUS, 64]
    assert sharing["live_share"] < 0.7 * continuous["live_share"]
    assert sharing["block_utilisation"] < 0.7 * continuous["block_utilisation"]
    assert continuous["preemptions"] > 0
    assert sharing["preemptions"] == 0


def test_sharing_hits_the_system_prompts(chat):
    """96 of 96 + 40 tokens on average, for all but the first request of each group."""
    assert chat[SHARING, 64]["prefix_hit_share"] == pytest.approx(96 / 136, abs=0.05)
    assert all(row["prefix_hit_tokens"] == 0 for (s, _), row in chat.items() if s != SHARING)


def test_one_user_is_served_alike_by_all_but_static(chat, root):
    """Nobody to share a batch with; static waits for company each time, as long as it may."""
    max_wait_s = build_config(load_scenario(root / "scenarios" / "chat.yaml"), STATIC).max_wait_s
    static, continuous, sharing = (chat[s, 1] for s in (STATIC, CONTINUOUS, SHARING))
    assert sharing["output_tokens_per_s"] == pytest.approx(
        continuous["output_tokens_per_s"], rel=0.02
    )
    assert static["ttft_p50_s"] - continuous["ttft_p50_s"] == pytest.approx(max_wait_s, abs=1e-3)


def test_memory_over_time_is_a_picture_of_areas(chat_folder):
    """A fifth of it, at least, has a colour."""
    picture = imread(chat_folder / "figures" / "kv_memory.png")[..., :3]
    is_coloured = picture.max(axis=2) - picture.min(axis=2) > 0.3
    assert is_coloured.mean() > 0.2


@pytest.mark.parametrize("name", ["throughput", "latency", "kv_memory", "kv_shares"])
def test_figures_are_pictures(chat_folder, name):
    """Readable by another program, of a useful size and not blank."""
    picture = imread(chat_folder / "figures" / f"{name}.png")
    height, width, _ = picture.shape
    assert 350 < height < 3000
    assert 800 < width < 3000
    assert picture[..., :3].std() > 0.05


def rows_of(path: Path) -> list[tuple[int, int]]:
    """Prompt and output tokens of an Azure trace, in the order of the file."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        return [(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in rows]


def test_azure_scenario_replays_its_sample(root):
    scenario = load_scenario(root / "scenarios" / "azure_conv.yaml")
    rows = rows_of(root / "scenarios" / "samples" / "azure_form.csv")
    requests = simulate(scenario, "continuous").requests
    assert requests[["prompt_tokens", "output_tokens"]].to_numpy().tolist() == list(map(list, rows))
    assert (requests["finish_reason"] == "stop").all()


def test_azure_scenario_replays_the_real_trace(root, data_dir):
    """Its first 2,000 requests: all end, with every token that the file says."""
    trace = data_dir / "traces" / "azure2023" / "AzureLLMInferenceTrace_conv.csv.gz"
    overrides = [f"workload.trace={trace}", "workload.requests=2000"]
    scenario = load_scenario(root / "scenarios" / "azure_conv.yaml", overrides)
    requests = simulate(scenario, "continuous").requests
    rows = rows_of(trace)[:2000]
    assert (requests["finish_reason"] == "stop").all()
    assert requests["prompt_tokens"].sum() == sum(prompt for prompt, _ in rows)
    assert requests["output_tokens"].sum() == sum(output for _, output in rows)


def test_azure_scenario_fits_its_gpu(root):
    """432,000 tokens of KV beside the weights leave some of the 80 GB for activations."""
    engine = load_scenario(root / "scenarios" / "azure_conv.yaml").engine
    kv_bytes = engine.num_blocks * engine.block_size * 131_072
    assert 0.85 * 80e9 < kv_bytes + 2 * 8_030_261_248 < 0.95 * 80e9
