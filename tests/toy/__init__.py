"""A kind of service that is no part of fstune: a program with a configuration file, and its kind.

It shows what a further kind takes, and is tuned in a campaign of its own. ``installed`` is what an
installed package would put beside it: the entry point by which fstune finds it.
"""
