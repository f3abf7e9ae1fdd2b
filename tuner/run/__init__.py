"""Runs of a campaign: the plan is executed, every result stored, every testbed restored."""
