"""Who can propose configurations, one a file; each is a function from a seed to an Optuna sampler.

``model`` is not among them: it is fstune's own (``tuner.propose.search``).
"""
