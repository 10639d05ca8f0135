"""What notebooks draw and conclude: the paper's own numbers, statistics, figures, verdicts and the ledger."""
