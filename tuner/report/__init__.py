"""Human-readable output: live progress, a campaign's answer, lists. Formatting only."""
