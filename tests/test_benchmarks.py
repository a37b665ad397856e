"""The benchmarks run and print what they promise; how fast, no test asks."""

import pytest

from benchmarks.million import main

MODES = {
    "as it is": {},
    "stepwise": {"stepwise": True},
    "shared prompts": {"shared_tokens": 400, "prefix_caching": True},
    "asynchronous, long outputs": {"asynchronous": True, "output_factor": 2.0},
}


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
def test_a_small_run_prints_every_figure(options: dict, capsys: pytest.CaptureFixture) -> None:
    main(requests=30, **options)
    lines = capsys.readouterr().out.splitlines()
    figures = {line[:28].strip(): float(line[28:].replace(",", "")) for line in lines}
    assert figures.keys() == {
        "requests",
        "simulated requests/s",
        "simulated output tokens/s",
        "steps per request",
        "SimPy events per request",
        "running at once, mean",
        "pool held, %",
        "preemptions",
        "generate, s",
        "simulate, s",
        "summarise, s",
        "altogether, s",
        "peak memory, MB",
    }
    assert figures["requests"] == 30
    assert figures["steps per request"] > 1
