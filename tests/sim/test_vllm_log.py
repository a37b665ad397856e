"""`kvsim import vllm-log`: which settings it finds in the log of a start, and where.

The logs are written here in the form that vLLM's versions have, cut down to what matters.
"""

import gzip
import subprocess

import pytest
import yaml

from sim.errors import UserError
from sim.scenario.file import load_scenario
from sim.vllm_import.draft import find_hardware, find_model, scenario_name
from sim.vllm_import.fields import parse_fields
from sim.vllm_import.from_log import draft_of_log
from sim.vllm_import.start_log import read_start_log
from workloads.source import Source

CONFIG = (
    "config: model='{model}', speculative_config=None, tokenizer='t', dtype=torch.bfloat16, "
    "max_seq_len=8192, load_format=auto, tensor_parallel_size=4, pipeline_parallel_size=1, "
    "quantization={quantization}, kv_cache_dtype={kv}, "
    "structured_outputs_config=StructuredOutputsConfig(backend='auto', dtype='no'), "
    "enable_prefix_caching=True, chunked_prefill_enabled=True, pooler_config=None, "
    'compilation_config={{"level": 3, "splitting_ops": ["a", "b"]}}'
)
V1_CONFIG = CONFIG.format(model="org/Llama-3.1-70B-Instruct", quantization="None", kv="auto")
V1 = f"""\
(APIServer pid=7) INFO 11-28 12:00:00 [api_server.py:1839] vLLM API server version 0.11.0
(APIServer pid=7) INFO 11-28 12:00:00 [utils.py:233] non-default args: {{'model_tag': 'm', \
'model': 'org/Llama-3.1-70B-Instruct', 'max_model_len': 9000, 'tensor_parallel_size': 4, \
'gpu_memory_utilization': 0.92, 'max_num_seqs': 512, 'hf_overrides': {{'max_num_seqs': 3}}, \
'served_model_name': ['big, model'], 'compilation_config': <Level.O2: 2>}}
INFO 11-28 12:00:02 [scheduler.py:205] Chunked prefill is enabled with max_num_batched_tokens=8192.
INFO 11-28 12:00:02 [vllm.py:754] Asynchronous scheduling is enabled.
\x1b[1;36m(EngineCore_DP0 pid=123)\x1b[0;0m INFO 11-28 12:00:09 [core.py:77] Initializing a V1 LLM \
engine (v0.11.0) with {V1_CONFIG}
(Worker_TP0 pid=9) INFO 11-28 12:00:50 [gpu_worker.py:298] Available KV cache memory: 67.66 GiB
(EngineCore_DP0 pid=123) INFO 11-28 12:01:00 [kv_cache_utils.py:1087] GPU KV cache size: \
221,728 tokens
(EngineCore_DP0 pid=123) INFO 11-28 12:01:00 [kv_cache_utils.py:1091] Maximum concurrency for \
8,192 tokens per request: 27.07x
"""
V0 = """\
INFO 10-07 09:54:22 api_server.py:209] vLLM API server version 0.6.3.post1
INFO 10-07 09:54:22 api_server.py:210] args: Namespace(host=None, port=8000, model='q/Qwen3-8B', \
config_format=<ConfigFormat.AUTO: 'auto'>, max_num_seqs=256, block_size=32, max_model_len=None, \
gpu_memory_utilization=0.9, dispatch_function=<function serve at 0x7f>)
INFO 10-07 09:54:22 llm_engine.py:237] Initializing an LLM engine (v0.6.3.post1) with config: \
model='q/Qwen3-8B', dtype=torch.float16, max_seq_len=4096, load_format=LoadFormat.AUTO, \
tensor_parallel_size=1, quantization=awq_marlin, kv_cache_dtype=fp8_e5m2, \
decoding_config=DecodingConfig(guided_decoding_backend='outlines'), \
chunked_prefill_enabled=False multi_step_stream_outputs=True, enable_prefix_caching=False)
INFO 10-07 09:55:22 gpu_executor.py:122] # GPU blocks: 27716, # CPU blocks: 2048
INFO 10-07 09:55:22 gpu_executor.py:126] Maximum concurrency for 4096 tokens per request: 216.53x
"""


