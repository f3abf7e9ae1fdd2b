"""Campaigns on a real private cell, and what they recommend measured once more."""
