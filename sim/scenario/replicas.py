"""The key `replicas`: how many engines serve the requests, and who decides which of them does."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from sim.router import RouterName
from sim.scenario.spec import Spec

MOST_REPLICAS = 1024


class ReplicasSpec(Spec):
    """Equal engines, each with a pool and a cache of its own, behind a router."""

    count: int = Field(1, ge=1, le=MOST_REPLICAS, description="How many engines.")
    router: RouterName = Field("round-robin", description="Who decides which gets a request.")


def counted(replicas: Any) -> Any:
    """A mapping of `replicas`; a bare number stands for the count."""
    return {"count": replicas} if type(replicas) in (int, float) else replicas


Replicas = Annotated[
    ReplicasSpec,
    BeforeValidator(
        counted, json_schema_input_type=Annotated[int, Field(ge=1, le=MOST_REPLICAS)] | ReplicasSpec
    ),
]
