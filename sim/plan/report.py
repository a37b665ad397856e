"""Prints what a plan has found."""

from sim.plan.findings import Findings
from sim.plan.flags import vllm_command
from sim.plan.tables import alternatives_table, looks_table, neighbours_table, promises_table
from sim.plan.words import answer_lines, impossible_lines
from sim.terminal import print_prose, print_table


def print_findings(findings: Findings) -> None:
    """The answer and what it rests on; alternatives also where none has an answer."""
    best = findings.best
    num_keys = max(len(findings.plans[0][0]), 1)
    if len(findings.plans) > 1:
        print_table(alternatives_table(findings), num_names=num_keys)
    if findings.looks:
        print_table(looks_table(findings.looks, best.goal), num_names=num_keys)
    if findings.impossible:
        for line in impossible_lines(findings.impossible):
            print_prose(line)
        print()
    if best.answer is None:
        return
    for line in answer_lines(findings):
        print_prose(line)
    for doubt in best.doubts:
        print_prose(f"warning: {doubt}")
    print()
    print_table(promises_table(best))
    if findings.beside:
        print_table(neighbours_table(best, findings.beside))
    print("as options of vLLM:\n")
    print(vllm_command(best.scenario, best.system))
