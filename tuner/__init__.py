"""The tuning engine: campaigns, trials, judgement and storage; knows nothing of HTTP."""

__version__ = "0.1.0"
