"""The colours of all figures, with or without matplotlib."""

# Okabe and Ito, "Color Universal Design", 2008: distinct under colour blindness and in grey.
SYSTEM_COLOURS = ("#E69F00", "#0072B2", "#009E73", "#CC79A7", "#D55E00", "#56B4E9")
LEDGER_COLOURS = {
    "live": "#0072B2",
    "tail": "#56B4E9",
    "reserved": "#F0E442",
    "over_reserved": "#D55E00",
    "cached": "#009E73",
    "unusable": "#999999",
    "free": "#EEEEEE",
}
# Hatched, or paler: what preemptions cost.
PART_COLOURS = {
    "ttft_step_ns": "#DDDDDD",
    "ttft_slots_ns": "#56B4E9",
    "ttft_blocks_ns": "#0072B2",
    "ttft_budget_ns": "#CC79A7",
    "ttft_batch_ns": "#F0E442",
    "ttft_prefill_ns": "#009E73",
    "ttft_other_prefills_ns": "#E69F00",
    "ttft_decodes_ns": "#999999",
    "ttft_preempted_ns": "#D55E00",
    "ttft_recompute_ns": "#D55E00",
}
HATCHED_PART = "ttft_recompute_ns"
QUEUE_COLOURS = {"running": "#0072B2", "waiting": "#D55E00"}
PREFIX_COLOURS = {
    "hit": "#009E73",
    "partial": "#56B4E9",
    "unseen": "#DDDDDD",
    "evicted": "#D55E00",
}
