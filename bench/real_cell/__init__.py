"""Campaigns on a real private cell, with their recommendations measured once more."""
