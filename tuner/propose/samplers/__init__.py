"""Samplers, one per file; each is a function from a seed to an Optuna sampler.

There are two exceptions: ``grid`` does not use Optuna, and ``model`` goes the other way, providing
fstune's own search (``tuner.propose.search``) as an Optuna sampler for use in other studies.
Campaigns use the search directly.
"""
