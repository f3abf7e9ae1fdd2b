"""Running commands on hosts: local, SSH and private-cell connectors, and the hold that reserves a
host for one campaign and restores it when that campaign falls silent.
"""
