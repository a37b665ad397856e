"""Times the operators of one GPU's shard of a model, and writes them as tables.

`grid` and `shard` say what is timed and need no torch; `timing` says how; `layers`, `experts` and
`attention` are the operators; `measure` goes over the grid; `command` is `kvsim profile-gpu`.
"""
