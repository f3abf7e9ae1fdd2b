"""The product as its users see it: the console script, on a real cell if one can run."""