def imported(text: str) -> str:
    source = Source("server.log", text)
    return draft_of_log(read_start_log(source), source.name).text()


def settings(text: str) -> dict:
    return yaml.safe_load(imported(text))


def test_settings_of_a_v1_start():
    """221,728 tokens are 13,858 blocks of 16, one of which is the null block."""
    found = settings(V1)
    assert found["model"] == "llama-3.1-70b"
    assert found["engine"] == {
        "num_blocks": 13857,
        "max_num_seqs": 512,
        "max_num_batched_tokens": 8192,
        "max_model_len": 8192,
        "enable_prefix_caching": True,
        "enable_chunked_prefill": True,
        "async_scheduling": True,
        "vllm_version": "0.11.0",
    }
    assert found["deployment"] == {
        "tensor_parallel_size": 4,
        "gpu_memory_utilization": 0.92,
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "quantization": "none",
    }


def test_settings_of_a_v0_start():
    """No null block; prompts come whole, in steps of as many tokens as the longest has."""
    found = settings(V0)
    assert found["model"] == "qwen3-8b"
    assert found["engine"] == {
        "block_size": 32,
        "num_blocks": 27716,
        "max_num_seqs": 256,
        "max_num_batched_tokens": 4096,
        "max_model_len": 4096,
        "enable_prefix_caching": False,
        "enable_chunked_prefill": False,
        "watermark": 0.01,
        "mixed_batches": False,
        "vllm_version": "0.6.3.post1",
    }
    assert found["deployment"]["quantization"] == "int4"
    assert found["deployment"]["kv_cache_dtype"] == "fp8"


def test_each_key_says_its_line_and_that_line_has_it():
    text = imported(V1)
    lines = V1.splitlines()
    for key, said in (("num_blocks", "221,728 tokens"), ("max_num_seqs", "'max_num_seqs': 512")):
        written = next(line for line in text.splitlines() if line.strip().startswith(key))
        number = int(written.partition("# line ")[2].partition(":")[0])
        assert said in lines[number - 1]


def test_what_the_log_does_not_say_is_listed():
    head = " ".join(line[2:] for line in imported(V1).splitlines() if line.startswith("# "))
    assert "left at kvsim's default: engine.block_size (16)." in head
    assert "REPLACE by your GPU" in imported(V1)


