"""Campaigns: their specification, the plan that decides what is next, and the runner that does
it.
"""
