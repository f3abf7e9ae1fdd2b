"""Hosts that a campaign may use: how commands reach them, and how a testbed is opened and given
back.
"""
