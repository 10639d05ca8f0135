"""What notebooks draw: one look for every pool, figures and tables."""