@pytest.mark.parametrize(
    ("longest", "num_blocks"), [(8192, 1000), (8190, 1000), (5001, 777), (1007, 12345)]
)
def test_blocks_from_tokens_of_recent_versions(longest, num_blocks):
    """They print blocks / (blocks of the longest request) x max_model_len, rounded down."""
    num_tokens = int(num_blocks / -(-longest // 16) * longest)
    line = (
        f"INFO [kv_cache_utils.py:9] GPU KV cache size: {num_tokens:,} tokens, Maximum "
        f"concurrency for {longest:,} tokens per request: {num_tokens / longest:.2f}x\n"
    )
    assert settings(line)["engine"]["num_blocks"] == num_blocks - 1


def test_blocks_that_the_log_counts_win_over_tokens_that_may_mean_them():
    """A request of 1,000 tokens takes 63 blocks: 15,888 tokens are 993 blocks, or 1,001 / 63 x
    1,000 rounded down."""
    tokens = (
        "INFO GPU KV cache size: 15,888 tokens, Maximum concurrency for 1,000 tokens per request\n"
    )
    counted = "INFO vllm cache_config_info with initialization after num_gpu_blocks is: 1001\n"
    assert settings(tokens)["engine"]["num_blocks"] == 992
    assert settings(tokens + counted)["engine"]["num_blocks"] == 1000


def test_tokens_win_over_blocks_that_several_kinds_of_layers_share():
    counted = "INFO vllm cache_config_info with initialization after num_gpu_blocks is: 27716\n"
    text = imported(V1 + counted)
    assert yaml.safe_load(text)["engine"]["num_blocks"] == 13857
    assert "num_gpu_blocks is: 27716 does not fit it" in " ".join(text.split())


def test_smallest_pool_of_the_workers_counts():
    """Interleaved workers of one engine, which takes what all of them have."""
    lines = [
        f"(Worker_{i}) INFO GPU KV cache size: {n:,} tokens\n"
        for i, n in enumerate((1600, 1280, 1616))
    ]
    text = imported("".join(lines))
    assert yaml.safe_load(text)["engine"]["num_blocks"] == 79
    assert "the smallest is taken" in text


def test_last_start_of_a_log_counts():
    text = imported(V1 + V0)
    assert yaml.safe_load(text)["model"] == "qwen3-8b"
    assert "async_scheduling" not in yaml.safe_load(text)["engine"]
    assert "the log has 2 starts" in text


def test_block_size_that_vllm_raised():
    raised = "INFO [config.py:281] Setting attention block size to 784 tokens to ensure that\n"
    found = settings(f"{raised}INFO GPU KV cache size: 78,400 tokens\n")
    assert (found["engine"]["block_size"], found["engine"]["num_blocks"]) == (784, 99)


def test_types_that_kvsim_does_not_have_are_noted():
    config = CONFIG.format(model="org/Llama-3.1-8B", quantization="bitsandbytes", kv="nvfp4")
    text = imported(f"INFO Initializing a V1 LLM engine (v0.9.1) with {config}\n")
    assert "quantization" not in yaml.safe_load(text)["deployment"]
    assert "Not in kvsim, left at auto: deployment.quantization" in text
    assert "Not in kvsim, left at auto: deployment.kv_cache_dtype" in text


@pytest.mark.parametrize(
    ("model", "quantization"),
    [
        ("org/Qwen3-8B-FP8-dynamic", "fp8"),
        ("org/Qwen3-8B-quantized.w4a16", "int4"),
        ("org/Qwen3-8B-AWQ-4bit", "int4"),
        ("org/Qwen3-8B-quantized.w8a8", None),
    ],
)
def test_format_of_several_types_goes_by_the_name_of_the_model(model, quantization):
    config = CONFIG.format(model=model, quantization="compressed-tensors", kv="auto")
    text = imported(f"INFO Initializing a V1 LLM engine (v0.18.0) with {config}\n")
    assert yaml.safe_load(text)["deployment"].get("quantization") == quantization
    assert ("Not in kvsim, left at auto" in text) == (quantization is None)


def test_setting_under_its_newer_name():
    """Recent versions print enable_chunked_prefill in the line of the engine."""
    config = V1_CONFIG.replace("chunked_prefill_enabled=True", "enable_chunked_prefill=False")
    found = settings(f"INFO Initializing a V1 LLM engine (v0.18.0) with {config}\n")
    assert found["engine"]["enable_chunked_prefill"] is False
    assert found["engine"]["max_num_batched_tokens"] == 8192


@pytest.mark.parametrize("version", ["0.0.0", "dev", "0.1.dev8168+g475c1a0", "999.999.999"])
def test_builds_without_a_version_have_the_rules_of_the_default(version):
    text = imported(f"INFO Initializing a V1 LLM engine (v{version}) with {V1_CONFIG}\n")
    assert "vllm_version" not in yaml.safe_load(text)["engine"]
    assert f"Not a version that tells the rules: line 1: engine (v{version})" in text


def test_line_that_is_cut_off_gives_no_half_number():
    """`'max_num_seqs': 51` may be the beginning of 512."""
    text = imported(V1.splitlines()[1].partition("2, 'hf_over")[0] + "\n")
    assert "max_num_seqs" not in yaml.safe_load(text)["engine" if "engine:" in text else "workload"]
    assert "line 1 is cut off" in text


def test_unknown_model_is_said_and_another_stands_for_it(tmp_path):
    """Three GPUs cannot share the 32 heads of the model that stands for it."""
    config = CONFIG.format(model="/m/own", quantization="None", kv="auto")
    line = f"INFO Initializing a V1 LLM engine (v0.9.1) with {config}\n"
    text = imported(line.replace("tensor_parallel_size=4", "tensor_parallel_size=3"))
    assert "model: llama-3.1-8b  # '/m/own' is not in the catalogue" in text
    assert "Left out, deployment.tensor_parallel_size: 3" in text
    (tmp_path / "x.yaml").write_text(text, "utf-8")
    load_scenario(tmp_path / "x.yaml")


def test_what_is_left_out_is_what_cannot_be_and_nothing_else():
    """The model that stands for it has no experts to quantize, but can be shared by two GPUs."""
    config = CONFIG.format(model="/m/own", quantization="mxfp4", kv="auto")
    line = f"INFO Initializing a V1 LLM engine (v0.9.1) with {config}\n"
    text = imported(line.replace("tensor_parallel_size=4", "tensor_parallel_size=2"))
    assert "Left out, deployment.quantization: mxfp4" in text
    assert "tensor_parallel_size: 2  #" in text


def test_arguments_that_leave_it_to_vllm_are_no_settings():
    """Such as -1 tokens, for as many as fit."""
    line = "INFO [utils.py:1] non-default args: {'model': 'm/x', 'max_model_len': -1}\n"
    assert "engine" not in settings(line)


def test_what_kvsim_does_not_model_is_noted():
    line = V1.replace("pipeline_parallel_size=1", "pipeline_parallel_size=2")
    line = line.replace("speculative_config=None", "speculative_config=SpeculativeConfig(a=1)")
    text = imported(line)
    assert "pipeline_parallel_size=2" in text
    assert "speculative decoding" in text


@pytest.mark.parametrize("text", ["hello\nworld\n", "INFO 11-28 Starting\n"])
def test_other_texts_are_refused(text):
    with pytest.raises(UserError, match=r"^server.log: none of its \d lines is of the start"):
        imported(text)


def test_fields_are_read_and_not_run():
    """Names in inner brackets are not those of the outer ones, and no expression is a value."""
    fields = parse_fields(
        "a=1, b=[1, {'a': 2}], c='x, \\'y', d=__import__('os'), e=1.5, f=None, g=2 h=3) a=9",
        is_bracketed=True,
    )
    assert fields.values == {"a": 1, "c": "x, \\'y", "e": 1.5, "f": None, "g": 2}
    assert fields.is_whole


def test_long_line_takes_no_long_time():
    deep = "x=" + "(" * 200_000 + ", y=1"
    assert parse_fields(deep, is_bracketed=True).values == {}


def test_names_of_models_and_gpus():
    cached = "cache/hub/models--meta-llama--Llama-3.1-8B-Instruct/snapshots/0e9e39f2"
    assert find_model(cached) == "llama-3.1-8b"
    assert find_model("/models/own/", "Qwen/Qwen3-8B") == "qwen3-8b"
    assert find_model("/models/own") is None
    assert find_hardware("NVIDIA_H100_80GB_HBM3") == "h100-80gb"
    assert find_hardware("NVIDIA_GeForce_RTX_4090") == "rtx-4090"
    assert find_hardware("TPU_v9") is None
    assert scenario_name("org/A model_1/") == "vllm-A-model-1"


@pytest.mark.slow
def test_command_writes_a_scenario_that_runs(kvsim):
    with gzip.open(kvsim.folder / "server.log.gz", "wt", encoding="utf-8") as file:
        file.write(V1)
    done = kvsim("import", "vllm-log", "server.log.gz", "--out", "mine.yaml")
    assert (done.returncode, done.stdout) == (0, "")
    assert "to be replaced: hardware, workload.preset, workload.arrivals" in done.stderr
    ran = kvsim("run", "mine.yaml", "--set", "workload.requests=5", "--quiet")
    assert ran.returncode == 0, ran.stderr
    again = kvsim("import", "vllm-log", "server.log.gz", "--out", "mine.yaml")
    assert (again.returncode, again.stderr) == (
        2,
        "kvsim: mine.yaml: is there, expected a new file\n",
    )


def test_standard_input_is_a_log_too(kvsim):
    done = subprocess.run(
        kvsim.argv("import", "vllm-log", "-"),
        input=V0,
        cwd=kvsim.folder,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert yaml.safe_load(done.stdout)["engine"]["num_blocks"] == 27716
