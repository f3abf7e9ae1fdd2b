"""Who can propose configurations, one a file; each is a function from a seed to an Optuna sampler.

``grid`` proposes by itself. ``model`` is the other way round: fstune's own search
(``tuner.propose.search``) as an Optuna sampler, for studies of others. Campaigns ask the search
itself.
"""
