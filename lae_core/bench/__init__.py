"""What measures: `lae bench` times operator, training and sweeps as ratios; accuracy against exact arithmetic."""
