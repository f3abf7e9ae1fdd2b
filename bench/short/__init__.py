"""How often nine minutes are enough: the campaign of ``make tune`` on simulated surfaces."""
