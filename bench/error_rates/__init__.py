"""How often the judge is wrong when there is nothing to find, under noise of many kinds."""
