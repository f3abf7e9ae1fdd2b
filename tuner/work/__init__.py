"""Campaigns in processes of their own: begun at once, or put on a queue from which workers take
them.
"""
