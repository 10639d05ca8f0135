"""Training: `config.RunConfig` names a run, `loop.run` makes its record, `lae data` fetches what it learns from."""
