"""Times the operators of one GPU's shard of a model, and writes them as tables.

`points` and `shard` say what is timed and need no torch; `timing` says how; `layers`, `experts` and
`attention` are the operators; `measure` goes over the points; `command` is `kvsim profile-gpu`.
"""
