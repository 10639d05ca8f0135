"""Many runs: the store that keeps them, the sweep that fills it, the searches that choose them."""
