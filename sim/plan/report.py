"""Prints what a plan has found."""

from sim.plan.findings import Findings
from sim.plan.flags import vllm_command
from sim.plan.plan import Plan
from sim.plan.tables import alternatives_table, looks_table, neighbours_table, promises_table
from sim.plan.words import answer_lines, impossible_lines
from sim.tables import print_table


def print_findings(findings: Findings) -> None:
    """The answer and what it rests on; alternatives also where none has an answer."""
    best = findings.best
    if len(findings.plans) > 1:
        print_table(alternatives_table(findings))
    if findings.looks:
        print_table(looks_table(findings.looks, best.goal))
    if findings.impossible:
        print(*impossible_lines(findings.impossible), "", sep="\n")
    if best.answer is None:
        return
    for line in answer_lines(findings):
        print(line)
    for doubt in best.doubts:
        print(f"warning: {doubt}")
    print()
    print_table(promises_table(best))
    if findings.beside:
        print_table(neighbours_table(best, findings.beside))
    print(f"as options of vLLM{_of_each(best)}:\n")
    print(vllm_command(best.scenario, best.system))


def _of_each(plan: Plan) -> str:
    replicas = plan.scenario.replicas
    if replicas.count == 1:
        return ""
    return f", of each of {replicas.count} replicas behind a router ({replicas.router})"
