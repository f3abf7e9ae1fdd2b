"""Proposals: which configurations to try next. The only room that knows optuna."""
