"""The named recipes: training runs of minutes on one CPU core whose networks work.

Each is a `RunConfig` with average pooling; experiments change its pool and seed. What they reach is recorded by `lae bench recipes`.
"""
