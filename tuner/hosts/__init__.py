"""Hosts: connectors that run commands there (local, SSH, private cell), and the hold on a host.

The hold reserves a host for one campaign, and restores it when that campaign falls silent.
"""
