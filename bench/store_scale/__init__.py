"""How fast long campaigns are resumed and displayed."""
