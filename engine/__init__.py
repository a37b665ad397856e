"""A paged-KV serving engine: allocator, block tables, prefix trie, schedulers, toy transformer."""

from engine.config import ConfigError, EngineConfig
from engine.engine import Engine
from engine.kv_manager import KVManager, KVUsage
from engine.replay_engine import Progress, ReplayEngine
from engine.request import (
    Prompt,
    Request,
    RequestError,
    RequestId,
    SamplingParams,
    TokenOutput,
    TokenPrompt,
)
from engine.runners import (
    ReplayRunner,
    Runner,
    ScriptedLengthRunner,
    TeacherForcingRunner,
    ToyLMRunner,
)
from engine.scheduler import Scheduler
from engine.sequence import Sequence, Status
from engine.step import Chunk, Step
from engine.transformer import Transformer, TransformerConfig

__all__ = [
    "Chunk",
    "ConfigError",
    "Engine",
    "EngineConfig",
    "KVManager",
    "KVUsage",
    "Progress",
    "Prompt",
    "ReplayEngine",
    "ReplayRunner",
    "Request",
    "RequestError",
    "RequestId",
    "Runner",
    "SamplingParams",
    "Scheduler",
    "ScriptedLengthRunner",
    "Sequence",
    "Status",
    "Step",
    "TeacherForcingRunner",
    "TokenOutput",
    "TokenPrompt",
    "ToyLMRunner",
    "Transformer",
    "TransformerConfig",
]
