"""`lae bench`: our operator, our training loop and our sweeps timed against their peers, as ratios."""
