"""A kind of service that is not part of fstune: a program with a configuration file, and its kind.

It shows what a further kind requires, and has a campaign of its own in the tests. ``installed`` has
the metadata of an installed package: the entry point by which fstune finds the kind.
"""
