"""What notebooks conclude: numbers from records, statistics, comparisons, rules, verdicts and the ledger."""
