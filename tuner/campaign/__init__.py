"""Campaigns: their specification, the planner that decides the next step, and the runner that
executes it.
"""
