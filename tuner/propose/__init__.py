"""Proposals: which configurations to try next. The only package that imports optuna."""
