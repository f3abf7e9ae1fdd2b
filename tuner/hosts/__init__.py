"""Commands on hosts: how they get there (here, by SSH, in a private cell), what comes back, and the
hold that keeps a host for one campaign and puts it back when nobody speaks for it any more.
"""
